/* Records → journal → view → cube → view → cube: nothing is lost except the difference between NaN
 * and absent. */
#include "sample.h"
#include <dlfcn.h>
#include <hdf5.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* A record as read back from a cube: without NaN and "", which a cube cannot distinguish from
 * absent. */
static json_t *without_nan(const json_t *value)
{
    json_t *copy = json_deep_copy(value);
    const char *key, *dataset;
    void *next, *next_dataset;
    json_t *one, *numbers, *layer;
    size_t i;
    json_object_foreach_safe(json_object_get(copy, "values"), next, key, one)
        if (json_is_string(one) && strcmp(json_string_value(one), "nan") == 0)
            json_object_del(json_object_get(copy, "values"), key);
    json_object_foreach(json_object_get(copy, "datasets"), dataset, numbers)
        json_object_foreach_safe(numbers, next_dataset, key, one)
            if (json_is_string(one) && strcmp(json_string_value(one), "nan") == 0)
                json_object_del(numbers, key);
    json_array_foreach(json_object_get(copy, "layers"), i, layer)
        json_object_foreach_safe(layer, next, key, one)
            if (json_is_string(one) && strcmp(json_string_value(one), "nan") == 0)
                json_object_del(layer, key);
    return copy;
}

static void assert_json_equal(const json_t *a, const json_t *b)
{
    char *x = json_dumps(a, JSON_SORT_KEYS | JSON_INDENT(1) | JSON_ENCODE_ANY);
    char *y = json_dumps(b, JSON_SORT_KEYS | JSON_INDENT(1) | JSON_ENCODE_ANY);
    assert_string_equal(x, y);
    free(x);
    free(y);
}

static void check_record(const struct results_view *a, const struct results_view *b,
                         const char *key)
{
    const json_t *x = results_view_find(a, key), *y = results_view_find(b, key);
    if (!x) {
        assert_null(y);
        return;
    }
    assert_non_null(y);
    json_t *clean = without_nan(x);
    assert_json_equal(clean, y);
    json_decref(clean);
}

static void check_views(const struct results_view *a, const struct results_view *b)
{
    assert_json_equal(a->plan, b->plan);
    for (int c = 0; c < SAMPLE_CHECKPOINTS; c++) {
        check_record(a, b, sample_checkpoint_keys[c]);
        check_record(a, b, sample_curvature_keys[c]);
        check_record(a, b, sample_movement_keys[c]);
        for (int v = 0; v < SAMPLE_VARIANTS; v++) {
            char key[HASH_HEX];
            results_cell_key(sample_checkpoint_keys[c], sample_variant_keys[v], key);
            check_record(a, b, key);
        }
    }
    for (int k = 0; k < SAMPLE_POINTS; k++) {
        char key[HASH_HEX];
        sample_point_key(k, key);
        check_record(a, b, key);
    }
}

