#include "cube/h5.h"
#include "records/seal.h"
#include "util/mem.h"
#include <stdio.h>

/* Bytes by which the file in memory grows. */
enum { INCREMENT = 1 << 24 };

/* A name for files in memory that cannot exist: /dev/null is not a folder. */
static const char nowhere[] = "/dev/null/cube";

/* --- errors --- */

void h5_quiet(void)
{
    H5dont_atexit(); /* it would complain at exit of a file that it had no memory to close */
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

struct cause {
    char text[256]; /* of the innermost error */
    bool memory;    /* it began with an allocation */
};

static herr_t take_cause(unsigned n, const H5E_error2_t *error, void *out)
{
    struct cause *c = out;
    if (n == 0) snprintf(c->text, sizeof c->text, "%s (%s)", error->desc, error->func_name);
    c->memory = c->memory || error->min_num == H5E_NOSPACE || error->min_num == H5E_CANTALLOC;
    return 0;
}

enum status h5_fail(struct err *e, enum status code, int line, const char *file, const char *name,
                    const char *what)
{
    struct cause c = {.text = "no reason given"};
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_cause, &c);
    return err_set(e, c.memory ? ERR_NOMEM : code, file, line, "%s: %s: %sHDF5: %s", name, what,
                   c.memory ? "out of memory: " : "", c.text);
}

/* --- files in memory --- */

/* Fails unless there is memory for a file of n bytes. HDF5 1.10 may crash where it gets none. */
static enum status have_room(const char *name, size_t n, struct err *e)
{
    AUTO_FREE void *room = malloc(n + 2 * INCREMENT);
    NEED(room, ERR_NOMEM, "%s: out of memory: %zu bytes for HDF5", name, n + 2 * INCREMENT);
    return OK;
}

void h5_close_file(const hid_t *id)
{
    if (*id >= 0) H5Fclose(*id);
}

void h5_close(const hid_t *id)
{
    if (*id >= 0) H5Idec_ref(*id);
}

enum status h5_create(const char *name, hid_t *file, struct err *e)
{
    CLEANUP(h5_close) hid_t access = -1, creation = -1;
    PASS(have_room(name, INCREMENT, e));
    access = H5Pcreate(H5P_FILE_ACCESS);
    creation = H5Pcreate(H5P_FILE_CREATE);
    H5_NEED(access >= 0 && creation >= 0, ERR_INTERNAL, name, "property lists");
    H5_NEED(H5Pset_fapl_core(access, INCREMENT, false) >= 0, ERR_INTERNAL, name, "memory driver");
    /* The format that every reader since HDF5 1.8 can open. */
    H5_NEED(H5Pset_libver_bounds(access, H5F_LIBVER_EARLIEST, H5F_LIBVER_V110) >= 0, ERR_INTERNAL,
            name, "format bounds");
    H5_NEED(H5Pset_link_creation_order(creation, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED) >=
                0,
            ERR_INTERNAL, name, "creation order");
    H5_NEED(H5Pset_obj_track_times(creation, false) >= 0, ERR_INTERNAL, name, "times");
    *file = H5Fcreate(nowhere, H5F_ACC_TRUNC, creation, access);
    H5_NEED(*file >= 0, ERR_INTERNAL, name, "a file in memory");
    return OK;
}

enum status h5_image(hid_t file, const char *name, const struct journal_mark *mark, char **data,
                     size_t *n, struct err *e)
{
    AUTO_FREE char *image = NULL;
    H5_NEED(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0, ERR_INTERNAL, name, "flush");
    ssize_t size = H5Fget_file_image(file, NULL, 0);
    H5_NEED(size > 0, ERR_INTERNAL, name, "size");
    PASS(mem_alloc(&image, size + (ssize_t)seal_size(), 1, "the cube's bytes", e));
    H5_NEED(H5Fget_file_image(file, image, (size_t)size) == size, ERR_INTERNAL, name, "bytes");
    seal_put(image, (size_t)size, mark);
    *data = TAKE(image);
    *n = (size_t)size + seal_size();
    return OK;
}

enum status h5_open_image(const char *name, char *data, size_t n, hid_t *file,
                          struct journal_mark *mark, bool *sealed, struct err *e)
{
    CLEANUP(h5_close) hid_t access = -1;
    PASS(seal_take(name, data, &n, mark, sealed, e));
    PASS(have_room(name, n, e));
    access = H5Pcreate(H5P_FILE_ACCESS);
    H5_NEED(access >= 0 && H5Pset_fapl_core(access, INCREMENT, false) >= 0 &&
                H5Pset_file_image(access, data, n) >= 0,
            ERR_FORMAT, name, "memory driver");
    *file = H5Fopen(nowhere, H5F_ACC_RDONLY, access);
    H5_NEED(*file >= 0, ERR_FORMAT, name, "not a readable HDF5 file");
    return OK;
}

