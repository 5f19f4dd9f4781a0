/* Failures keep their kind: a failed record contains its status, and a failure that another try may
 * not meet is not cached between visits. */
#include "engine/provenance.h"
#include "engine/visit.h"
#include "measures/surface.h"
#include <mpi.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static char path[] = CONFIGS "/quickstart/trajectory/step001200";
static char before[] = CONFIGS "/quickstart/trajectory/step001100";
static char ids[] = FIXTURES "/models/llama/reference.safetensors:input_ids"; /* two rows */
static char name[] = "m", rtn[] = "rtn";

enum { TOO_LITTLE = 1 << 20 }; /* bytes of memory: too little for any model */

/* The last record of a visit. */
static enum status take(void *context, const json_t *record, struct err *e)
{
    json_t **last = context;
    (void)e;
    json_decref(*last);
    *last = json_deep_copy(record);
    return OK;
}

/* The status that the visit's last record reports, its message in e. */
static enum status run(const struct visit *v, struct visit_cache *cache, struct err *e)
{
    json_t *last = NULL;
    const struct visit_hooks hooks = {.context = &last, .ranks = 1, .emit = take};
    *e = (struct err){0};
    if (visit_run(v, MPI_COMM_SELF, cache, &hooks, e) != OK) fail_msg("%s", e->text);
    const enum status st = provenance_failure(last, e);
    const char *code = json_text(last, "code", "");
    assert_string_equal(code, st == OK ? "" : status_word(st));
    json_decref(last);
    return st;
}

static struct visit visit_of(char *folder, struct data_options *evaluation)
{
    *evaluation = (struct data_options){.name = name, .ids = ids};
    return (struct visit){.model = name,
                          .checkpoint = name,
                          .weights = {.path = folder},
                          .key = name,
                          .n_evaluations = 1,
                          .evaluations = evaluation};
}

static void records_say_which(void **state)
{
    static char absent[] = FIXTURES "/no such checkpoint";
    static char no_ids[] = FIXTURES "/no such file.safetensors:ids";
    struct data_options evaluation;
    struct visit_cache cache = {0};
    struct err e;
    (void)state;
    struct visit v = visit_of(path, &evaluation);
    assert_int_equal(run(&v, &cache, &e), OK);
    v.run.memory = TOO_LITTLE;
    assert_int_equal(run(&v, &cache, &e), ERR_NOMEM);
    assert_non_null(strstr(e.text, "too little for this checkpoint"));
    v = visit_of(absent, &evaluation);
    assert_int_equal(run(&v, &cache, &e), ERR_IO);
    v = visit_of(path, &evaluation);
    evaluation.ids = no_ids;
    assert_int_equal(run(&v, &cache, &e), ERR_IO);
    visit_cache_free(&cache);
}

static void old_records_are_of_the_format(void **state)
{
    struct err e = {0};
    (void)state;
    json_t *record = json_pack("{s:s, s:s}", "status", "failed", "message", "no memory");
    assert_int_equal(provenance_failure(record, &e), ERR_FORMAT);
    assert_string_equal(e.text, "no memory");
    json_decref(record);
}

/* A point of the plane through a quantized checkpoint, first with too little memory. */
static void a_surface_is_tried_again(void **state)
{
    struct data_options evaluation;
    struct visit_cache cache = {0};
    struct err e;
    struct weights origin = {.path = path};
    struct weights parts[] = {
        {.path = path},
        {.path = before},
        {.kind = WEIGHTS_QUANTIZED,
         .n = 1,
         .parts = &origin,
         .variant = {.method = {.name = rtn, .method = rtn}, .bits = 4, .key = name}},
    };
    struct surface_setup setup = {
        .surface = name,
        .plane = SURFACE_QUANTIZATION,
        .n = 3,
        .parts = parts,
        .x = 0.5,
        .y = 0.5,
    };
    (void)state;
    options_default(&quant_table, &parts[2].variant.method.options);
    struct visit v = visit_of(path, &evaluation);
    v.setup[MEASURE_point] = &setup;
    v.run.memory = TOO_LITTLE;
    assert_int_equal(run(&v, &cache, &e), ERR_NOMEM);
    v.run.memory = 0;
    if (run(&v, &cache, &e) != OK) fail_msg("the failure stayed: %s", e.text);
    visit_cache_free(&cache);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_say_which),
        cmocka_unit_test(old_records_are_of_the_format),
        cmocka_unit_test(a_surface_is_tried_again),
    };
    MPI_Init(&argc, &argv);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
