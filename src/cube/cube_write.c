/* Writes the cube as a netCDF-4 file: axes are dimension scales, attributes follow CF-1.10. The
 * file is made in memory, written as bytes, read back, compared and renamed. */
#include "cube/cube_build.h"
#include "cube/h5.h"
#include "records/seal.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/temporary.h"
#include <errno.h>
#include <hdf5_hl.h>
#include <math.h>
#include <sys/stat.h>

/* Bytes of an element in a file. */
static const size_t element_bytes[FIELD_TYPES] = {
    [FIELD_REAL] = 8, [FIELD_INTEGER] = 8, [FIELD_STATUS] = 1, [FIELD_TEXT] = 16};

enum { CHUNKED_FROM = 8192, CHUNK_BYTES = 1 << 18, DEFLATE = 4 };

/* State of making a file. */
struct writer {
    const char *name; /* for messages */
    hid_t file;
    const struct cube *cube;
    hid_t *scales; // (dims of the cube), -1: not made yet
};

/* --- one variable --- */

static enum status make_path(const struct cube_variable *x, char **out, struct err *e)
{
    return mem_format(out, e, "%s%s%s", x->group, x->group[0] ? "/" : "", x->name);
}

/* Small variables and texts (whose bytes are elsewhere, and which HDF5 does not filter) are
 * contiguous. Larger ones are stored in chunks, halved along their longest axis until small enough,
 * each compressed and with a checksum. */
static enum status set_layout(hid_t properties, const struct cube_variable *x, const hsize_t *shape,
                              struct err *e)
{
    hsize_t chunk[CUBE_RANK];
    size_t bytes = (size_t)x->n * element_bytes[x->type];
    if (bytes < CHUNKED_FROM || x->type == FIELD_TEXT) return OK;
    memcpy(chunk, shape, sizeof chunk);
    for (;;) {
        int longest = 0;
        size_t size = element_bytes[x->type];
        for (int k = 0; k < x->rank; k++) {
            size *= chunk[k];
            if (chunk[k] > chunk[longest]) longest = k;
        }
        if (size <= CHUNK_BYTES) break;
        chunk[longest] = (chunk[longest] + 1) / 2;
    }
    H5_NEED(H5Pset_chunk(properties, x->rank, chunk) >= 0 && H5Pset_shuffle(properties) >= 0 &&
                H5Pset_deflate(properties, DEFLATE) >= 0 && H5Pset_fletcher32(properties) >= 0,
            ERR_INTERNAL, x->name, "chunks");
    return OK;
}

/* NULL: none. */
static const void *fill_value(const struct cube_variable *x)
{
    static const double real = NAN;
    static const int64_t integer = -1;
    return !x->may_miss ? NULL : x->type == FIELD_REAL ? (const void *)&real : &integer;
}

