/* States are loaded whole or not at all: torn, damaged, of other settings, of other ranks.
 * NP: 1 2 3 */
#include "records/saved_internal.h"
#include "scratch.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/rng.h"
#include <math.h>

enum { N = 300000 }; /* more than one chunk */

static int rank, size;
static char folder[512], name[HASH_HEX];

struct work {
    struct saved *saved;
    struct saved_level outer, inner;
    int64_t step;
    char *text;
    double *numbers; // (N)
    bool loaded, loaded_inner;
};

static void move_outer(void *context, struct saved_move *m)
{
    struct work *w = context;
    saved_bytes(m, &w->step, sizeof w->step);
    if (saved_loads(m)) free(w->text);
    saved_text(m, &w->text);
}

static void move_inner(void *context, struct saved_move *m)
{
    const struct work *w = context;
    saved_bytes(m, w->numbers, N * (int64_t)sizeof *w->numbers);
}

static struct saved_place place_of(const char *settings, const char *inputs)
{
    struct saved_place p = {
        .comm = MPI_COMM_WORLD, .folder = folder, .name = name, .label = "work"};
    hash_text("visit", p.owner);
    snprintf(p.identity[SAVED_SETTINGS], HASH_HEX, "%s", settings);
    snprintf(p.identity[SAVED_INPUTS], HASH_HEX, "%s", inputs);
    return p;
}

static void work_open(struct work *w, const struct saved_place *place)
{
    struct err e = {0};
    *w = (struct work){.outer = {.name = "outer", .move = move_outer, .context = w},
                       .inner = {.name = "inner", .move = move_inner, .context = w}};
    assert_int_equal(mem_zero(&w->numbers, N, sizeof *w->numbers, "numbers", &e), OK);
    assert_int_equal(mem_string(&w->text, "nothing", &e), OK);
    assert_int_equal(saved_open(place, &w->saved, &e), OK);
    assert_int_equal(saved_enter(w->saved, &w->outer, &w->loaded, &e), OK);
    assert_int_equal(saved_enter(w->saved, &w->inner, &w->loaded_inner, &e), OK);
}

static void work_close(struct work *w)
{
    saved_leave(w->saved, &w->inner);
    saved_leave(w->saved, &w->outer);
    saved_close(w->saved);
    free(w->text);
    free(w->numbers);
}

static void work_step(struct work *w)
{
    struct err e = {0};
    w->step++;
    free(w->text);
    assert_int_equal(mem_format(&w->text, &e, "rank %d step %d", rank, (int)w->step), OK);
    for (int i = 0; i < N; i++) w->numbers[i] = (double)w->step * i + rank;
    assert_int_equal(saved_point(w->saved, &e), OK);
}

/* The step of the state that is found, 0: none. All of it must be of that step. */
static int64_t found(const struct saved_place *place)
{
    struct work w;
    char expected[64];
    work_open(&w, place);
    const int64_t step = w.loaded ? w.step : 0;
    assert_int_equal(w.loaded, w.loaded_inner);
    snprintf(expected, sizeof expected, "rank %d step %d", rank, (int)step);
    assert_string_equal(w.text, step ? expected : "nothing");
    for (int i = 0; i < N; i++) assert_true(w.numbers[i] == (step ? (double)step * i + rank : 0));
    work_close(&w);
    MPI_Barrier(MPI_COMM_WORLD);
    return step;
}

static const struct saved_place *usual(void)
{
    static struct saved_place p;
    p = place_of("a", "b");
    return &p;
}

