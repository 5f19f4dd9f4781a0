/* One visit whose variants need a stage's Gram matrix distributed, whole, and not at all, with only
 * the largest stage distributed: each cell is that of a visit of its variant alone. NP: 1 2 3 */
#include "engine/visit.h"
#include "math/linalg.h"
#include "quant/quant.h"
#include "util/mem.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VARIANTS = 7, DISTRIBUTED_FROM = 96 /* the fixture's stage down; the others have 64 */ };
static const struct {
    const char *label, *method;
    int hessian;
    bool sequential;
} mixed[VARIANTS] = {
    {"hqq", "hqq", HESSIAN_OWN, true},
    {"gptq", "gptq", HESSIAN_OWN, true},
    {"gptq-shared", "gptq", HESSIAN_SHARED, true},
    {"whole-shared", "test-whole", HESSIAN_SHARED, true},
    {"rtn", "rtn", HESSIAN_OWN, true},
    {"whole", "test-whole", HESSIAN_OWN, true},
    {"gptq-at-once", "gptq", HESSIAN_OWN, false},
};

struct cell {
    bool seen, done;
    char message[512];
    double loss, distance, bits, layers; /* layers: sum of the layers' relative errors */
};

static enum status emit(void *context, const json_t *record, struct err *e)
{
    struct cell *cells = context;
    const json_t *values = json_object_get(record, "values"), *layer;
    const json_t *d = json_object_get(json_object_get(record, "datasets"), "m");
    size_t k;
    (void)e;
    for (int i = 0; i < VARIANTS; i++) {
        struct cell *c = &cells[i];
        if (strcmp(json_text(record, "quantizer", ""), mixed[i].label) != 0) continue;
        c->seen = true;
        c->done = strcmp(json_text(record, "status", ""), "done") == 0;
        snprintf(c->message, sizeof c->message, "%s", json_text(record, "message", ""));
        c->loss = json_number_get(json_object_get(d, "loss"));
        c->distance = json_number_get(json_object_get(values, "weight_distance"));
        c->bits = json_number_get(json_object_get(values, "bits_per_weight"));
        json_array_foreach(json_object_get(record, "layers"), k, layer) {
            double error = json_number_get(json_object_get(layer, "relative_error"));
            if (isfinite(error)) c->layers += error;
        }
    }
    return OK;
}

/* Runs variants [first, end) in one visit. Collective on comm; cells are filled on its rank 0. */
static void visit(MPI_Comm comm, int first, int end, struct cell cells[VARIANTS])
{
    static char name[] = "m", none[] = "", path[] = FIXTURES "/models/llama";
    static char ids[] = FIXTURES "/models/llama/reference.safetensors:input_ids";
    struct visit_cache cache = {0};
    struct variant variants[VARIANTS];
    struct data_options data = {.name = name, .ids = ids};
    struct err e = {0};
    for (int i = first; i < end; i++) {
        struct method_entry *m = &variants[i].method;
        variants[i] = (struct variant){.bits = 3, .key = none};
        options_default(&quant_table, &m->options);
        m->options.hessian = mixed[i].hessian;
        m->options.true_sequential = mixed[i].sequential;
        m->options.group_size = 32;
        m->name = (char *)(uintptr_t)mixed[i].label;
        m->method = (char *)(uintptr_t)mixed[i].method;
    }
    const struct visit v = {.model = name,
                            .checkpoint = name,
                            .weights = {.path = path},
                            .key = none,
                            .run = {.scalapack_from = DISTRIBUTED_FROM},
                            .n_variants = end - first,
                            .variants = variants + first,
                            .calibration = data,
                            .n_evaluations = 1,
                            .evaluations = &data};
    const struct visit_hooks hooks = {.context = cells, .ranks = 1, .emit = emit};
    if (visit_run(&v, comm, &cache, &hooks, &e) != OK) fail_msg("%s", e.text);
    visit_cache_free(&cache);
}

static void check_done(const struct cell *c, int i)
{
    if (!c->seen || !c->done) fail_msg("%s: %s", mixed[i].label, c->message);
}

static void methods_together_give_what_each_gives_alone(void **state)
{
    struct cell together[VARIANTS] = {0}, alone[VARIANTS] = {0}, one[VARIANTS] = {0};
    int rank;
    (void)state;
    struct quant_method whole = quant_gptq;
    whole.name = "test-whole";
    whole.distributed = false;
    quant_add(&whole);
    visit(MPI_COMM_WORLD, 0, VARIANTS, together);
    for (int i = 0; i < VARIANTS; i++) visit(MPI_COMM_WORLD, i, i + 1, alone);
    visit(MPI_COMM_SELF, 0, VARIANTS, one);
    quant_add(NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; rank == 0 && i < VARIANTS; i++) {
        const struct cell *a = &together[i], *b = &alone[i], *c = &one[i];
        check_done(a, i);
        check_done(b, i);
        check_done(c, i);
        if (a->loss != b->loss || a->distance != b->distance || a->layers != b->layers)
            fail_msg("%s: %.17g %.17g %.17g, alone %.17g %.17g %.17g", mixed[i].label, a->loss,
                     a->distance, a->layers, b->loss, b->distance, b->layers);
        /* as tests/mpi/groups.sh: a group's sums are added in another order */
        if (fabs(a->loss / c->loss - 1) > 1e-4 || a->bits != c->bits)
            fail_msg("%s: loss %.17g, on one rank %.17g", mixed[i].label, a->loss, c->loss);
    }
    /* The same statistics, factored as a distributed and as a whole matrix. */
    if (rank == 0) {
        assert_true(fabs(together[1].loss / together[5].loss - 1) < 1e-4);
        assert_true(fabs(together[2].loss / together[3].loss - 1) < 1e-4);
        assert_true(together[1].layers > 0 && together[1].loss != together[2].loss);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    linalg_setup();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(methods_together_give_what_each_gives_alone)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