static enum status create_dataset(const struct writer *w, const struct cube_variable *x, hid_t *set,
                                  struct err *e)
{
    AUTO_FREE char *path = NULL;
    hsize_t shape[CUBE_RANK] = {0};
    CLEANUP(h5_close) hid_t type = -1, space = -1, properties = H5Pcreate(H5P_DATASET_CREATE);
    for (int k = 0; k < x->rank; k++) shape[k] = (hsize_t)w->cube->dims[x->dims[k]].n;
    PASS(make_path(x, &path, e));
    H5_NEED(properties >= 0 && H5Pset_obj_track_times(properties, false) >= 0, ERR_INTERNAL,
            x->name, "properties");
    PASS(set_layout(properties, x, shape, e));
    PASS(h5_type(x->type, true, &type, e));
    if (fill_value(x))
        H5_NEED(H5Pset_fill_value(properties,
                                  x->type == FIELD_REAL ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT64,
                                  fill_value(x)) >= 0,
                ERR_INTERNAL, x->name, "fill value");
    space = x->rank ? H5Screate_simple(x->rank, shape, NULL) : H5Screate(H5S_SCALAR);
    H5_NEED(space >= 0, ERR_INTERNAL, x->name, "dataspace");
    *set = H5Dcreate2(w->file, path, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    H5_NEED(*set >= 0, ERR_INTERNAL, x->name, "dataset");
    return OK;
}

static enum status put_attributes(hid_t set, const struct cube_variable *x, struct err *e)
{
    if (x->long_name) PASS(h5_put_text(set, "long_name", x->long_name, e));
    if (x->units) PASS(h5_put_text(set, "units", x->units, e));
    if (x->coordinates) PASS(h5_put_text(set, "coordinates", x->coordinates, e));
    if (fill_value(x)) PASS(h5_put_array(set, "_FillValue", x->type, fill_value(x), 1, e));
    if (x->type == FIELD_STATUS) {
        uint8_t values[STATE_N];
        char meanings[128] = "";
        for (int i = 0; i < STATE_N; i++) {
            const size_t n = strlen(meanings);
            values[i] = (uint8_t)i;
            snprintf(meanings + n, sizeof meanings - n, "%s%s", i ? " " : "",
                     result_state_words[i]);
        }
        PASS(h5_put_array(set, "flag_values", FIELD_STATUS, values, STATE_N, e));
        PASS(h5_put_text(set, "flag_meanings", meanings, e));
    }
    if (x->volatile_) PASS(h5_put_array(set, "volatile", FIELD_INTEGER, &(int64_t){1}, 1, e));
    return OK;
}

/* The caller closes *set. */
static enum status put_variable(const struct writer *w, const struct cube_variable *x, hid_t *set,
                                struct err *e)
{
    CLEANUP(h5_close) hid_t in_memory = -1;
    PASS(create_dataset(w, x, set, e));
    PASS(h5_type(x->type, false, &in_memory, e));
    if (x->n > 0)
        H5_NEED(H5Dwrite(*set, in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, x->data.any) >= 0,
                ERR_INTERNAL, x->name, "write");
    if (x->is_scale)
        H5_NEED(H5DSset_scale(*set, x->name) >= 0, ERR_INTERNAL, x->name, "dimension scale");
    for (int k = 0; !x->is_scale && k < x->rank; k++)
        H5_NEED(H5DSattach_scale(*set, w->scales[x->dims[k]], (unsigned)k) >= 0, ERR_INTERNAL,
                x->name, "dimension scale");
    return put_attributes(*set, x, e);
}

/* --- the file --- */

/* netCDF's form of an axis without coordinates: a dataset of its length that is never written. */
static enum status put_bare_dimension(struct writer *w, int d, struct err *e)
{
    const struct cube_dim *dim = &w->cube->dims[d];
    char label[80];
    const struct cube_variable x = {.group = dim->group,
                                    .name = dim->name,
                                    .type = FIELD_STATUS,
                                    .rank = 1,
                                    .dims = {d},
                                    .n = 0 /* nothing to write, no chunks */};
    snprintf(label, sizeof label, "This is a netCDF dimension but not a netCDF variable.%10lld",
             (long long)dim->n);
    PASS(create_dataset(w, &x, &w->scales[d], e));
    H5_NEED(H5DSset_scale(w->scales[d], label) >= 0, ERR_INTERNAL, dim->name, "dimension scale");
    return OK;
}

/* Makes the group unless it exists. */
static enum status put_group(const struct writer *w, const char *name, struct err *e)
{
    CLEANUP(h5_close) hid_t group = -1, properties = -1;
    if (!name[0] || H5Lexists(w->file, name, H5P_DEFAULT) > 0) return OK;
    properties = H5Pcreate(H5P_GROUP_CREATE);
    H5_NEED(properties >= 0 && H5Pset_obj_track_times(properties, false) >= 0 &&
                H5Pset_link_creation_order(properties,
                                           H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED) >= 0,
            ERR_INTERNAL, name, "properties");
    group = H5Gcreate2(w->file, name, H5P_DEFAULT, properties, H5P_DEFAULT);
    H5_NEED(group >= 0, ERR_INTERNAL, name, "group");
    return OK;
}

static enum status put_all(struct writer *w, struct err *e)
{
    CLEANUP(h5_close) hid_t root = H5Gopen2(w->file, "/", H5P_DEFAULT);
    H5_NEED(root >= 0, ERR_INTERNAL, w->name, "root");
    PASS(h5_put_text(root, "Conventions", "CF-1.10", e));
    PASS(h5_put_text(root, "title", w->cube->title, e));
    PASS(h5_put_text(root, "source", w->cube->source, e));
    PASS(h5_put_text(root, "history", w->cube->history, e));
    PASS(h5_put_array(root, "schema_version", FIELD_INTEGER, &(int64_t){CUBE_SCHEMA}, 1, e));
    for (int64_t i = 0; i < w->cube->n; i++) PASS(put_group(w, w->cube->variables[i]->group, e));
    for (int64_t i = 0; i < w->cube->n; i++) {
        const struct cube_variable *x = w->cube->variables[i];
        if (x->is_scale) PASS(put_variable(w, x, &w->scales[x->dims[0]], e));
    }
    for (int d = 0; d < (int)w->cube->n_dims; d++)
        if (w->scales[d] < 0 && !w->cube->dims[d].absent) PASS(put_bare_dimension(w, d, e));
    for (int64_t i = 0; i < w->cube->n; i++) {
        const struct cube_variable *x = w->cube->variables[i];
        CLEANUP(h5_close) hid_t set = -1;
        if (!x->is_scale) PASS(put_variable(w, x, &set, e));
    }
    return OK;
}

/* The caller frees *data. */
static enum status make_image(const struct cube *c, const char *name,
                              const struct journal_mark *mark, char **data, size_t *n,
                              struct err *e)
{
    enum status st = OK;
    struct writer w = {.name = name, .file = -1, .cube = c};
    TRY(mem_alloc(&w.scales, c->n_dims, sizeof *w.scales, "dimensions", e));
    for (int64_t d = 0; d < c->n_dims; d++) w.scales[d] = -1;
    TRY(h5_create(name, &w.file, e));
    st = put_all(&w, e);
    for (int64_t d = 0; d < c->n_dims; d++)
        if (w.scales[d] >= 0) H5Dclose(w.scales[d]);
    if (st == OK) st = h5_image(w.file, name, mark, data, n, e);
done:
    free(w.scales);
    if (w.file >= 0) H5Fclose(w.file);
    return st;
}

/* --- to disk and back --- */

static enum status verify_variable(hid_t file, const char *name, const struct cube_variable *x,
                                   struct err *e)
{
    AUTO_FREE char *path = NULL;
    union cube_data found = {NULL};
    bool same = true;
    PASS(make_path(x, &path, e));
    PASS(h5_read(file, name, path, x->type, &(int64_t){x->n}, &found, e));
    if (x->type == FIELD_TEXT)
        for (int64_t i = 0; i < x->n && same; i++)
            same = strcmp(found.t[i] ? found.t[i] : "", x->data.t[i] ? x->data.t[i] : "") == 0;
    else
        same = memcmp(found.any, x->data.any, (size_t)x->n * element_bytes[x->type]) == 0;
    h5_free_data(&found, x->type, x->n);
    NEED(same, ERR_INTERNAL, "%s: %s was not read back as it was written", name, path);
    return OK;
}

/* Compares the file on disk with the intended bytes and variables. */
static enum status verify(const struct cube *c, const char *path, const char *image, size_t n,
                          struct err *e)
{
    CLEANUP(h5_close_file) hid_t file = -1;
    struct journal_mark mark;
    bool sealed;
    AUTO_FREE char *data = NULL;
    size_t size;
    PASS(fsx_read(path, 0, &data, &size, e));
    NEED(size == n && memcmp(data, image, n) == 0, ERR_IO,
         "%s: what is read back differs from what was written (%zu bytes)", path, n);
    PASS(h5_open_image(path, data, size, &file, &mark, &sealed, e));
    for (int64_t i = 0; i < c->n; i++) PASS(verify_variable(file, path, c->variables[i], e));
    return OK;
}

enum status cube_write(const char *path, const struct results_view *v, struct lock *lock,
                       struct err *e)
{
    CLEANUP(cube_free) struct cube c = {0};
    struct journal_mark mark;
    CLEANUP(temporary_end_at) char *temporary = NULL;
    AUTO_FREE char *image = NULL;
    size_t n;
    h5_quiet();
    PASS(temporary_begin(path, &temporary, e));
    PASS(cube_build(v, &c, e));
    mark = v->mark;
    PASS(make_image(&c, temporary, &mark, &image, &n, e));
    PASS(fsx_write_file(temporary, image, n, e));
    PASS(verify(&c, temporary, image, n, e));
    if (lock) PASS(lock_check(lock, e));
    return fsx_publish(temporary, path, e);
}

enum status cube_check_place(const char *what, const char *path, struct err *e)
{
    struct stat info;
    bool is;
    if (stat(path, &info) != 0 && errno == ENOENT) return OK;
    NEED(!fsx_is_dir(path), ERR_USAGE, "%s%s is a folder; give the name of a file", what, path);
    NEED(fsx_is_file(path), ERR_USAGE, "%s%s is not a file that can be replaced; name another",
         what, path);
    PASS(seal_is_cube(path, &is, e));
    NEED(
        is, ERR_USAGE,
        "%s%s is no results cube of qtraj, and is not replaced; move it away, or name another file",
        what, path);
    return OK;
}
