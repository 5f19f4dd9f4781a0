/* The second-order prediction: its error decreases with the third power of the change, its parts
 * add up, a tensor's diagonal term uses the Hessian of that tensor. REAL: f32 f64 */
#include "curvature/hvp_predict.h"
#include "hvp_fixture.h"

/* The weight change of rounding the rows to nearest with `levels` steps on each side of zero. */
static real *rounding(const struct hvp_fixture *f, int levels)
{
    real *w = hvp_vector(f), *d = hvp_vector(f);
    OK_OR_FAIL(hvp_weights(f->h, w, e));
    for (int64_t t = 0; t < hvp_n_tensors(f->h); t++) {
        const struct hvp_tensor *at = hvp_tensor(f->h, t);
        int64_t cols = at->shape[1];
        for (int64_t r = at->offset; r < at->offset + at->elements; r += cols) {
            double most = 0;
            for (int64_t j = r; j < r + cols; j++) most = fmax(most, fabs((double)w[j]));
            double step = most > 0 ? most / levels : 1;
            for (int64_t j = r; j < r + cols; j++)
                d[j] = (real)(step * nearbyint((double)w[j] / step) - (double)w[j]);
        }
    }
    free(w);
    return d;
}

static void scaled(const struct hvp_fixture *f, const real *d, double s, real *out)
{
    for (int64_t i = 0; i < f->n; i++) out[i] = (real)(s * (double)d[i]);
}

static double loss_at(const struct hvp_fixture *f, const real *d)
{
    double loss;
    hvp_move(f->h, d, 1);
    OK_OR_FAIL(hvp_loss(f->h, &loss, e));
    hvp_move(f->h, NULL, 0);
    return loss;
}

/* |prediction - true difference| for the change scaled by s. */
static double error_at(const struct hvp_fixture *f, const real *g, const real *d, double s)
{
    struct prediction p;
    real *v = hvp_vector(f);
    scaled(f, d, s, v);
    OK_OR_FAIL(prediction_make(f->h, g, 1, (const real *const[]){v}, false, NULL, &p, e));
    double truth = loss_at(f, v) - loss_at(f, NULL), predicted = p.first_order + p.second_order;
    prediction_free(&p);
    free(v);
    return fabs(predicted - truth);
}

static void third_power(void **state)
{
    struct hvp_fixture f;
    if (sizeof(real) < 8) skip(); /* the third order of a small change is below f32's noise */
    hvp_fixture_open(&f, *state, HVP_QUANTIZED);
    real *d = rounding(&f, 3), *g = hvp_vector(&f);
    OK_OR_FAIL(hvp_gradient(f.h, g, NULL, e));
    static const double scales[] = {0.1, 0.03, 0.01};
    double error[3];
    for (int i = 0; i < 3; i++) error[i] = error_at(&f, g, d, scales[i]);
    for (int i = 1; i < 3; i++) {
        double power = log(error[i - 1] / error[i]) / log(scales[i - 1] / scales[i]);
        print_message("%s: error %.3e at %g, %.3e at %g: power %.3f\n", (const char *)*state,
                      error[i - 1], scales[i - 1], error[i], scales[i], power);
        assert_true(fabs(power - 3) < 0.25);
    }
    free(d);
    free(g);
    hvp_fixture_close(&f);
}

/* Two changes in one call give the same as each alone; the parts add up. */
static void parts_add_up(void **state)
{
    struct hvp_fixture f;
    struct prediction p[2], alone;
    hvp_fixture_open(&f, *state, HVP_QUANTIZED);
    real *d[2] = {rounding(&f, 3), rounding(&f, 7)}, *g = hvp_vector(&f);
    OK_OR_FAIL(hvp_gradient(f.h, g, NULL, e));
    OK_OR_FAIL(prediction_make(f.h, g, 2, (const real *const *)d, true, NULL, p, e));
    for (int i = 0; i < 2; i++) {
        double first = 0, second = 0;
        OK_OR_FAIL(prediction_make(f.h, g, 1, (const real *const *)&d[i], false, NULL, &alone, e));
        assert_true(alone.first_order == p[i].first_order);
        assert_true(alone.second_order == p[i].second_order);
        assert_true(fabs(norm(f.n, d[i]) * norm(f.n, d[i]) - p[i].squared_norm) <=
                    1e-12 * p[i].squared_norm);
        for (int64_t t = 0; t < p[i].n_tensors; t++) {
            first += p[i].parts[t].first_order;
            second += p[i].parts[t].second_order;
            assert_true(isnan(alone.parts[t].diagonal) && isfinite(p[i].parts[t].diagonal));
        }
        assert_true(first == p[i].first_order && second == p[i].second_order);
        prediction_free(&alone);
    }
    for (int i = 0; i < 2; i++) {
        prediction_free(&p[i]);
        free(d[i]);
    }
    free(g);
    hvp_fixture_close(&f);
}

