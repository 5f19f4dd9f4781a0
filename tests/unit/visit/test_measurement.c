/* A loss whose sequences are dealt out to ranks: gradient, products and eigenvalues of the whole.
 * NP: 1 2 3 */
#include "util/rng.h"
#include "visit/curvature.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static int64_t asked, stop_at;

static bool should_stop(void *context)
{
    (void)context;
    return ++asked == stop_at;
}

static const struct visit_hooks hooks = {.should_stop = should_stop};

struct opened {
    struct checkpoint *checkpoint;
    struct model *model;
    struct sequences s;
};

/* Sequences of unequal length; with three ranks one has a single short one. */
static void open_model(struct opened *o)
{
    static const int64_t lengths[] = {20, 7, 31, 2};
    struct err e = {0};
    if (checkpoint_open(FIXTURES "/models/tiny_llama", &o->checkpoint, &e) != OK ||
        model_open(o->checkpoint, &o->model, &e) != OK)
        fail_msg("%s", e.text);
    assert_int_equal(sequences_init(&o->s, 4, 60, 0, NULL), OK);
    for (int i = 0; i < 4; i++) o->s.offset[i + 1] = o->s.offset[i] + lengths[i];
    for (int i = 0; i < 60; i++) o->s.ids[i] = (int32_t)(rng_bits(3, (uint64_t)i) % 32);
}

static void close_model(struct opened *o)
{
    sequences_free(&o->s);
    model_close(o->model);
    checkpoint_close(o->checkpoint);
}

static enum status run(const struct opened *o, MPI_Comm group, struct curvature *out,
                       int64_t *tokens)
{
    struct err e = {0};
    struct measurement m = {.model = o->model, .sequences = &o->s, .group = group, .hooks = &hooks};
    struct curvature_request request = {.seed = 5};
    curvature_options_default(&request.options);
    request.options.sharpness = SHARPNESS_LANCZOS;
    request.options.tolerance = 1e-4;
    request.options.trace = 6;
    if (measurement_open(&m, HVP_ALL, &e) != OK) fail_msg("%s", e.text);
    enum status st = measurement_run(&m, &request, out, &e);
    *tokens = m.tokens;
    measurement_close(&m);
    return st;
}

static void close_to(double x, double y, double relative)
{
    if (!(fabs(x - y) <= relative * fabs(y))) fail_msg("%.9g and %.9g", x, y);
}

static void shared_is_whole(void **state)
{
    (void)state;
    struct opened o;
    struct curvature alone, together;
    int64_t n, m;
    open_model(&o);
    asked = stop_at = 0;
    assert_int_equal(run(&o, MPI_COMM_SELF, &alone, &n), OK);
    assert_int_equal(run(&o, MPI_COMM_WORLD, &together, &m), OK);
    assert_int_equal(n, 56);
    assert_int_equal(m, 56);
    close_to(together.loss, alone.loss, 1e-6);
    close_to(together.gradient_norm, alone.gradient_norm, 1e-5);
    close_to(together.sharpness.value, alone.sharpness.value, 1e-5);
    close_to(together.trace.mean, alone.trace.mean, 1e-4);
    double sum[2] = {together.trace.mean, together.sharpness.value}, least[2];
    MPI_Allreduce(sum, least, 2, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    assert_true(least[0] == sum[0] && least[1] == sum[1]); /* the same bits on all ranks */
    curvature_free(&alone);
    curvature_free(&together);
    close_model(&o);
}

static void stops_together(void **state)
{
    (void)state;
    struct opened o;
    struct curvature c;
    int64_t tokens;
    open_model(&o);
    asked = 0;
    stop_at = 4;
    assert_int_equal(run(&o, MPI_COMM_WORLD, &c, &tokens), ERR_STOPPED);
    assert_int_equal(asked, 4);
    curvature_free(&c);
    close_model(&o);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_is_whole),
        cmocka_unit_test(stops_together),
    };
    MPI_Init(&argc, &argv);
    int failed = cmocka_run_group_tests_name("measurement", tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