/* --- types and attributes --- */

enum status h5_type(enum field_type type, bool in_file, hid_t *out, struct err *e)
{
    const hid_t types[FIELD_TYPES][2] = {
        [FIELD_REAL] = {H5T_NATIVE_DOUBLE, H5T_IEEE_F64LE},
        [FIELD_INTEGER] = {H5T_NATIVE_INT64, H5T_STD_I64LE},
        [FIELD_STATUS] = {H5T_NATIVE_UINT8, H5T_STD_U8LE},
        [FIELD_TEXT] = {H5T_C_S1, H5T_C_S1},
    };
    *out = H5Tcopy(types[type][in_file]);
    H5_NEED(*out >= 0, ERR_INTERNAL, "cube", "type");
    if (type != FIELD_TEXT) return OK;
    H5_NEED(H5Tset_size(*out, H5T_VARIABLE) >= 0 && H5Tset_cset(*out, H5T_CSET_UTF8) >= 0,
            ERR_INTERNAL, "cube", "text type");
    return OK;
}

enum status h5_put_array(hid_t object, const char *key, enum field_type type, const void *values,
                         int64_t n, struct err *e)
{
    CLEANUP(h5_close) hid_t in_file = -1, in_memory = -1, attribute = -1;
    CLEANUP(h5_close)
    hid_t space = n < 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &(hsize_t){(hsize_t)n}, NULL);
    H5_NEED(space >= 0, ERR_INTERNAL, key, "dataspace");
    PASS(h5_type(type, true, &in_file, e));
    PASS(h5_type(type, false, &in_memory, e));
    attribute = H5Acreate2(object, key, in_file, space, H5P_DEFAULT, H5P_DEFAULT);
    H5_NEED(attribute >= 0 && H5Awrite(attribute, in_memory, values) >= 0, ERR_INTERNAL, key,
            "attribute");
    return OK;
}

enum status h5_put_text(hid_t object, const char *key, const char *text, struct err *e)
{
    return h5_put_array(object, key, FIELD_TEXT, &text, -1, e);
}

/* --- reading --- */

bool h5_has(hid_t file, const char *group, const char *variable)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", group, variable);
    return H5Lexists(file, group, H5P_DEFAULT) > 0 && H5Lexists(file, path, H5P_DEFAULT) > 0;
}

enum status h5_read(hid_t file, const char *name, const char *path, enum field_type type,
                    int64_t *n, union cube_data *out, struct err *e)
{
    CLEANUP(h5_close) hid_t set = H5Dopen2(file, path, H5P_DEFAULT), space = -1, in_memory = -1;
    union cube_data data = {NULL};
    H5_NEED(set >= 0 && (space = H5Dget_space(set)) >= 0, ERR_FORMAT, name, path);
    int64_t found = (int64_t)H5Sget_simple_extent_npoints(space);
    H5_NEED(found >= 0, ERR_FORMAT, name, path);
    if (*n < 0) *n = found;
    NEED(found == *n, ERR_FORMAT, "%s: %s: %lld values, expected %lld", name, path,
         (long long)found, (long long)*n);
    PASS(h5_type(type, false, &in_memory, e));
    PASS(mem_zero(&data.any, *n, cube_element_size[type], path, e));
    const bool read =
        *n == 0 || H5Dread(set, in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data.any) >= 0;
    if (!read) h5_free_data(&data, type, *n);
    H5_NEED(read, ERR_FORMAT, name, path);
    *out = data;
    return OK;
}

void h5_free_data(union cube_data *data, enum field_type type, int64_t n)
{
    if (!data->any) return;
    for (int64_t i = 0; type == FIELD_TEXT && i < n; i++)
        if (data->t[i]) H5free_memory((void *)(uintptr_t)data->t[i]);
    mem_drop(&data->any);
}

const char *results_hdf5_version(void)
{
    static char text[48];
    unsigned major, minor, release;
    if (H5get_libversion(&major, &minor, &release) < 0) return "unknown";
    snprintf(text, sizeof text, "%u.%u.%u", major, minor, release);
    return text;
}