/* A change in a single tensor: its diagonal term is the whole. */
static void diagonal_is_one_tensors(void **state)
{
    struct hvp_fixture f;
    struct prediction all, one;
    hvp_fixture_open(&f, *state, HVP_QUANTIZED);
    real *d = rounding(&f, 3), *alone = hvp_vector(&f), *g = hvp_vector(&f);
    OK_OR_FAIL(hvp_gradient(f.h, g, NULL, e));
    OK_OR_FAIL(prediction_make(f.h, g, 1, (const real *const[]){d}, true, NULL, &all, e));
    int64_t t = all.n_tensors / 2;
    const struct hvp_tensor *at = hvp_tensor(f.h, t);
    memcpy(alone + at->offset, d + at->offset, (size_t)at->elements * sizeof *d);
    OK_OR_FAIL(prediction_make(f.h, g, 1, (const real *const[]){alone}, false, NULL, &one, e));
    double scale = fabs(one.second_order), bound = sizeof(real) == 8 ? 1e-12 : 1e-5;
    assert_true(scale > 0);
    assert_true(fabs(one.second_order - all.parts[t].diagonal) <= bound * scale);
    assert_true(one.first_order == all.parts[t].first_order);
    prediction_free(&all);
    prediction_free(&one);
    free(d);
    free(alone);
    free(g);
    hvp_fixture_close(&f);
}

static void add_moved(void *sum, double products)
{
    *(double *)sum += products;
}

/* A vector in one tensor: hvp_apply_layer gives that tensor's part of the product bit for bit, and
 * passes only through that layer and those behind it. With retained activations and without. */
static void layer_alone(void **state)
{
    struct hvp_fixture f;
    hvp_fixture_open(&f, *state, HVP_MAT2D);
    real *d = rounding(&f, 3), *v = hvp_vector(&f), *whole = hvp_vector(&f), *part = hvp_vector(&f);
    const double L = (double)model_shape(f.model)->layers;
    for (int keep = 0; keep < 2; keep++) {
        hvp_keep(f.h, keep);
        OK_OR_FAIL(hvp_gradient(f.h, part, NULL, e));
        for (int64_t t = 0; t < hvp_n_tensors(f.h); t++) {
            const struct hvp_tensor *at = hvp_tensor(f.h, t);
            const size_t bytes = (size_t)at->elements * sizeof *d;
            double moved = 0;
            memset(v, 0, (size_t)f.n * sizeof *v);
            memcpy(v + at->offset, d + at->offset, bytes);
            OK_OR_FAIL(hvp_apply(f.h, 1, (const real *[]){v}, &whole, e));
            hvp_watch(f.h, add_moved, &moved);
            OK_OR_FAIL(hvp_apply_layer(f.h, at->layer, 1, (const real *[]){v}, &part, e));
            hvp_watch(f.h, NULL, NULL);
            assert_memory_equal(part + at->offset, whole + at->offset, bytes);
            assert_float_equal(moved, 1 - (at->layer > 0 ? (double)at->layer : 0) / L, 1e-12);
        }
    }
    free(d), free(v), free(whole), free(part);
    hvp_fixture_close(&f);
}

/* A change without a finite product has no prediction; the other change's prediction is not
 * affected. */
static void one_is_infinite(void **state)
{
    struct hvp_fixture f;
    struct prediction p[2], alone;
    hvp_fixture_open(&f, *state, HVP_QUANTIZED);
    real *d[2] = {rounding(&f, 3), rounding(&f, 7)}, *g = hvp_vector(&f);
    d[0][f.n / 2] = INFINITY;
    OK_OR_FAIL(hvp_gradient(f.h, g, NULL, e));
    OK_OR_FAIL(prediction_make(f.h, g, 2, (const real *const *)d, true, NULL, p, e));
    OK_OR_FAIL(prediction_make(f.h, g, 1, (const real *const *)&d[1], true, NULL, &alone, e));
    assert_false(prediction_is_finite(&p[0], true));
    assert_true(prediction_is_finite(&p[1], true));
    assert_true(alone.second_order == p[1].second_order);
    for (int64_t t = 0; t < alone.n_tensors; t++)
        assert_true(alone.parts[t].diagonal == p[1].parts[t].diagonal);
    /* A single non-finite number is enough. */
    alone.parts[alone.n_tensors - 1].diagonal = NAN;
    assert_true(prediction_is_finite(&alone, false) && !prediction_is_finite(&alone, true));
    prediction_free(&alone);
    for (int i = 0; i < 2; i++) {
        prediction_free(&p[i]);
        free(d[i]);
    }
    free(g);
    hvp_fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(third_power, (void *)(uintptr_t) "llama"),
        cmocka_unit_test_prestate(third_power, (void *)(uintptr_t) "olmo2"),
        cmocka_unit_test_prestate(third_power, (void *)(uintptr_t) "gpt_neox_parallel"),
        cmocka_unit_test_prestate(third_power, (void *)(uintptr_t) "apertus"),
        cmocka_unit_test_prestate(parts_add_up, (void *)(uintptr_t) "llama"),
        cmocka_unit_test_prestate(parts_add_up, (void *)(uintptr_t) "gpt_neox_parallel"),
        cmocka_unit_test_prestate(diagonal_is_one_tensors, (void *)(uintptr_t) "olmo2"),
        cmocka_unit_test_prestate(layer_alone, (void *)(uintptr_t) "llama"),
        cmocka_unit_test_prestate(one_is_infinite, (void *)(uintptr_t) "llama"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
