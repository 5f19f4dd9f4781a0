/* Merging: whatever the parts, their order and their grouping, the outcome is the same; what is a
 * conflict. QTRAJ_TEST_SPLITS: how many random splits (25; the long form takes 1000). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "records/part_files.h"
#include "run/merge.h"
#include "sample.h"
#include "util/rng.h"

enum { RECORDS_MOST = 200, PARTS_MOST = 7 };

static struct err error;
static char *folder;
static int64_t n_records;
static json_t *records[RECORDS_MOST]; /* of a sweep, in the order of their times; the plan first */

static char *path_of(const char *stem, int number)
{
    char name[64];
    snprintf(name, sizeof name, "%s%d.journal", stem, number);
    return sample_path(folder, name);
}

/* Takes over the record, and dates it behind the others. */
static void add(json_t *record)
{
    char utc[32];
    json_t *provenance = json_object_get(record, "provenance");
    assert_true(n_records < RECORDS_MOST);
    snprintf(utc, sizeof utc, "2026-01-02T03:%02d:%02dZ", (int)(n_records / 60),
             (int)(n_records % 60));
    if (provenance) json_object_set_new(provenance, "utc_end", json_string(utc));
    records[n_records++] = record;
}

/* A record of the same key as another's. */
static json_t *again(int64_t of, const char *fingerprint, const char *status)
{
    json_t *copy = json_deep_copy(records[of]);
    json_object_set_new(copy, "fingerprint", json_string(fingerprint));
    json_object_set_new(copy, "status", json_string(status));
    return copy;
}

static json_t *completion_of(int64_t of, double value)
{
    return json_pack("{s:s, s:O, s:s, s:s, s:{s:f}, s:{}, s:{s:s}, s:{s:s}}", "type", "completion",
                     "key", json_object_get(records[of], "key"), "fingerprint", "ranks 1; blas x",
                     "message", "", "values", "second_order", value, "layers", "completes",
                     "second_order", "d1", "provenance", "weights_hash", "feed");
}

static int64_t first_cell(void)
{
    for (int64_t i = 0; i < n_records; i++)
        if (strcmp(json_text(records[i], "type", ""), "cell") == 0) return i;
    return -1;
}

/* The sample's records, and some twice: on another machine, failed before and after, with a
 * prediction, measured once more with and without one; lost ranks. */
static int setup(void **state)
{
    (void)state;
    struct journal *j = NULL;
    folder = sample_folder();
    char *path = sample_path(folder, "sample.journal");
    assert_int_equal(journal_open(path, &j, &error), OK);
    sample_fill(j);
    for (int64_t i = 0; i < journal_n(j); i++) {
        json_t *record = NULL;
        assert_int_equal(journal_read(j, i, NULL, &record, &error), OK);
        add(record);
    }
    journal_close(j);
    free(path);
    const int64_t cell = first_cell();
    add(again(cell, "ranks 2; blas x", "done"));
    add(again(cell + 1, "ranks 1; blas x", "failed"));
    add(completion_of(cell + 1, 0.25));
    add(completion_of(cell + 2, 0.5));
    add(again(cell + 2, "ranks 1; blas y", "done"));
    add(completion_of(cell + 3, 0.75));
    add(again(cell + 3, "ranks 1; blas y", "done"));
    add(completion_of(cell + 3, 0.875));
    for (int i = 1; i < 4; i++)
        add(json_pack("{s:s, s:s, s:i, s:s, s:s}", "type", "loss", "key", "k-a", "count", i,
                      "reason", "rank 1 died", "utc", "2026-01-02T03:00:00Z"));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int64_t i = 0; i < n_records; i++) json_decref(records[i]);
    sample_remove(folder);
    err_clear(&error);
    return 0;
}

/* --- parts --- */