static void assert_same_bytes(const char *a, const char *b)
{
    char *x, *y;
    size_t n, m;
    assert_int_equal(fsx_read(a, 0, &x, &n, NULL), OK);
    assert_int_equal(fsx_read(b, 0, &y, &m, NULL), OK);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

static void round_trip(void **state)
{
    (void)state;
    char *folder = sample_folder();
    char *first = sample_path(folder, "a.h5"), *second = sample_path(folder, "b.h5");
    struct results_view *v = sample_view(folder, true), *back = NULL;
    struct err e = {0};
    if (cube_write(first, v, NULL, &e) != OK) fail_msg("%s%s", e.text, e.trail);
    if (results_view_open(first, VIEW_ALL, NULL, &back, &e) != OK)
        fail_msg("%s%s", e.text, e.trail);
    check_views(v, back);
    assert_json_equal(v->end, back->end);
    assert_int_equal(cube_write(second, back, NULL, &e), OK);
    assert_same_bytes(first, second);
    assert_int_equal(cube_write(second, v, NULL, &e), OK);
    assert_same_bytes(first, second);
    results_view_close(v);
    results_view_close(back);
    free(first);
    free(second);
    sample_remove(folder);
}

/* A damaged cube is refused with a message, never a crash; most damage is detected by the checksums
 * of chunks, and damage elsewhere must not crash the reader. */
static void damaged_cubes(void **state)
{
    (void)state;
    char *folder = sample_folder(), *path = sample_path(folder, "a.h5"), *data;
    struct results_view *v = sample_view(folder, true);
    size_t n;
    assert_int_equal(cube_write(path, v, NULL, NULL), OK);
    assert_int_equal(fsx_read(path, 0, &data, &n, NULL), OK);
    /* Truncation inside the seal after the HDF5 bytes leaves a whole cube without a seal. */
    for (size_t cut = 8; cut + 192 < n; cut += n / 40) {
        struct results_view *back;
        struct err e = {0};
        FILE *f = fopen(path, "wb");
        assert_int_equal(fwrite(data, 1, cut, f), cut);
        fclose(f);
        assert_int_equal(results_view_open(path, VIEW_ALL, NULL, &back, &e), ERR_FORMAT);
        assert_non_null(strstr(e.text, path));
    }
    free(data);
    results_view_close(v);
    free(path);
    sample_remove(folder);
}

/* A flipped bit anywhere is detected; in the seal's marker it is harmless. */
static void flipped_bits(void **state)
{
    (void)state;
    char *folder = sample_folder(), *path = sample_path(folder, "a.h5"), *data;
    struct results_view *v = sample_view(folder, true);
    size_t n, noticed = 0, flips = 0;
    assert_int_equal(cube_write(path, v, NULL, NULL), OK);
    assert_int_equal(fsx_read(path, 0, &data, &n, NULL), OK);
    for (size_t bit = 64; bit < 8 * n; bit += 8 * n / 200 + 3, flips++) {
        struct results_view *back;
        struct err e = {0};
        data[bit / 8] ^= (char)(1 << bit % 8);
        FILE *f = fopen(path, "wb");
        assert_int_equal(fwrite(data, 1, n, f), n);
        fclose(f);
        data[bit / 8] ^= (char)(1 << bit % 8);
        if (results_view_open(path, VIEW_ALL, NULL, &back, &e) == OK) {
            results_view_close(back);
            continue;
        }
        assert_int_equal(e.code, ERR_FORMAT);
        assert_non_null(strstr(e.text, "checksum"));
        noticed++;
    }
    assert_true(flips >= 190 && noticed + 1 >= flips);
    free(data);
    results_view_close(v);
    free(path);
    sample_remove(folder);
}

/* What a cube says of its journal; an earlier version's seal has only the digest; a cube without a
 * seal is read all the same. */
static void the_seal_names_the_journal(void **state)
{
    (void)state;
    static const char mark_head[] = "\nqtraj journal ", digest_head[] = "\nqtraj xxh128 ";
    char *folder = sample_folder(), *path = sample_path(folder, "a.h5"), *data;
    struct results_view *v = sample_view(folder, true), *back;
    const struct journal_mark made = v->mark;
    struct journal_mark mark;
    char hex[HASH_HEX];
    size_t n;
    assert_true(made.bytes > 0 && made.line < made.bytes);
    assert_int_equal(cube_write(path, v, NULL, NULL), OK);
    assert_int_equal(cube_mark(path, &mark, NULL), OK);
    assert_memory_equal(&mark, &made, sizeof mark);
    assert_int_equal(fsx_read(path, 0, &data, &n, NULL), OK);
    char *tail = memmem(data, n, mark_head, sizeof mark_head - 1);
    assert_non_null(tail);
    const size_t bytes = (size_t)(tail - data);
    hash_bytes(data, bytes, hex);
    const size_t old = bytes + (size_t)sprintf(tail, "%s%s\n", digest_head, hex);
    for (size_t size = bytes; size <= old; size += old - bytes) {
        assert_int_equal(fsx_write_atomic(path, data, size, NULL), OK);
        assert_int_equal(results_view_open(path, VIEW_ALL, NULL, &back, NULL), OK);
        assert_int_equal(back->mark.bytes, 0);
        assert_int_equal(cube_mark(path, &mark, NULL), OK);
        assert_int_equal(mark.bytes, 0);
        results_view_close(back);
    }
    data[bytes / 2] ^= 1;
    assert_int_equal(fsx_write_atomic(path, data, old, NULL), OK);
    assert_int_equal(cube_mark(path, &mark, NULL), OK); /* damaged: to be made again */
    assert_int_equal(mark.bytes, 0);
    free(data);
    results_view_close(v);
    free(path);
    sample_remove(folder);
}

/* Only a cube is replaced, also a damaged one. */
static void what_may_be_replaced(void **state)
{
    (void)state;
    char *folder = sample_folder(), *path = sample_path(folder, "a.h5"), *data;
    struct results_view *v = sample_view(folder, true);
    struct err e = {0};
    size_t n;
    assert_int_equal(cube_check_place("", path, NULL), OK); /* nothing is there */
    assert_int_equal(cube_write(path, v, NULL, NULL), OK);
    assert_int_equal(cube_check_place("", path, NULL), OK);
    assert_int_equal(fsx_read(path, 0, &data, &n, NULL), OK);
    data[n / 2] ^= 1;
    assert_int_equal(fsx_write_atomic(path, data, n / 2 + 1, NULL), OK);
    assert_int_equal(cube_check_place("", path, NULL), OK);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file);
    assert_int_equal(cube_check_place("results: ", path, &e), ERR_USAGE); /* another's HDF5 */
    assert_ptr_equal(strstr(e.text, "results: "), e.text);
    assert_non_null(strstr(e.text, path));
    assert_int_equal(fsx_write_atomic(path, "text", 4, NULL), OK);
    assert_int_equal(cube_check_place("", path, NULL), ERR_USAGE);
    assert_int_equal(cube_check_place("", folder, NULL), ERR_USAGE);
    free(data);
    results_view_close(v);
    free(path);
    sample_remove(folder);
}

