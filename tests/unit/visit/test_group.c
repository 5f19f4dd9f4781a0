/* Ranks that share a visit: who has which sequences, memory of a node, and failures of one rank,
 * which are every rank's and never a hang. NP: 1 2 3 4 */
#include "linalg/linalg.h"
#include "util/mem.h"
#include "visit/group.h"
#include "visit/visit.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct visit_group group;

static struct sequences sequences_of(const int64_t *lengths, int64_t n)
{
    struct sequences s;
    int64_t tokens = 0;
    for (int64_t i = 0; i < n; i++) tokens += lengths[i];
    assert_int_equal(sequences_init(&s, n, tokens, 0, NULL), OK);
    for (int64_t i = 0; i < n; i++) s.offset[i + 1] = s.offset[i] + lengths[i];
    for (int64_t i = 0; i < tokens; i++) s.ids[i] = (int32_t)i;
    return s;
}

/* Every sequence once, in order; no rank has more than its share and a sequence. */
static void test_sequences(void **state)
{
    (void)state;
    const int64_t lengths[] = {5, 0, 17, 1, 1, 40, 3, 3, 9, 12, 2};
    for (int64_t n = 0; n <= 11; n++) {
        struct sequences all = sequences_of(lengths, n), kept = {0};
        const struct sequences *own;
        int64_t first;
        assert_int_equal(group_sequences(&group, &all, &kept, &own, &first, NULL), OK);
        int64_t tokens = own->offset[own->n];
        assert_true(tokens <= all.offset[n] / group.size + 41);
        for (int64_t i = 0; i < own->n; i++)
            assert_int_equal(own->offset[i + 1] - own->offset[i], lengths[first + i]);
        for (int64_t i = 0; i < tokens; i++) assert_int_equal(own->ids[i], all.offset[first] + i);
        double numbers[11];
        for (int64_t i = 0; i < n; i++) numbers[i] = -1;
        for (int64_t i = 0; i < own->n; i++) numbers[first + i] = (double)(first + i);
        assert_int_equal(group_gather(&group, &all, numbers, NULL), OK);
        for (int64_t i = 0; i < n; i++) assert_true(numbers[i] == (double)i);
        sequences_free(&kept);
        sequences_free(&all);
    }
}

static void test_memory(void **state)
{
    (void)state;
    struct group_memory m;
    enum { ROWS = 300, COLS = 7 };
    assert_int_equal(group_memory_open(&group, ROWS * COLS, "test", &m, NULL), OK);
    for (int round = 0; round < 3; round++) {
        int64_t first, end;
        team_own_rows(&group.team, ROWS, &first, &end);
        for (int64_t i = first * COLS; i < end * COLS; i++) m.at[i] = (float)(i + round);
        assert_int_equal(group_rows(&group, &m, m.at, ROWS, COLS, NULL), OK);
        for (int64_t i = 0; i < ROWS * COLS; i++) assert_true(m.at[i] == (float)(i + round));
        group_memory_sync(&group, &m);
    }
    group_memory_close(&m);
}

/* --- failures --- */

struct watch {
    int fails_on;      /* rank whose hook fails, -1: none */
    int64_t at, calls; /* its call of that number */
    int64_t done, failed;
    char message[512];
};

static enum status weights(void *context, const struct variant *v, const struct linear *l,
                           const float *q, struct err *e)
{
    enum status st = OK;
    struct watch *w = context;
    (void)v;
    (void)q;
    ENSURE(group.rank != w->fails_on || w->calls++ != w->at, ERR_NOMEM, "no room for %s", l->name);
done:
    return st;
}

static enum status emit(void *context, const json_t *record, struct err *e)
{
    struct watch *w = context;
    (void)e;
    if (strcmp(json_text(record, "type", ""), "cell") != 0) return OK;
    bool done = strcmp(json_text(record, "status", ""), "done") == 0;
    *(done ? &w->done : &w->failed) += 1;
    if (!done) snprintf(w->message, sizeof w->message, "%s", json_text(record, "message", ""));
    return OK;
}

static void visit_watched(struct watch *w, int64_t scalapack_from)
{
    static char name[] = "m", none[] = "", path[] = FIXTURES "/models/llama";
    static char ids[] = FIXTURES "/models/llama/reference.safetensors:input_ids", method[] = "gptq";
    struct visit_cache cache = {0};
    struct variant variants[2] = {{.bits = 3, .key = none}, {.bits = 4, .key = none}};
    struct data_options data = {.name = name, .ids = ids};
    struct err e = {0};
    for (int i = 0; i < 2; i++) {
        struct method_entry *entry = &variants[i].method;
        quant_options_default(&entry->options);
        entry->name = entry->method = method;
        entry->options.group_size = 32;
        entry->options.true_sequential = i == 0;
    }
    const struct visit v = {.model = name,
                            .checkpoint = name,
                            .path = path,
                            .key = none,
                            .run = {.scalapack_from = scalapack_from},
                            .n_variants = 2,
                            .variants = variants,
                            .calibration = data,
                            .n_evaluations = 1,
                            .evaluations = &data};
    const struct visit_hooks hooks = {.context = w, .ranks = 1, .emit = emit, .weights = weights};
    if (visit_run(&v, group.comm, &cache, &hooks, &e) != OK) fail_msg("%s", e.text);
    visit_cache_free(&cache);
}

/* A failure in the middle of one variant on any rank fails that variant on all, with its text, and
 * the other goes on. */
static void test_failures(void **state)
{
    (void)state;
    for (int64_t from = 1; from < 1000; from += 998)
        for (int rank = -1; rank < group.size; rank++)
            for (int64_t at = 0; at < 30; at += 13) {
                struct watch w = {.fails_on = rank, .at = at};
                visit_watched(&w, from);
                if (group.rank != 0) continue;
                assert_int_equal(w.done, rank < 0 ? 2 : 1);
                assert_int_equal(w.failed, rank < 0 ? 0 : 1);
                if (rank >= 0) assert_non_null(strstr(w.message, "no room for model.layers."));
            }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    linalg_setup();
    if (group_open(MPI_COMM_WORLD, &group, NULL) != OK) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_failures),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    group_close(&group);
    MPI_Finalize();
    return failed;
}
