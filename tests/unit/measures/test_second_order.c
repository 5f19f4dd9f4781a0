/* Second order of variants on a real model, on a single rank and in a group whose nodes have
 * unequal numbers of ranks: a failing variant does not affect the others; non-finite losses.
 * NP: 1 3 */
#include "checkpoint/derived.h"
#include "engine/inputs.h"
#include "engine/weights.h"
#include "math/linalg.h"
#include "measures/measurement.h"
#include "measures/second_order_internal.h"
#include "model/describe.h"
#include "util/lru.h"
#include "util/mem.h"
#include "util/rng.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct visit_group group;

/* Rank 0 is alone on its node; the others share a node. */
static void pretend_nodes(struct visit_group *g)
{
    if (g->size == 1) return;
    MPI_Comm_free(&g->node);
    MPI_Comm_split(g->comm, g->rank > 0, g->rank, &g->node);
    MPI_Comm_rank(g->node, &g->node_rank);
    MPI_Comm_size(g->node, &g->node_size);
}

#define OK_OR_FAIL(call)                                                                           \
    do {                                                                                           \
        struct err err_ = {0}, *e = &err_;                                                         \
        if ((call) != OK) fail_msg("%s", err_.text);                                               \
    } while (0)

/* --- a model with a neuron that is never active --- */

enum { LINEARS = 64, VARIANTS = 3 };
static const char gate[] = "model.layers.0.mlp.gate_proj.weight";
static const char down[] = "model.layers.0.mlp.down_proj.weight";

struct bench {
    char dir[40];
    struct checkpoint *folder, *base;
    struct model *model;
    int n;
    struct linear linear[LINEARS]; /* w: base's weights, owned; (rows, cols) */
    char names[LINEARS][DESCRIBE_NAME];
    struct visit_cache cache;
    const struct sequences *tokens;
    struct visit visit;
    struct variant variants[VARIANTS];
    struct second_order_setup setup;
};

static float *floats(int64_t n)
{
    float *x;
    OK_OR_FAIL(mem_zero(&x, n, sizeof *x, "a test", e));
    return x;
}

static void read_linears(struct bench *b)
{
    struct tensor_description *t;
    int64_t n;
    OK_OR_FAIL(model_parameters(b->folder, &t, &n, e));
    for (int64_t i = 0; i < n; i++) {
        if (!t[i].linear) continue;
        struct linear *l = &b->linear[b->n];
        float *w = floats(t[i].shape[0] * t[i].shape[1]);
        memcpy(b->names[b->n], t[i].name, DESCRIBE_NAME);
        OK_OR_FAIL(checkpoint_read_f32(b->folder, t[i].name, 2, t[i].shape, w, e));
        if (strcmp(t[i].name, gate) == 0) memset(w, 0, (size_t)t[i].shape[1] * sizeof *w);
        *l = (struct linear){
            .name = b->names[b->n++], .rows = t[i].shape[0], .cols = t[i].shape[1], .w = w};
    }
    free(t);
}

static void open_base(struct bench *b)
{
    char path[64];
    struct safetensors_out *out;
    OK_OR_FAIL(checkpoint_open(FIXTURES "/models/llama", &b->folder, e));
    read_linears(b);
    snprintf(path, sizeof path, "%s/base.safetensors", b->dir);
    OK_OR_FAIL(weights_file_create(b->folder, path, NULL, &out, e));
    for (int i = 0; i < b->n; i++)
        OK_OR_FAIL(
            safetensors_append(out, b->linear[i].w, b->linear[i].rows * b->linear[i].cols, e));
    OK_OR_FAIL(safetensors_commit(out, e));
    safetensors_out_close(out);
    OK_OR_FAIL(checkpoint_overlay(b->folder, path, &b->base, e));
    unlink(path);
    OK_OR_FAIL(model_open(b->base, &b->model, e));
}

static void bench_open(struct bench *b)
{
    static char name[] = "m", path[] = FIXTURES "/models/llama";
    static char ids[] = FIXTURES "/models/llama/reference.safetensors:input_ids";
    *b = (struct bench){.dir = "/tmp/qtraj-test-XXXXXX"};
    assert_non_null(mkdtemp(b->dir));
    open_base(b);
    b->setup = (struct second_order_setup){.depth = SECOND_ORDER_LAYERS,
                                           .data = {.name = name, .ids = ids},
                                           .together = 2,
                                           .memory = 1};
    b->visit = (struct visit){.model = name,
                              .checkpoint = name,
                              .weights = {.path = path},
                              .key = name,
                              .run = {.scratch = b->dir},
                              .variants = b->variants,
                              .setup = {[MEASURE_second_order] = &b->setup}};
    OK_OR_FAIL(visit_sequences_get(&b->cache, &b->visit, &b->setup.data, &b->tokens, e));
}

/* Nothing is left on scratch. */
static void bench_close(struct bench *b)
{
    assert_int_equal(rmdir(b->dir), 0);
    lru_trim(&b->cache.inputs, 0);
    for (int i = 0; i < b->n; i++) free((float *)(uintptr_t)b->linear[i].w);
    model_close(b->model);
    checkpoint_close(b->base);
    checkpoint_close(b->folder);
}

/* --- variants --- */

/* q (rows, cols) of linear l = the variant's weights. */
typedef void make(const struct bench *b, const struct linear *l, float *q);

static void noisy(const struct linear *l, uint64_t stream, float *q)
{
    for (int64_t i = 0; i < l->rows * l->cols; i++)
        q[i] = l->w[i] * (float)(0.99 + 0.02 * (double)(rng_bits(stream, (uint64_t)i) % 2));
}

static void first(const struct bench *b, const struct linear *l, float *q)
{
    (void)b;
    noisy(l, 3, q);
}