/* A state after so many steps. */
static void save_steps(int steps)
{
    struct work w;
    work_open(&w, usual());
    for (int i = 0; i < steps; i++) work_step(&w);
    work_close(&w);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void remove_states(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) saved_remove_all(folder);
    MPI_Barrier(MPI_COMM_WORLD);
    assert_false(fsx_is_dir(folder));
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The path of a rank's only file. */
static const char *file_of(int of)
{
    static char path[600];
    for (int slot = 0; slot < 2; slot++) {
        snprintf(path, sizeof path, "%s/%s.%d.%d", folder, name, of, slot);
        if (fsx_is_file(path)) return path;
    }
    fail_msg("rank %d has no file", of);
    return NULL;
}

static void loads_the_last_state(void **state)
{
    (void)state;
    assert_int_equal(found(usual()), 0);
    for (int steps = 1; steps < 4; steps++) {
        save_steps(steps);
        assert_int_equal(found(usual()), steps);
        assert_int_equal(found(usual()), steps);
        remove_states();
    }
}

static void goes_on_after_loading(void **state)
{
    (void)state;
    save_steps(2);
    save_steps(3);
    assert_int_equal(found(usual()), 5);
    remove_states();
}

/* For who plans: whose states there are, and how long they took, over all runs. */
static void states_are_listed(void **state)
{
    (void)state;
    struct err e = {0};
    struct saved_found *list;
    int64_t n;
    char owner[HASH_HEX];
    double before = 0;
    hash_text("visit", owner);
    assert_int_equal(saved_list(folder, &list, &n, &e), OK);
    assert_int_equal(n, 0);
    for (int round = 0; round < 2; round++) {
        save_steps(1 + round);
        assert_int_equal(saved_list(folder, &list, &n, &e), OK);
        assert_int_equal(n, 1);
        assert_string_equal(list[0].owner, owner);
        assert_true(list[0].seconds > before);
        before = list[0].seconds;
        free(list);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    remove_states();
}

static void nothing_without_a_folder(void **state)
{
    (void)state;
    struct saved_place p = place_of("a", "b");
    p.folder = NULL;
    struct work w;
    work_open(&w, &p);
    assert_null(w.saved);
    work_step(&w);
    saved_remove(w.saved);
    work_close(&w);
}

static void ignores_what_differs(void **state)
{
    (void)state;
    const struct saved_place settings = place_of("x", "b"), inputs = place_of("a", "x");
    struct saved_place build = place_of("a", "b");
    snprintf(build.identity[SAVED_BUILD], HASH_HEX, "x");
    save_steps(2);
    assert_int_equal(found(&build), 0);
    assert_int_equal(found(&settings), 0);
    assert_int_equal(found(&inputs), 0);
    if (size > 1) { /* the first rank alone */
        struct saved_place alone = *usual();
        struct work w;
        alone.comm = MPI_COMM_SELF;
        if (rank == 0) {
            work_open(&w, &alone);
            assert_false(w.loaded);
            work_close(&w);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    assert_int_equal(found(usual()), 2);
    remove_states();
}

/* The last rank's file: every length in the trailer, and some in the data; some flipped bits. */
static void ignores_what_is_damaged(void **state)
{
    (void)state;
    char *data = NULL, path[600];
    size_t n = 0;
    save_steps(1);
    snprintf(path, sizeof path, "%s", file_of(size - 1));
    assert_int_equal(fsx_read(path, 0, &data, &n, NULL), OK);
    MPI_Barrier(MPI_COMM_WORLD);
    for (size_t cut = 0; cut < n; cut += cut + 40 < n ? n / 5 : 9) {
        if (rank == size - 1) assert_int_equal(fsx_write_atomic(path, data, cut, NULL), OK);
        MPI_Barrier(MPI_COMM_WORLD);
        assert_int_equal(found(usual()), 0);
    }
    for (size_t at = 3; at < n; at += at + 300 < n ? n / 7 : 13) {
        data[at] ^= 16;
        if (rank == size - 1) assert_int_equal(fsx_write_atomic(path, data, n, NULL), OK);
        MPI_Barrier(MPI_COMM_WORLD);
        assert_int_equal(found(usual()), 0);
        data[at] ^= 16;
    }
    if (rank == size - 1) assert_int_equal(fsx_write_atomic(path, data, n, NULL), OK);
    MPI_Barrier(MPI_COMM_WORLD);
    assert_int_equal(found(usual()), 1);
    if (rank == size - 1) assert_int_equal(unlink(path), 0);
    MPI_Barrier(MPI_COMM_WORLD);
    assert_int_equal(found(usual()), 0);
    free(data);
    remove_states();
}

/* One rank has the state before, the others are one ahead: they died while they published it. */
static void ranks_agree_on_one_state(void **state)
{
    (void)state;
    char *old = NULL, before[600], after[600];
    size_t n = 0;
    struct work w;
    if (size == 1) return;
    work_open(&w, usual());
    work_step(&w);
    snprintf(before, sizeof before, "%s", file_of(rank));
    assert_int_equal(fsx_read(before, 0, &old, &n, NULL), OK);
    work_step(&w);
    work_close(&w);
    snprintf(after, sizeof after, "%s", file_of(rank));
    assert_int_equal(fsx_write_atomic(before, old, n, NULL), OK);
    if (rank == size - 1) assert_int_equal(unlink(after), 0);
    MPI_Barrier(MPI_COMM_WORLD);
    assert_int_equal(found(usual()), 1);
    save_steps(2); /* and goes on from it */
    assert_int_equal(found(usual()), 3);
    free(old);
    remove_states();
}

/* Nothing but its own files goes. */
static void leaves_other_files(void **state)
{
    (void)state;
    char path[600];
    struct work w;
    work_open(&w, usual());
    work_step(&w);
    snprintf(path, sizeof path, "%s/notes.txt", folder);
    if (rank == 0) assert_int_equal(fsx_write_file(path, "x", 1, NULL), OK);
    MPI_Barrier(MPI_COMM_WORLD);
    saved_remove(w.saved);
    work_close(&w);
    MPI_Barrier(MPI_COMM_WORLD);
    assert_int_equal(found(usual()), 0);
    if (rank == 0) saved_remove_all(folder);
    MPI_Barrier(MPI_COMM_WORLD);
    assert_true(fsx_is_file(path));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) assert_int_equal(unlink(path), 0);
    remove_states();
}

/* The work goes on if it cannot be saved. */
static void a_folder_that_cannot_be_made(void **state)
{
    (void)state;
    struct saved_place p = *usual();
    p.folder = "/proc/self/states";
    struct work w;
    work_open(&w, &p);
    work_step(&w);
    work_step(&w);
    work_close(&w);
}

/* Saving keeps within 1 % of the time, although saves take between nothing and twice what was
 * expected; and with equal saves it uses most of it. */
static void one_percent_of_the_time(void **state)
{
    (void)state;
    const int64_t bytes = 200000000;
    for (int form = 0; form < 2; form++) {
        struct saved_times t = {0};
        double elapsed = 0, first = 0;
        for (int i = 0; i < 20000; i++) {
            elapsed += 5; /* a block */
            if (!saved_is_due(&t, bytes, elapsed)) continue;
            const double uniform = (double)(rng_bits(1, (uint64_t)i) >> 11) * 0x1p-53,
                         expected = fmax(t.longest, 1.3),
                         took = form ? 1.3 : fmin(2 * expected * uniform, 20);
            if (!t.n) first = elapsed;
            saved_took(&t, took);
            elapsed += took;
            assert_true(t.spent <= 0.01 * elapsed);
        }
        assert_in_range((int64_t)(first - 2 * 1.3 / 0.01), 0, 5);
        if (form) assert_true(t.spent > 0.0095 * elapsed);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    setenv("QTRAJ_SAVE", "always", 1);
    if (rank == 0) snprintf(folder, sizeof folder, "%s", scratch_path("states"));
    MPI_Bcast(folder, sizeof folder, MPI_BYTE, 0, MPI_COMM_WORLD);
    hash_text("work", name);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_the_last_state),     cmocka_unit_test(goes_on_after_loading),
        cmocka_unit_test(states_are_listed),        cmocka_unit_test(nothing_without_a_folder),
        cmocka_unit_test(ignores_what_differs),     cmocka_unit_test(ignores_what_is_damaged),
        cmocka_unit_test(ranks_agree_on_one_state), cmocka_unit_test(one_percent_of_the_time),
        cmocka_unit_test(leaves_other_files),       cmocka_unit_test(a_folder_that_cannot_be_made)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
