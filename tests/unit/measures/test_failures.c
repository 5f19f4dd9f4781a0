/* A failure of one rank in the middle of a visit fails the variant on every rank and never hangs.
 * NP: 1 2 3 4 */
#include "engine/group.h"
#include "engine/visit.h"
#include "math/linalg.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct visit_group group;

struct watch {
    int fails_on;      /* rank whose hook fails, -1: none */
    int64_t at, calls; /* number of the call that fails */
    int64_t done, failed;
    char message[512];
};

static enum status weights(void *context, const struct variant *v, const struct linear *l,
                           const float *q, const struct quant_grids *grids, struct err *e)
{
    enum status st = OK;
    struct watch *w = context;
    (void)v;
    (void)q;
    (void)grids;
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
        options_default(&quant_table, &entry->options);
        entry->name = entry->method = method;
        entry->options.group_size = 32;
        entry->options.true_sequential = i == 0;
    }
    const struct visit v = {.model = name,
                            .checkpoint = name,
                            .weights = {.path = path},
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

/* A failure in the middle of one variant on any rank fails that variant on all ranks, with its
 * text; the other variant continues. */
static void a_failure_fails_its_variant_on_all_ranks(void **state)
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_failure_fails_its_variant_on_all_ranks)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    group_close(&group);
    MPI_Finalize();
    return failed;
}