static void second(const struct bench *b, const struct linear *l, float *q)
{
    (void)b;
    noisy(l, 4, q);
}

static void infinite(const struct bench *b, const struct linear *l, float *q)
{
    (void)b;
    noisy(l, 3, q);
    q[0] = INFINITY;
}

/* Along the gradient the loss falls. The outgoing weights of the inactive neuron grow too, without
 * effect until they overflow f32, beyond FLT_MAX / huge steps. */
static const float huge = 2e38F;

static void downhill(const struct bench *b, const struct linear *l, float *q)
{
    struct hvp *h = NULL;
    OK_OR_FAIL(hvp_open(b->model, b->tokens, HVP_QUANTIZED, &h, e));
    float *g = floats(hvp_n(h));
    OK_OR_FAIL(hvp_gradient(h, g, NULL, e));
    int64_t t = 0;
    while (strcmp(hvp_tensor(h, t)->name, l->name) != 0) t++;
    const float *along = g + hvp_tensor(h, t)->offset;
    for (int64_t i = 0; i < l->rows * l->cols; i++) q[i] = l->w[i] - 1e-3F * along[i];
    if (strcmp(l->name, gate) == 0) memset(q, 0, (size_t)l->cols * sizeof *q);
    for (int64_t r = 0; strcmp(l->name, down) == 0 && r < l->rows; r++) q[r * l->cols] = huge;
    free(g);
    hvp_close(h);
}

static enum status emit(void *context, const json_t *record, struct err *e)
{
    (void)context;
    (void)record;
    (void)e;
    return OK;
}

/* Counts the variants that are through; each is told at least once. */
static int64_t completed;

static enum status complete(const struct part_context *c, const struct variant *v, struct err *e)
{
    (void)e;
    completed |= (int64_t)1 << (v - c->visit->variants);
    return OK;
}

static void measure(struct bench *b, int64_t n, make *const *made,
                    struct second_order_result *results)
{
    const struct visit_hooks hooks = {.ranks = 1, .emit = emit};
    const struct part_engine engine = {.complete = complete};
    struct part_context c = {.visit = &b->visit,
                             .engine = &engine,
                             .hooks = &hooks,
                             .group = &group,
                             .cache = &b->cache,
                             .threads = 1,
                             .checkpoint = b->base,
                             .model = b->model};
    const struct measure *part = &measure_second_order;
    b->visit.n_variants = n;
    c.state[MEASURE_second_order] = calloc(1, part->state);
    OK_OR_FAIL(part->open(&c, e));
    OK_OR_FAIL(part->begin(&c, e));
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < b->n; k++) {
            const struct linear *l = &b->linear[k];
            float *q = floats(l->rows * l->cols);
            made[i](b, l, q);
            OK_OR_FAIL(part->linear(&c, &b->variants[i], l, q, NULL, e));
            free(q);
        }
    struct second_order *s = c.state[MEASURE_second_order];
    completed = 0;
    OK_OR_FAIL(second_order_measure(s, e));
    assert_int_equal(completed, ((int64_t)1 << n) - 1);
    memcpy(results, s->results, (size_t)n * sizeof *results);
    memset(s->results, 0, (size_t)n * sizeof *results);
    part->close(&c);
    free(s);
}

static void expect_same(const struct second_order_result *a, const struct second_order_result *b)
{
    assert_true(a->done && b->done);
    assert_null(a->failure);
    assert_true(a->true_difference == b->true_difference && a->true_difference != 0);
    assert_true(a->prediction.first_order == b->prediction.first_order);
    assert_true(a->prediction.second_order == b->prediction.second_order);
    assert_true(a->n_tensors > 0 && a->n_tensors == b->n_tensors);
    for (int64_t t = 0; t < a->n_tensors; t++)
        assert_true(a->prediction.parts[t].diagonal == b->prediction.parts[t].diagonal);
}

static void one_fails(void **state)
{
    (void)state;
    struct bench b;
    struct second_order_result with[3], without[2];
    bench_open(&b);
    measure(&b, 2, (make *const[]){first, second}, without);
    measure(&b, 3, (make *const[]){first, infinite, second}, with);
    expect_same(&with[0], &without[0]);
    expect_same(&with[2], &without[1]);
    assert_false(with[1].done);
    assert_string_equal(with[1].failure,
                        "second_order: the loss of the quantized model is not finite");
    for (int i = 0; i < 3; i++) second_order_result_free(&with[i]);
    for (int i = 0; i < 2; i++) second_order_result_free(&without[i]);
    bench_close(&b);
}

/* The step at which the loss becomes non-finite counts as a rise. */
static void infinite_along(void **state)
{
    (void)state;
    struct bench b;
    struct second_order_result r;
    const double turn = (double)3.4028235e38F / (double)huge;
    bench_open(&b);
    b.setup.depth = SECOND_ORDER_NONE;
    b.setup.critical = true;
    measure(&b, 1, (make *const[]){downhill}, &r);
    if (!r.done) fail_msg("%s", r.failure);
    assert_true(r.true_difference < 0);
    assert_true(r.critical.low <= turn && turn <= r.critical.high);
    assert_true(r.critical.high <= 2 && r.critical.low >= 1);
    second_order_result_free(&r);
    bench_close(&b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_fails),
        cmocka_unit_test(infinite_along),
    };
    MPI_Init(&argc, &argv);
    linalg_setup();
    if (group_open(MPI_COMM_WORLD, &group, NULL) != OK) return 1;
    pretend_nodes(&group);
    int failed = cmocka_run_group_tests_name("second_order", tests, NULL, NULL);
    group_close(&group);
    MPI_Finalize();
    return failed;
}
