/* Reading whole files, atomic writes, paths. */
#include "scratch.h"
#include "util/fsx.h"
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

static void whole_files(void **state)
{
    (void)state;
    const char bytes[] = "a\0b\n";
    const char *path = scratch_put("whole", bytes, 4);
    struct err e = {0};
    char *data;
    size_t n;
    assert_int_equal(fsx_read(path, 0, &data, &n, &e), OK);
    assert_int_equal(n, 4);
    assert_memory_equal(data, bytes, 5); /* and the NUL */
    free(data);
    assert_int_equal(fsx_read(path, 4, &data, NULL, &e), OK);
    free(data);
    assert_int_equal(fsx_read(path, 3, &data, &n, &e), ERR_FORMAT);
    assert_non_null(strstr(e.text, "/whole: 4 bytes, more than the 3"));
    assert_int_equal(fsx_read(scratch_put("empty", "", 0), 0, &data, &n, NULL), OK);
    assert_int_equal(n, 0);
    assert_string_equal(data, "");
    free(data);
}

/* Anything but a regular file is refused; a FIFO without waiting for a writer. */
static void only_files_are_read(void **state)
{
    (void)state;
    struct err e = {0};
    char *data;
    assert_int_equal(fsx_read(scratch_path("absent"), 0, &data, NULL, &e), ERR_IO);
    assert_non_null(strstr(e.text, "/absent: No such file"));
    err_clear(&e);
    assert_int_equal(fsx_read(scratch_dir(), 0, &data, NULL, &e), ERR_IO);
    assert_non_null(strstr(e.text, "not a regular file"));
    err_clear(&e);
    const char *fifo = scratch_path("fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(fsx_read(fifo, 0, &data, NULL, &e), ERR_IO);
    assert_non_null(strstr(e.text, "not a regular file"));
}

static void is(const char *path, const char *expected)
{
    char *data;
    assert_int_equal(fsx_read(path, 0, &data, NULL, NULL), OK);
    assert_string_equal(data, expected);
    free(data);
}

/* Sets the file size limit of this process in bytes; -1: the system's maximum. */
static void limit_files(int64_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < 0 ? limit.rlim_max : (rlim_t)bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* A failed write leaves the old file and no temporary file. */
static void all_or_nothing(void **state)
{
    (void)state;
    struct err e = {0};
    const char *path = scratch_path("atomic");
    assert_int_equal(fsx_write_atomic(path, "first", 5, &e), OK);
    is(path, "first");
    assert_int_equal(fsx_write_atomic(path, "second", 6, &e), OK);
    is(path, "second");
    signal(SIGXFSZ, SIG_IGN);
    limit_files(3);
    assert_int_equal(fsx_write_atomic(path, "the third", 9, &e), ERR_FULL);
    limit_files(-1);
    assert_non_null(strstr(e.text, strerror(EFBIG)));
    assert_int_equal(files_named(scratch_dir(), "atomic.tmp.*"), 0);
    is(path, "second");
    err_clear(&e);
    assert_int_equal(fsx_write_atomic(scratch_path("absent/x"), "", 0, &e), ERR_IO);
    assert_non_null(strstr(e.text, "/absent/x: "));
    assert_null(strstr(e.text, ".tmp."));
}

static void a_published_file_replaces_the_old(void **state)
{
    (void)state;
    struct err e = {0};
    const char *from = scratch_put("from", "new", 3), *to = scratch_put("to", "old", 3);
    assert_int_equal(fsx_publish(from, to, &e), OK);
    is(to, "new");
    assert_false(fsx_is_file(from));
    assert_int_equal(fsx_publish(from, to, &e), ERR_IO);
    assert_non_null(strstr(e.text, from));
    is(to, "new");
}

static void empty_folders(void **state)
{
    (void)state;
    struct err e = {0};
    const char *path = scratch_path("flat");
    assert_false(fsx_is_empty_dir(path));
    assert_int_equal(fsx_make_parent(scratch_path("flat/x"), &e), OK);
    assert_true(fsx_is_empty_dir(path));
    assert_false(fsx_is_empty_dir(scratch_put("flat/a", "a", 1)));
}

static void folders_above_are_made(void **state)
{
    (void)state;
    struct err e = {0};
    const char *path = scratch_path("one/two/three");
    assert_int_equal(fsx_make_parent(path, &e), OK);
    assert_true(fsx_is_dir(scratch_path("one/two")));
    assert_false(fsx_is_dir(path));
    assert_int_equal(fsx_make_parent(path, &e), OK);
    assert_int_equal(fsx_sync_parent(path, &e), OK);
    scratch_put("one/file", "", 0);
    assert_true(fsx_is_file(scratch_path("one/file")));
    assert_int_equal(fsx_make_parent(scratch_path("one/file/x"), &e), ERR_IO);
    assert_non_null(strstr(e.text, "one/file"));
}

static void paths_are_joined_and_cut(void **state)
{
    (void)state;
    static const struct {
        const char *base, *path, *joined, *parent;
    } cases[] = {
        {"a", "b", "a/b", "a"}, {"a/b", "c/d", "a/b/c/d", "a/b/c"}, {"a", "/b", "/b", "/"},
        {"", "b", "b", "."},    {"", "/b/c", "/b/c", "/b"},         {".", "b", "./b", "."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *joined, *parent;
        assert_int_equal(fsx_join(cases[i].base, cases[i].path, &joined, NULL), OK);
        assert_string_equal(joined, cases[i].joined);
        assert_int_equal(fsx_parent(joined, &parent, NULL), OK);
        assert_string_equal(parent, cases[i].parent);
        free(joined);
        free(parent);
    }
    assert_int_equal(fsx_errno_status(ENOSPC), ERR_FULL);
    assert_int_equal(fsx_errno_status(EDQUOT), ERR_FULL);
    assert_int_equal(fsx_errno_status(EIO), ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_files),
        cmocka_unit_test(only_files_are_read),
        cmocka_unit_test(all_or_nothing),
        cmocka_unit_test(a_published_file_replaces_the_old),
        cmocka_unit_test(folders_above_are_made),
        cmocka_unit_test(empty_folders),
        cmocka_unit_test(paths_are_joined_and_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