static void not_results(void **state)
{
    (void)state;
    char *folder = sample_folder(), *path = sample_path(folder, "a.h5");
    struct results_view *v;
    struct err e = {0};
    assert_int_equal(results_view_open(path, VIEW_ALL, NULL, &v, &e), ERR_IO);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(file >= 0);
    H5Fclose(file);
    err_clear(&e);
    assert_int_equal(results_view_open(path, VIEW_ALL, NULL, &v, &e),
                     ERR_FORMAT); /* another program's HDF5 */
    assert_non_null(strstr(e.text, path));
    assert_non_null(strstr(e.text, "not a results cube"));
    assert_int_equal(fsx_write_atomic(path, "text\n", 5, NULL), OK);
    err_clear(&e);
    assert_int_equal(results_view_open(path, VIEW_ALL, NULL, &v, &e), ERR_FORMAT);
    free(path);
    sample_remove(folder);
}

/* A cube modified later: h5py and other programs do not renew the seal, which then is lost. */
static void another_schema(void **state)
{
    (void)state;
    char *folder = sample_folder(), *path = sample_path(folder, "a.h5");
    struct results_view *v = sample_view(folder, true);
    struct err e = {0};
    int64_t later = 99;
    assert_int_equal(cube_write(path, v, NULL, &e), OK);
    results_view_close(v);
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t attribute = H5Aopen(file, "schema_version", H5P_DEFAULT);
    assert_true(H5Awrite(attribute, H5T_NATIVE_INT64, &later) >= 0);
    assert_true(H5Aclose(attribute) >= 0 && H5Fclose(file) >= 0);
    assert_int_equal(results_view_open(path, VIEW_ALL, NULL, &v, &e), ERR_FORMAT);
    assert_non_null(strstr(e.text, "schema 99"));
    free(path);
    sample_remove(folder);
}

