/* The journal: acknowledged records are read back, incomplete or damaged ones are detected. */
#include "records/rows.h"
#include "records/view.h"
#include "sample.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

/* Thousands of warnings about damage are expected here. */
static int silence(void)
{
    int kept = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY);
    dup2(null, STDERR_FILENO);
    close(null);
    return kept;
}

static void speak(int kept)
{
    dup2(kept, STDERR_FILENO);
    close(kept);
}

static void write_file(const char *path, const char *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* Rewriting a truncated file may wait for the disk. */
static void write_anew(const char *path, const char *data, size_t n)
{
    unlink(path);
    write_file(path, data, n);
}

static json_t *small_record(int i)
{
    return json_pack("{s:s, s:i, s:f, s:s}", "type", "cell", "i", i, "x", 0.1 * i, "text",
                     "\xc3\xa4 \"quoted\"\n");
}

static void append_small(struct journal *j, int i)
{
    json_t *r = small_record(i);
    assert_int_equal(journal_append(j, r, NULL), OK);
    json_decref(r);
}

/* A journal of n small records; the caller frees *data. */
static void make_small(const char *path, int n, char **data, size_t *size)
{
    struct journal *j;
    assert_int_equal(journal_open(path, &j, NULL), OK);
    for (int i = 0; i < n; i++) append_small(j, i);
    assert_int_equal(journal_sync(j, NULL), OK);
    journal_close(j);
    assert_int_equal(fsx_read(path, 0, data, size, NULL), OK);
}

static bool is_small(const json_t *r, int i)
{
    json_t *expected = small_record(i);
    bool same = json_equal(r, expected);
    json_decref(expected);
    return same;
}

/* The caller json_decrefs it. */
static json_t *record_at(struct journal *j, int64_t i)
{
    json_t *record;
    assert_int_equal(journal_read(j, i, NULL, &record, NULL), OK);
    return record;
}

static bool is_small_at(struct journal *j, int64_t i, int which)
{
    json_t *record = record_at(j, i);
    bool same = is_small(record, which);
    json_decref(record);
    return same;
}

static void a_journal_stands_beside_its_cube(void **state)
{
    (void)state;
    char *path;
    assert_int_equal(journal_path("a/x.h5", &path, NULL), OK);
    assert_string_equal(path, "a/x.journal");
    free(path);
    assert_int_equal(journal_path("a.h5/x", &path, NULL), OK);
    assert_string_equal(path, "a.h5/x.journal");
    free(path);
    char *folder = sample_folder(), *alias = sample_path(folder, "alias");
    assert_int_equal(symlink("there/x.h5", alias), 0); /* where it leads, which may come later */
    assert_int_equal(journal_path(alias, &path, NULL), OK);
    assert_string_equal(path + strlen(folder), "/there/x.journal");
    free(path);
    free(alias);
    sample_remove(folder);
}

static void doubles_keep_their_bits(void **state)
{
    (void)state;
    char *folder = sample_folder(), *path = sample_path(folder, "x.journal");
    static const double values[] = {
        0.1, 1.0 / 3, 5e-324, 2.2250738585072011e-308, 1e308, INFINITY, -INFINITY, 3, -0.0, 1e22};
    enum { N = sizeof values / sizeof *values };
    struct journal *j;
    assert_int_equal(journal_open(path, &j, NULL), OK);
    json_t *r = json_pack("{s:o}", "x", json_numbers_new(values, N));
    assert_int_equal(journal_append(j, r, NULL), OK);
    json_decref(r);
    journal_close(j);
    assert_int_equal(journal_open_readonly(path, &j, NULL), OK);
    assert_int_equal(journal_n(j), 1);
    json_t *record = record_at(j, 0), *back = json_object_get(record, "x");
    assert_int_equal(json_array_size(back), N);
    for (size_t i = 0; i < N; i++) {
        double value = json_number_get(json_array_get(back, i));
        assert_memory_equal(&value, &values[i], sizeof value);
    }
    json_decref(record);
    journal_close(j);
    free(path);
    sample_remove(folder);
}

/* Truncated at every byte: whole lines stay, the rest is removed, and the file accepts records
 * again. */
static void torn_at_every_byte(void **state)
{
    (void)state;
    char *folder = sample_folder(), *path = sample_path(folder, "x.journal"), *data;
    size_t size;
    int kept = silence();
    make_small(path, 10, &data, &size);
    for (size_t cut = 0; cut <= size; cut++) {
        struct journal *j;
        int64_t whole = -1, tail = 0; /* the first line is the header */
        for (size_t i = 0; i < cut; i++) {
            whole += data[i] == '\n';
            tail = data[i] == '\n' ? 0 : tail + 1;
        }
        if (whole < 0) whole = 0;
        write_anew(path, data, cut);
        assert_int_equal(journal_open_readonly(path, &j, NULL), OK);
        assert_int_equal(journal_n(j), whole);
        assert_int_equal(journal_damage(j).tail, tail); /* which is said */
        journal_close(j);
        assert_int_equal(journal_open(path, &j, NULL), OK);
        assert_int_equal(journal_n(j), whole);
        for (int i = (int)whole; i < 11; i++) append_small(j, i);
        journal_close(j);
        assert_int_equal(journal_open_readonly(path, &j, NULL), OK);
        assert_int_equal(journal_n(j), 11);
        for (int i = 0; i < 11; i++) assert_true(is_small_at(j, i, i));
        journal_close(j);
    }
    speak(kept);
    free(data);
    free(path);
    sample_remove(folder);
}

/* One bit flipped anywhere: all records read back are genuine, and what was left out is said. */
static void every_bit_flipped(void **state)
{
    (void)state;
    char *folder = sample_folder(), *path = sample_path(folder, "x.journal"), *data;
    enum { N = 10 };
    size_t size;
    int64_t lost = 0;
    int kept = silence();
    make_small(path, N, &data, &size);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        struct journal *j;
        struct err e = {0};
        data[bit / 8] ^= (char)(1 << bit % 8);
        write_anew(path, data, size);
        data[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_equal(journal_open_readonly(path, &j, &e), OK);
        int next = 0;
        for (int64_t i = 0; i < journal_n(j); i++, next++) {
            while (next < N && !is_small_at(j, i, next)) next++;
            assert_true(next < N);
        }
        const struct journal_damage d = journal_damage(j);
        assert_true((d.lines > 0) != (d.tail > 0));
        int64_t line = 1;
        for (size_t i = 0; i < bit / 8; i++) line += data[i] == '\n';
        if (d.lines) assert_int_equal(d.first, line);
        lost += N - journal_n(j);
        /* Damage affects one line, or two if it adds or removes a line end. */
        assert_true(journal_n(j) >= N - 2);
        journal_close(j);
    }
    speak(kept);
    assert_true(lost > 0);
    free(data);
    free(path);
    sample_remove(folder);
}

/* A line that is there twice counts once, and is said. */
static void every_line_doubled(void **state)
{
    (void)state;
    char *folder = sample_folder(), *path = sample_path(folder, "x.journal"), *data, *twice;
    enum { N = 10 };
    size_t size, from = 0;
    int kept = silence();
    make_small(path, N, &data, &size);
    assert_int_equal(mem_alloc(&twice, 2 * (int64_t)size, 1, "twice", NULL), OK);
    for (int64_t line = 1; from < size; line++) {
        struct journal *j;
        const size_t to = (size_t)((char *)memchr(data + from, '\n', size - from) - data) + 1;
        memcpy(twice, data, to);
        memcpy(twice + to, data + from, size - from);
        write_anew(path, twice, size + to - from);
        assert_int_equal(journal_open_readonly(path, &j, NULL), OK);
        assert_int_equal(journal_n(j), N);
        assert_int_equal(journal_damage(j).repeated, 1);
        assert_int_equal(journal_damage(j).first_repeated, line + 1);
        journal_close(j);
        from = to;
    }
    speak(kept);
    free(twice);
    free(data);
    free(path);
    sample_remove(folder);
}

/* Removed, moved, replaced, truncated or grown: nothing more is written, and the error says so. */
static void not_as_it_was_left(void **state)
{
    (void)state;
    static const struct {
        const char *command, *says;
    } changes[] = {{"rm x.journal", "removed or moved"},
                   {"mv x.journal y.journal", "removed or moved"},
                   {"cp x.journal z && mv z x.journal", "another file took its place"},
                   {"truncate -s -5 x.journal", "another program changed it"},
                   {"echo more >>x.journal", "another program changed it"}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char *folder = sample_folder(), *path = sample_path(folder, "x.journal"), *command;
        struct journal *j;
        struct err e = {0};
        assert_int_equal(journal_open(path, &j, NULL), OK);
        append_small(j, 0);
        assert_int_equal(mem_format(&command, NULL, "cd %s && %s", folder, changes[i].command), OK);
        assert_int_equal(system(command), 0);
        json_t *r = small_record(1), *read;
        const bool cut = strncmp(changes[i].command, "truncate", 8) == 0;
        assert_int_equal(journal_read(j, 0, NULL, &read, &e), cut ? ERR_IO : OK);
        if (cut)
            assert_non_null(strstr(e.text, changes[i].says));
        else
            json_decref(read);
        assert_int_equal(journal_append(j, r, &e), ERR_IO);
        assert_non_null(strstr(e.text, path));
        assert_non_null(strstr(e.text, changes[i].says));
        assert_int_equal(journal_append(j, r, NULL), ERR_IO);
        json_decref(r);
        journal_close(j);
        free(command);
        free(path);
        sample_remove(folder);
    }
}

/* How much of a journal a cube has. */
static void goes_on_behind_a_mark(void **state)
{
    (void)state;
    char *folder = sample_folder(), *path = sample_path(folder, "x.journal"), *data;
    struct journal *j;
    struct journal_mark mark, none = {0};
    size_t size;
    int64_t lines = -1;
    make_small(path, 3, &data, &size);
    assert_int_equal(journal_open(path, &j, NULL), OK);
    mark = journal_mark(j);
    assert_int_equal(mark.bytes, size);
    assert_int_equal(journal_since(path, &mark, &lines), JOURNAL_SAME);
    assert_int_equal(journal_since(path, &none, &lines), JOURNAL_UNKNOWN);
    append_small(j, 3);
    append_small(j, 4);
    assert_int_equal(journal_since(path, &mark, &lines), JOURNAL_LONGER);
    assert_int_equal(lines, 2);
    mark = journal_mark(j);
    assert_int_equal(journal_since(path, &mark, &lines), JOURNAL_SAME);
    journal_close(j);
    write_file(path, data, size); /* cut between two lines */
    assert_int_equal(journal_since(path, &mark, &lines), JOURNAL_OTHER);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(journal_since(path, &mark, &lines), JOURNAL_UNKNOWN);
    free(data);
    free(path);
    sample_remove(folder);
}

static void not_a_journal(void **state)
{
    (void)state;
    char *folder = sample_folder(), *path = sample_path(folder, "x.journal");
    struct journal *j;
    struct err e = {0};
    const char *const bad[] = {"hello\n", "\n", "{\"type\":\"journal\"}\n",
                               "0123456789abcdef {}\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *after;
        size_t n;
        write_file(path, bad[i], strlen(bad[i]));
        err_clear(&e);
        assert_int_equal(journal_open(path, &j, &e), ERR_FORMAT);
        assert_non_null(strstr(e.text, path));
        assert_int_equal(fsx_read(path, 0, &after, &n, NULL), OK);
        assert_string_equal(after, bad[i]); /* someone else's file: not modified */
        free(after);
    }
    err_clear(&e);
    free(path);
    path = sample_path(folder, "absent.journal");
    assert_int_equal(journal_open_readonly(path, &j, &e), ERR_IO);
    free(path);
    sample_remove(folder);
}

static void a_newer_schema(void **state)
{
    (void)state;
    char *folder = sample_folder(), *path = sample_path(folder, "x.journal"), line[128];
    struct journal *j;
    struct err e = {0};
    static const char json[] = "{\"schema\":2,\"type\":\"journal\"}";
    snprintf(line, sizeof line, "%016llx %s\n", (unsigned long long)hash_u64(json, strlen(json)),
             json);
    write_file(path, line, strlen(line));
    assert_int_equal(journal_open(path, &j, &e), ERR_FORMAT);
    assert_non_null(strstr(e.text, "newer"));
    free(path);
    sample_remove(folder);
}

/* Appends until it fails, then checks the file. */
static void fill_up(const char *path)
{
    struct journal *j, *again;
    struct err e = {0};
    int64_t n = 0;
    assert_int_equal(journal_open(path, &j, &e), OK);
    enum status st = OK;
    while (st == OK && n < 100000) {
        json_t *r = small_record((int)n);
        st = journal_append(j, r, &e);
        json_decref(r);
        n += st == OK;
    }
    assert_int_equal(st, ERR_FULL);
    assert_non_null(strstr(e.text, path));
    assert_true(n > 10);
    assert_int_equal(journal_n(j), n);
    assert_int_equal(journal_open_readonly(path, &again, NULL), OK);
    assert_int_equal(journal_n(again), n);
    for (int64_t i = 0; i < n; i++) assert_true(is_small_at(again, i, (int)i));
    journal_close(again);
    journal_close(j);
}

/* In a child process, because the limit applies to all of its files, including cmocka's output. */
static void file_size_limit(void **state)
{
    (void)state;
    char *folder = sample_folder(), *path = sample_path(folder, "x.journal"), *data;
    size_t size;
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit limit = {4096, 4096};
        struct journal *j;
        enum status st = OK;
        int64_t n = 0;
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0 || journal_open(path, &j, NULL) != OK) _exit(2);
        while (st == OK) {
            json_t *r = small_record((int)n);
            st = journal_append(j, r, NULL);
            json_decref(r);
            n += st == OK;
        }
        _exit(st == ERR_FULL && n == journal_n(j) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(fsx_read(path, 0, &data, &size, NULL), OK);
    assert_true(size > 3000 && size <= 4096);
    assert_int_equal(data[size - 1], '\n'); /* no incomplete line */
    free(data);
    free(path);
    sample_remove(folder);
}

static void full_disk(void **state)
{
    (void)state;
    char *folder = sample_folder(), *path = sample_path(folder, "x.journal");
    if (mount("tmpfs", folder, "tmpfs", 0, "size=16k") != 0) {
        print_message("skipped: no tmpfs can be mounted here (%s)\n", strerror(errno));
        free(path);
        sample_remove(folder);
        skip();
    }
    fill_up(path);
    /* Space again: the same file continues where it was. */
    assert_int_equal(mount("tmpfs", folder, "tmpfs", MS_REMOUNT, "size=64k"), 0);
    struct journal *j;
    assert_int_equal(journal_open(path, &j, NULL), OK);
    int64_t n = journal_n(j);
    append_small(j, (int)n);
    assert_int_equal(journal_sync(j, NULL), OK);
    assert_int_equal(journal_n(j), n + 1);
    journal_close(j);
    assert_int_equal(umount(folder), 0);
    free(path);
    sample_remove(folder);
}

static void reads_many_records_fast(void **state)
{
    (void)state;
    char *folder = sample_folder(), *path = sample_path(folder, "x.journal");
    struct journal *j;
    struct timespec from, to;
#ifdef __SANITIZE_ADDRESS__ /* which does not look at the time */
    enum { N = 10000 };
#else
    enum { N = 100000 };
#endif
    assert_int_equal(journal_open(path, &j, NULL), OK);
    json_t *r = sample_cell(0, 3);
    for (int i = 0; i < N; i++) {
        json_object_set_new(r, "i", json_integer(i));
        json_t *copy = json_copy(r);
        assert_int_equal(journal_append(j, copy, NULL), OK);
        json_decref(copy);
    }
    json_decref(r);
    journal_close(j);
    clock_gettime(CLOCK_MONOTONIC, &from);
    assert_int_equal(journal_open_readonly(path, &j, NULL), OK);
    clock_gettime(CLOCK_MONOTONIC, &to);
    double seconds = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    print_message("%d records of a cell read in %.2f s\n", N, seconds);
    assert_int_equal(journal_n(j), N);
    r = record_at(j, N - 1);
    assert_int_equal(json_integer_value(json_object_get(r, "i")), N - 1);
    json_decref(r);
    assert_true(seconds < 60); /* quadratic reading would take much longer */
    journal_close(j);
    free(path);
    sample_remove(folder);
}

/* --- the view of a journal --- */

static void put(struct journal *j, const char *key, const char *status, int i)
{
    json_t *r =
        json_pack("{s:s, s:s, s:s, s:i}", "type", "cell", "key", key, "status", status, "i", i);
    assert_int_equal(journal_append(j, r, NULL), OK);
    json_decref(r);
}

static int found(const struct results_view *v, const char *key)
{
    const json_t *r = results_view_find(v, key);
    return r ? (int)json_integer_value(json_object_get(r, "i")) : -1;
}

static void view_chooses(void **state)
{
    (void)state;
    char *folder = sample_folder(), *path = sample_path(folder, "x.journal");
    struct journal *j;
    struct results_view *v;
    struct err e = {0};
    assert_int_equal(journal_open(path, &j, NULL), OK);
    assert_int_equal(results_view_of_journal(j, VIEW_ALL, &v, &e), OK);
    assert_null(v->plan);
    results_view_close(v);
    assert_int_equal(results_view_open(path, VIEW_ALL, NULL, &v, &e), ERR_FORMAT);
    assert_non_null(strstr(e.text, path));
    assert_non_null(strstr(e.text, "plan"));
    json_t *plan = sample_plan();
    assert_int_equal(journal_append(j, plan, NULL), OK);
    put(j, "a", "failed", 1);
    put(j, "a", "done", 2);
    put(j, "a", "failed", 3); /* a later failure does not replace a finished result */
    put(j, "b", "done", 4);
    put(j, "b", "done", 5);
    put(j, "c", "failed", 6);
    put(j, "c", "failed", 7);
    sample_end(j);
    assert_int_equal(results_view_of_journal(j, VIEW_ALL, &v, NULL), OK);
    assert_int_equal(found(v, "a"), 2);
    assert_int_equal(found(v, "b"), 5);
    assert_int_equal(found(v, "c"), 7);
    assert_int_equal(found(v, "d"), -1);
    assert_string_equal(json_text(v->end, "status", ""), "done");
    results_view_close(v);
    json_object_set_new(plan, "name", json_string("second"));
    json_t *second = json_copy(plan);
    assert_int_equal(journal_append(j, second, NULL), OK);
    assert_int_equal(results_view_of_journal(j, VIEW_ALL, &v, NULL), OK);
    assert_string_equal(json_text(v->plan, "name", ""), "second");
    assert_null(v->end); /* another run has started */
    json_decref(second);
    json_decref(plan);
    journal_close(j);
    assert_int_equal(found(v, "b"), 5); /* the view holds its own references */
    results_view_close(v);
    free(path);
    sample_remove(folder);
}

static void keys_do_not_run_together(void **state)
{
    (void)state;
    char a[HASH_HEX], b[HASH_HEX];
    results_cell_key("ab", "c", a);
    results_cell_key("a", "bc", b);
    assert_string_not_equal(a, b);
    results_cell_key("ab", "c", b);
    assert_string_equal(a, b);
    assert_int_equal(strlen(a), HASH_HEX - 1);
}

/* Removes what a view leaves out. */
static void cut(json_t *value, const char *const *names)
{
    size_t i;
    const char *key;
    json_t *member;
    for (int k = 0; names && names[k] && json_is_object(value); k++)
        json_object_del(value, names[k]);
    json_object_foreach(value, key, member) cut(member, names);
    json_array_foreach(value, i, member) cut(member, names);
}

static const json_t *inside(const json_t *record, const char *object, const char *name)
{
    return json_object_get(json_object_get(record, object), name);
}

/* What each content of a view has of a cell. */
static void check_cell(const struct results_view *v, enum view_content content)
{
    char key[HASH_HEX];
    results_cell_key(sample_checkpoint_keys[0], sample_variant_keys[2], key);
    const json_t *cell = results_view_find(v, key);
    assert_int_equal(result_state_of(cell), STATE_DONE);
    assert_non_null(inside(cell, "values", "seconds"));
    assert_non_null(inside(cell, "provenance", "weights_hash"));
    assert_non_null(json_object_get(cell, "message"));
    assert_int_equal(inside(cell, "datasets", "faq") != NULL, content != VIEW_STATES);
    assert_int_equal(inside(cell, "values", "weight_distance") != NULL, content != VIEW_STATES);
    assert_int_equal(json_object_get(cell, "layers") != NULL, content == VIEW_ALL);
    assert_int_equal(inside(cell, "provenance", "host") != NULL, content == VIEW_ALL);
}

/* All records, the same but for what is left out, and the whole plan. */
static void views_leave_out(void **state)
{
    (void)state;
    char *folder = sample_folder(), *path = sample_path(folder, "x.journal");
    struct journal *j;
    assert_int_equal(journal_open(path, &j, NULL), OK);
    sample_fill(j);
    for (int c = 0; c <= VIEW_ALL; c++) {
        struct results_view *v;
        struct texts without = {0};
        json_t *plan = sample_plan();
        int found = 0;
        assert_int_equal(view_leave_out((enum view_content)c, NULL, &without, NULL), OK);
        assert_true(c == VIEW_ALL ? without.n == 0 : without.n > 0);
        assert_int_equal(results_view_of_journal(j, (enum view_content)c, &v, NULL), OK);
        assert_true(json_equal(v->plan, plan));
        for (int64_t i = 0; i < journal_n(j); i++) {
            json_t *record = record_at(j, i);
            const json_t *seen = results_view_find(v, json_text(record, "key", ""));
            cut(record, texts_list(&without));
            found += seen && json_equal(seen, record);
            json_decref(record);
        }
        assert_true(found > 20);
        check_cell(v, (enum view_content)c);
        results_view_close(v);
        texts_free(&without);
        json_decref(plan);
    }
    journal_close(j);
    free(path);
    sample_remove(folder);
}

/* A record that another program has overwritten since is no record. */
static void changed_since(void **state)
{
    (void)state;
    char *folder = sample_folder(), *path = sample_path(folder, "x.journal"), *data;
    size_t size;
    struct journal *j;
    struct err e = {0};
    json_t *record;
    make_small(path, 3, &data, &size);
    assert_int_equal(journal_open_readonly(path, &j, NULL), OK);
    assert_true(is_small_at(j, 2, 2));
    data[size - 5] ^= 1;
    write_file(path, data, size);
    assert_true(is_small_at(j, 1, 1));
    assert_int_equal(journal_read(j, 2, NULL, &record, &e), ERR_IO);
    assert_non_null(strstr(e.text, path));
    assert_int_equal(truncate(path, (off_t)size - 5), 0);
    err_clear(&e);
    assert_int_equal(journal_read(j, 2, NULL, &record, &e), ERR_IO);
    assert_non_null(strstr(e.text, "has changed since it was opened"));
    journal_close(j);
    free(data);
    free(path);
    sample_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_journal_stands_beside_its_cube),
        cmocka_unit_test(doubles_keep_their_bits),
        cmocka_unit_test(torn_at_every_byte),
        cmocka_unit_test(every_bit_flipped),
        cmocka_unit_test(every_line_doubled),
        cmocka_unit_test(not_as_it_was_left),
        cmocka_unit_test(goes_on_behind_a_mark),
        cmocka_unit_test(not_a_journal),
        cmocka_unit_test(a_newer_schema),
        cmocka_unit_test(file_size_limit),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(reads_many_records_fast),
        cmocka_unit_test(view_chooses),
        cmocka_unit_test(views_leave_out),
        cmocka_unit_test(changed_since),
        cmocka_unit_test(keys_do_not_run_together),
    };
    return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