/* A part's journal: the plan, as a part has it, and the records that are in it. */
static void write_part(const char *path, int number, const bool *in)
{
    struct journal *j = NULL;
    json_t *plan = json_deep_copy(records[0]);
    json_object_set_new(plan, "part", json_pack("{s:i, s:i}", "k", number + 1, "n", PARTS_MOST));
    unlink(path);
    assert_int_equal(journal_open(path, &j, &error), OK);
    assert_int_equal(journal_append(j, plan, &error), OK);
    for (int64_t i = 1; i < n_records; i++)
        if (in[i]) assert_int_equal(journal_append(j, records[i], &error), OK);
    journal_close(j);
    json_decref(plan);
}

/* Merges the files; findings may be NULL. */
static void merge_files(char *const *paths, int n, const char *to, struct merge_findings *out)
{
    struct merge *m = NULL;
    struct merge_findings own = {0}, *found = out ? out : &own;
    unlink(to);
    assert_int_equal(merge_new(&m, &error), OK);
    for (int i = 0; i < n; i++) assert_int_equal(merge_add(m, paths[i], &error), OK);
    assert_int_equal(merge_write(m, to, found, &error), OK);
    merge_free(m);
    texts_free(&own.conflicts);
}

static void assert_same_files(const char *a, const char *b)
{
    char *x, *y;
    size_t n, m;
    assert_int_equal(fsx_read(a, 0, &x, &n, &error), OK);
    assert_int_equal(fsx_read(b, 0, &y, &m, &error), OK);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

static void write_cube(const char *journal, const char *cube)
{
    struct journal *j = NULL;
    struct results_view *v = NULL;
    assert_int_equal(journal_open_readonly(journal, &j, &error), OK);
    assert_int_equal(results_view_of_journal(j, VIEW_ALL, &v, &error), OK);
    assert_int_equal(cube_write(cube, v, NULL, &error), OK);
    results_view_close(v);
    journal_close(j);
}

/* All records in one journal, and that merged: what every split must give. */
static char *make_expected(void)
{
    bool in[RECORDS_MOST];
    char *one = path_of("one", 0), *expected = path_of("expected", 0);
    memset(in, 1, sizeof in);
    write_part(one, 0, in);
    merge_files(&one, 1, expected, NULL);
    free(one);
    return expected;
}

/* --- splits --- */

struct draw {
    uint64_t stream, i;
};

static int64_t draw(struct draw *d, int64_t n)
{
    return (int64_t)(rng_bits(d->stream, d->i++) % (uint64_t)n);
}

/* Writes n parts: each record into one of them, every fifth also into another. */
static void split(struct draw *d, int n, char **paths)
{
    bool in[PARTS_MOST][RECORDS_MOST] = {0};
    for (int64_t i = 1; i < n_records; i++) {
        in[draw(d, n)][i] = true;
        if (draw(d, 5) == 0) in[draw(d, n)][i] = true;
    }
    for (int i = 0; i < n; i++) write_part(paths[i], i, in[i]);
}

/* Merges random groups of the files, sometimes with a file that is in another group too, until one
 * is left: its path. */
static const char *merge_in_groups(struct draw *d, char **paths, int n, char **more)
{
    char *left[PARTS_MOST + 1];
    int made = 0;
    memcpy(left, paths, (size_t)n * sizeof *paths);
    do {
        char *group[PARTS_MOST + 1];
        int size = 1 + (int)draw(d, n), k = 0;
        for (; k < size; k++) { /* a random one moves from `left` to the group */
            const int64_t at = draw(d, n);
            group[k] = left[at];
            left[at] = left[--n];
        }
        if (draw(d, 3) == 0) group[k++] = paths[0];
        merge_files(group, k, more[made], NULL);
        left[n++] = more[made++];
    } while (n > 1 && made < PARTS_MOST * 4);
    if (n > 1) merge_files(left, n, more[made], NULL);
    return n > 1 ? more[made] : left[0];
}

static void random_splits_merge_to_the_whole(void **state)
{
    (void)state;
    enum { MORE = PARTS_MOST * 4 + 1, CUBES = 10 };
    const char *given = getenv("QTRAJ_TEST_SPLITS");
    const int splits = given ? atoi(given) : 25;
    char *paths[PARTS_MOST], *more[MORE], *expected = make_expected();
    char *cube = sample_path(folder, "expected.h5"), *other = sample_path(folder, "merged.h5");
    for (int i = 0; i < PARTS_MOST; i++) paths[i] = path_of("part", i);
    for (int i = 0; i < MORE; i++) more[i] = path_of("more", i);
    write_cube(expected, cube);
    for (int s = 0; s < splits; s++) {
        struct draw d = {.stream = (uint64_t)s};
        const int n = 1 + (int)draw(&d, PARTS_MOST);
        split(&d, n, paths);
        const char *merged = merge_in_groups(&d, paths, n, more);
        assert_same_files(merged, expected);
        if (s % CUBES) continue;
        write_cube(merged, other);
        assert_same_files(other, cube);
    }
    for (int i = 0; i < PARTS_MOST; i++) free(paths[i]);
    for (int i = 0; i < MORE; i++) free(more[i]);
    free(expected);
    free(cube);
    free(other);
}

/* A cube has all that its journal has: merged with it, or without it, nothing changes. */
static void a_cube_has_all_that_its_journal_has(void **state)
{
    (void)state;
    char *expected = make_expected(), *again_path = path_of("again", 0);
    char *cube = sample_path(folder, "a.h5"), *other = sample_path(folder, "b.h5");
    write_cube(expected, cube);
    char *both[] = {cube, expected};
    merge_files(both, 1, again_path, NULL);
    write_cube(again_path, other);
    struct results_view *a = NULL, *b = NULL;
    assert_int_equal(results_view_open(cube, VIEW_ALL, NULL, &a, &error), OK);
    assert_int_equal(results_view_open(other, VIEW_ALL, NULL, &b, &error), OK);
    for (int64_t i = 1; i < n_records; i++) {
        const char *key = json_text(records[i], "key", "");
        assert_true(json_equal(results_view_find(a, key), results_view_find(b, key)) ||
                    !results_view_find(a, key));
    }
    results_view_close(a);
    results_view_close(b);
    struct merge_findings found = {0};
    merge_files(both, 2, again_path, &found);
    assert_int_equal(found.conflicts.n, 0);
    texts_free(&found.conflicts);
    free(expected);
    free(again_path);
    free(cube);
    free(other);
}

/* --- conflicts --- */

/* A cell with that loss on its text "faq", with errors of 0.01. */
static json_t *cell_with(double loss, const char *fingerprint, const char *weights)
{
    json_t *r = json_deep_copy(records[first_cell()]);
    json_t *faq = json_object_get(json_object_get(r, "datasets"), "faq");
    sample_set(faq, "loss", loss);
    sample_set(faq, "loss_delta_stderr", 0.01);
    json_object_set_new(r, "fingerprint", json_string(fingerprint));
    json_object_set_new(json_object_get(r, "provenance"), "weights_hash", json_string(weights));
    return r;
}

static void expect(enum merge_verdict verdict, json_t *a, json_t *b)
{
    char why[200];
    assert_int_equal(merge_compare(a, b, why, sizeof why), verdict);
    assert_int_equal(merge_compare(b, a, why, sizeof why), verdict);
    if (verdict != MERGE_SAME) assert_true(why[0]);
    json_decref(a);
    json_decref(b);
}

static void only_other_numbers_conflict(void **state)
{
    (void)state;
    expect(MERGE_SAME, cell_with(3, "x", "f"), cell_with(3, "x", "f"));
    expect(MERGE_SAME, cell_with(3, "x", "f"), cell_with(3, "y", "f"));
    expect(MERGE_CONFLICT, cell_with(3, "x", "f"), cell_with(3 + 1e-15, "x", "f"));
    expect(MERGE_DIFFERENT, cell_with(3, "x", "f"), cell_with(3.049, "y", "f"));
    expect(MERGE_CONFLICT, cell_with(3, "x", "f"), cell_with(3.051, "y", "f"));
    expect(MERGE_CONFLICT, cell_with(3, "x", "f"), cell_with(3, "x", "g"));
    json_t *failed = cell_with(4, "x", "f"), *slower = cell_with(3, "x", "f");
    json_object_set_new(failed, "status", json_string("failed"));
    expect(MERGE_SAME, cell_with(3, "x", "f"), failed);
    sample_set(json_object_get(slower, "values"), "seconds", 99);
    expect(MERGE_SAME, cell_with(3, "x", "f"), slower);
}

/* Full precision: rounding is allowed, more is not. */
static void test_full_precision(void **state)
{
    (void)state;
    const double by[] = {1e-7, 1e-3};
    for (int i = 0; i < 2; i++) {
        json_t *b = sample_checkpoint(0);
        json_t *faq = json_object_get(json_object_get(b, "datasets"), "faq");
        sample_set(faq, "loss", json_number_get(json_object_get(faq, "loss")) + by[i]);
        json_object_set_new(b, "fingerprint", json_string("y"));
        expect(i ? MERGE_CONFLICT : MERGE_DIFFERENT, sample_checkpoint(0), b);
    }
}

/* Of one journal its last weights are kept, whatever its clock said; between journals the time
 * decides. The records are of three cells of one checkpoint. */
static void test_other_weights(void **state)
{
    (void)state;
    static const struct {
        const char *digest, *utc;
        int journal;
        bool kept;
    } of[2][3] = {{{"old", "2026-01-02T03:04:09Z", 0, false},
                   {"new", "2026-01-02T03:04:05Z", 0, true},
                   {"new", "2026-01-02T03:04:05Z", 0, true}},
                  {{"old", "2026-01-02T03:04:05Z", 0, false},
                   {"old", "2026-01-02T03:04:07Z", 0, false},
                   {"new", "2026-01-02T03:04:08Z", 1, true}}};
    char *paths[] = {path_of("weights", 0), path_of("weights", 1)}, *to = path_of("weights", 2);
    const int64_t cell = first_cell();
    for (int c = 0; c < 2; c++) {
        struct journal *j[2];
        struct merge_findings found = {0};
        for (int k = 0; k < 2; k++) {
            unlink(paths[k]);
            assert_int_equal(journal_open(paths[k], &j[k], &error), OK);
            assert_int_equal(journal_append(j[k], records[0], &error), OK);
        }
        for (int i = 0; i < 3; i++) {
            json_t *r = json_deep_copy(records[cell + i]);
            json_t *p = json_object_get(r, "provenance");
            json_object_set_new(p, "utc_end", json_string(of[c][i].utc));
            json_object_set_new(p, "weights_read", json_pack("{s:s}", "small/s", of[c][i].digest));
            assert_int_equal(journal_append(j[of[c][i].journal], r, &error), OK);
            json_decref(r);
        }
        for (int k = 0; k < 2; k++) journal_close(j[k]);
        merge_files(paths, 2, to, &found);
        struct results_view *v;
        assert_int_equal(results_view_open(to, VIEW_ALL, NULL, &v, &error), OK);
        for (int i = 0; i < 3; i++) {
            const char *key = json_text(records[cell + i], "key", "");
            assert_int_equal(results_view_find(v, key) != NULL, of[c][i].kept);
        }
        results_view_close(v);
        texts_free(&found.conflicts);
    }
    free(paths[0]);
    free(paths[1]);
    free(to);
}

static void test_another_sweep(void **state)
{
    (void)state;
    struct merge *m = NULL;
    struct journal *j = NULL;
    char *a = make_expected(), *b = path_of("another", 0);
    json_t *plan = json_deep_copy(records[0]);
    json_object_set_new(plan, "name", json_string("another"));
    assert_int_equal(journal_open(b, &j, &error), OK);
    assert_int_equal(journal_append(j, plan, &error), OK);
    journal_close(j);
    json_decref(plan);
    assert_int_equal(merge_new(&m, &error), OK);
    assert_int_equal(merge_add(m, a, &error), OK);
    assert_int_equal(merge_add(m, b, &error), ERR_USAGE);
    assert_non_null(strstr(error.text, "another"));
    err_clear(&error);
    merge_free(m);
    free(a);
    free(b);
}

/* A part's journal of a plan and, with an end, how its run ended; a record behind it is of a new
 * run. */
static char *write_run(int number, const char *utc, const char *end, bool more)
{
    struct journal *j = NULL;
    char *path = path_of("run", number), command[32];
    json_t *plan = json_deep_copy(records[0]);
    snprintf(command, sizeof command, "run s.yaml --part %d/3", number);
    json_object_set_new(plan, "utc", json_string(utc));
    json_object_set_new(plan, "host", json_string("n1"));
    json_object_set_new(plan, "command", json_string(command));
    json_t *record = json_pack("{s:s, s:s, s:s, s:i}", "type", "end", "status", "done", "utc", end,
                               "exit_code", 0);
    unlink(path);
    assert_int_equal(journal_open(path, &j, &error), OK);
    assert_int_equal(journal_append(j, plan, &error), OK);
    assert_int_equal(journal_append(j, record, &error), OK);
    if (more) assert_int_equal(journal_append(j, records[first_cell()], &error), OK);
    journal_close(j);
    json_decref(plan);
    json_decref(record);
    return path;
}

/* The merged plan says of each run when it began and ended, also one that was merged before and has
 * gone on since. */
static void runs_are_in_the_merged_plan(void **state)
{
    (void)state;
    struct journal *j = NULL;
    json_t *plan = NULL,
           *expected = json_pack(
               "{s:s, s:s, s:s}", "2026-01-01T00:00:00Z n1 run s.yaml --part 1/3",
               "2026-01-04T00:00:00Z", "2026-01-02T00:00:00Z n1 run s.yaml --part 2/3", "",
               "2026-01-03T00:00:00Z n1 run s.yaml --part 3/3", "2026-01-03T01:00:00Z");
    char *paths[] = {write_run(1, "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", false),
                     write_run(2, "2026-01-02T00:00:00Z", "2026-01-02T01:00:00Z", true)};
    char *again[] = {path_of("runs", 0), NULL,
                     write_run(3, "2026-01-03T00:00:00Z", "2026-01-03T01:00:00Z", false)};
    char *to = path_of("runs", 1);
    merge_files(paths, 2, again[0], NULL);
    again[1] = write_run(1, "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z", false);
    merge_files(again, 3, to, NULL);
    assert_int_equal(journal_open_readonly(to, &j, &error), OK);
    assert_int_equal(journal_read(j, 0, NULL, &plan, &error), OK);
    assert_string_equal(json_text(plan, "type", ""), "plan");
    assert_true(json_equal(json_object_get(plan, "merged"), expected));
    assert_null(json_object_get(plan, "part"));
    journal_close(j);
    json_decref(plan);
    json_decref(expected);
    for (int i = 0; i < 2; i++) free(paths[i]);
    for (int i = 0; i < 3; i++) free(again[i]);
    free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_splits_merge_to_the_whole),
        cmocka_unit_test(a_cube_has_all_that_its_journal_has),
        cmocka_unit_test(only_other_numbers_conflict),
        cmocka_unit_test(test_full_precision),
        cmocka_unit_test(test_other_weights),
        cmocka_unit_test(test_another_sweep),
        cmocka_unit_test(runs_are_in_the_merged_plan),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