/* No space for the new cube: the old one stays, the temporary file is removed. In a child process,
 * because the limit applies to the process. */
static void full_disk_keeps_the_old(void **state)
{
    (void)state;
    char *folder = sample_folder(), *path = sample_path(folder, "a.h5"), *before, *after;
    struct results_view *v = sample_view(folder, true);
    size_t n, m;
    int status;
    assert_int_equal(cube_write(path, v, NULL, NULL), OK);
    assert_int_equal(fsx_read(path, 0, &before, &n, NULL), OK);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {n / 2, n / 2};
        struct err e = {0};
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
        _exit(cube_write(path, v, NULL, &e) == ERR_FULL && strstr(e.text, path) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(fsx_read(path, 0, &after, &m, NULL), OK);
    assert_int_equal(n, m);
    assert_memory_equal(before, after, n);
    assert_int_equal(sample_files(folder), 2);
    free(before);
    free(after);
    results_view_close(v);
    free(path);
    sample_remove(folder);
}

static void no_such_folder(void **state)
{
    (void)state;
    char *folder = sample_folder();
    struct results_view *v = sample_view(folder, true);
    struct err e = {0};
    char *path = sample_path(folder, "absent/a.h5");
    assert_int_equal(cube_write(path, v, NULL, &e), ERR_IO);
    assert_non_null(strstr(e.text, path));
    free(path);
    results_view_close(v);
    sample_remove(folder);
}

/* A plan of which nothing has run, and one without evaluation texts. */
static void bare_plans(void **state)
{
    (void)state;
    for (int datasets = 0; datasets < 2; datasets++) {
        char *folder = sample_folder(), *path = sample_path(folder, "a.h5");
        char *from = sample_path(folder, "a.journal"), *again = sample_path(folder, "b.h5");
        struct journal *j;
        struct results_view *v, *back;
        struct err e = {0};
        json_t *plan = sample_plan();
        if (!datasets) json_object_set_new(plan, "datasets", json_array());
        assert_int_equal(journal_open(from, &j, NULL), OK);
        assert_int_equal(journal_append(j, plan, NULL), OK);
        if (!datasets) {
            json_t *cell = sample_cell(0, 1);
            json_object_clear(json_object_get(cell, "datasets"));
            assert_int_equal(journal_append(j, cell, NULL), OK);
            json_decref(cell);
        }
        assert_int_equal(results_view_of_journal(j, VIEW_ALL, &v, NULL), OK);
        if (cube_write(path, v, NULL, &e) != OK) fail_msg("%s%s", e.text, e.trail);
        if (results_view_open(path, VIEW_ALL, NULL, &back, &e) != OK)
            fail_msg("%s%s", e.text, e.trail);
        check_views(v, back);
        assert_null(back->end);
        assert_int_equal(cube_write(again, back, NULL, &e), OK);
        assert_same_bytes(path, again);
        results_view_close(back);
        results_view_close(v);
        json_decref(plan);
        journal_close(j);
        free(from);
        free(path);
        free(again);
        sample_remove(folder);
    }
}

/* Large enough for chunks of every rank. */
static void large_cubes(void **state)
{
    (void)state;
    enum { CHECKPOINTS = 300, SEQUENCES = 40 };
    char *folder = sample_folder(), *path = sample_path(folder, "a.h5");
    char *from = sample_path(folder, "a.journal"), key[HASH_HEX], name[32];
    struct journal *j;
    struct results_view *v, *back;
    struct err e = {0};
    json_t *plan = sample_plan(), *list = json_array();
    assert_int_equal(journal_open(from, &j, NULL), OK);
    for (int i = 0; i < CHECKPOINTS; i++) {
        snprintf(name, sizeof name, "step%d", i);
        json_array_append_new(list,
                              json_pack("{s:s, s:i, s:s}", "name", name, "step", i, "key", name));
    }
    json_object_set_new(json_array_get(json_object_get(plan, "models"), 0), "checkpoints", list);
    assert_int_equal(journal_append(j, plan, NULL), OK);
    for (int i = 0; i < CHECKPOINTS; i++) {
        snprintf(name, sizeof name, "step%d", i);
        results_cell_key(name, "v-4", key);
        json_t *cell = sample_cell(0, 3), *losses = sample_losses(i, SEQUENCES);
        json_object_set_new(cell, "key", json_string(key));
        json_object_set_new(cell, "checkpoint", json_string(name));
        json_object_set_new(json_object_get(cell, "datasets"), "c4", losses);
        assert_int_equal(journal_append(j, cell, NULL), OK);
        json_decref(cell);
    }
    assert_int_equal(results_view_of_journal(j, VIEW_ALL, &v, NULL), OK);
    if (cube_write(path, v, NULL, &e) != OK) fail_msg("%s%s", e.text, e.trail);
    if (results_view_open(path, VIEW_ALL, NULL, &back, &e) != OK) fail_msg("%s%s", e.text, e.trail);
    for (int i = 0; i < CHECKPOINTS; i++) {
        snprintf(name, sizeof name, "step%d", i);
        results_cell_key(name, "v-4", key);
        check_record(v, back, key);
    }
    results_view_close(back);
    results_view_close(v);
    json_decref(plan);
    journal_close(j);
    free(from);
    free(path);
    sample_remove(folder);
}

/* --- other readers --- */

static bool can(const char *command)
{
    return system(command) == 0;
}

static void other_readers(void **state)
{
    (void)state;
    if (!can("/usr/bin/python3 -W ignore -c 'import h5py, xarray, h5netcdf' 2>/dev/null")) {
        print_message("skipped: /usr/bin/python3 has no h5py, xarray and h5netcdf\n");
        skip();
    }
    char *folder = sample_folder(), *path = sample_path(folder, "a.h5"), *command;
    struct results_view *v = sample_view(folder, true);
    assert_int_equal(cube_write(path, v, NULL, NULL), OK);
    assert_int_equal(mem_format(&command, NULL,
                                "PYTHONWARNINGS=ignore /usr/bin/python3 "
                                "'" FIXTURES "/results/read_sample.py' '%s'",
                                path),
                     OK);
    assert_int_equal(system(command), 0);
    free(command);
    results_view_close(v);
    free(path);
    sample_remove(folder);
}

static void tools_of_hdf5_and_netcdf(void **state)
{
    (void)state;
    if (!can("command -v h5dump ncdump >/dev/null")) {
        print_message("skipped: no h5dump and ncdump here\n");
        skip();
    }
    char *folder = sample_folder(), *path = sample_path(folder, "a.h5"), *command;
    struct results_view *v = sample_view(folder, true);
    assert_int_equal(cube_write(path, v, NULL, NULL), OK);
    assert_int_equal(mem_format(&command, NULL,
                                "h5dump '%s' >/dev/null && "
                                "ncdump -h '%s' | grep -qF 'double loss_relative(model, "
                                "checkpoint, bits, quantizer, dataset) ;' && "
                                "ncdump '%s' >/dev/null",
                                path, path, path),
                     OK);
    assert_int_equal(system(command), 0);
    free(command);
    results_view_close(v);
    free(path);
    sample_remove(folder);
}

/* A record of a cell, an earlier one of the same key, a failed one, and one with further layers are
 * the same in a cube whose records are read one by one. */
static void read_by_line(void **state)
{
    (void)state;
    char *folder = sample_folder(), *from = sample_path(folder, "sample.journal");
    char *whole = sample_path(folder, "whole.h5"), *lines = sample_path(folder, "lines.h5");
    struct journal *j;
    struct results_view *v, *by_line;
    struct err e = {0};
    results_view_close(sample_view(folder, false));
    json_t *cell = sample_cell(1, 1), *failed = json_copy(cell), *completion, *read;
    const char *key = json_text(cell, "key", "");
    json_object_set_new(failed, "status", json_string("failed"));
    completion = json_pack("{s:s, s:s, s:s, s:s, s:{s:f}, s:{s:{s:f}}, s:{s:s}, s:{s:s}}", "type",
                           "completion", "key", key, "fingerprint", "elsewhere", "message", "said",
                           "values", "second_order", 0.5, "layers", "a", "first_order", 3.0,
                           "completes", "second_order", "id", "provenance", "weights_hash", "feed");
    json_object_set_new(json_array_get(json_object_get(cell, "layers"), 0), "name",
                        json_string("a"));
    assert_int_equal(journal_open(from, &j, &e), OK);
    assert_int_equal(journal_append(j, cell, &e), OK);
    assert_int_equal(journal_append(j, failed, &e), OK);
    assert_int_equal(journal_append(j, completion, &e), OK);
    assert_int_equal(results_view_of_journal(j, VIEW_ALL, &v, &e), OK);
    assert_int_equal(results_view_of_journal(j, VIEW_BY_LINE, &by_line, &e), OK);
    assert_null(json_object_get(results_view_find(by_line, key), "layers"));
    assert_int_equal(results_view_read(by_line, key, &read, &e), OK);
    assert_string_equal(json_text(read, "message", ""), "said");
    assert_true(json_equal(read, results_view_find(v, key)));
    json_decref(read);
    assert_int_equal(results_view_read(by_line, "none", &read, &e), OK);
    assert_null(read);
    if (cube_write(whole, v, NULL, &e) != OK) fail_msg("%s%s", e.text, e.trail);
    if (cube_write(lines, by_line, NULL, &e) != OK) fail_msg("%s%s", e.text, e.trail);
    assert_same_bytes(whole, lines);
    results_view_close(v);
    results_view_close(by_line);
    journal_close(j);
    json_decref(cell);
    json_decref(failed);
    json_decref(completion);
    free(from);
    free(whole);
    free(lines);
    sample_remove(folder);
}

static bool broken; /* HDF5 fails to write */

/* In place of HDF5's, for all of this program. */
herr_t H5Dwrite(hid_t set, hid_t type, hid_t from, hid_t to, hid_t properties, const void *data)
{
    herr_t (*next)(hid_t, hid_t, hid_t, hid_t, hid_t, const void *) =
        (herr_t(*)(hid_t, hid_t, hid_t, hid_t, hid_t, const void *))dlsym(RTLD_NEXT, "H5Dwrite");
    return broken ? -1 : next(set, type, from, to, properties, data);
}

/* The file is made in memory: that it cannot be made is no fault of the storage, and starting the
 * run again does not help. */
static void a_failure_of_hdf5_is_internal(void **state)
{
    (void)state;
    char *folder = sample_folder(), *path = sample_path(folder, "a.h5");
    struct results_view *v = sample_view(folder, true);
    struct err e = {0};
    broken = true;
    assert_int_equal(cube_write(path, v, NULL, &e), ERR_INTERNAL);
    broken = false;
    assert_non_null(strstr(e.text, "HDF5"));
    assert_int_equal(cube_write(path, v, NULL, NULL), OK);
    results_view_close(v);
    free(path);
    sample_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(damaged_cubes),
        cmocka_unit_test(flipped_bits),
        cmocka_unit_test(another_schema),
        cmocka_unit_test(the_seal_names_the_journal),
        cmocka_unit_test(what_may_be_replaced),
        cmocka_unit_test(not_results),
        cmocka_unit_test(full_disk_keeps_the_old),
        cmocka_unit_test(a_failure_of_hdf5_is_internal),
        cmocka_unit_test(no_such_folder),
        cmocka_unit_test(bare_plans),
        cmocka_unit_test(large_cubes),
        cmocka_unit_test(read_by_line),
        cmocka_unit_test(other_readers),
        cmocka_unit_test(tools_of_hdf5_and_netcdf),
    };
    return cmocka_run_group_tests_name("cube", tests, NULL, NULL);
}
