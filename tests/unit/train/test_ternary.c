/* A model with ternary linears in training (tests/fixtures/train/make_ternary.py): the
 * straight-through gradient of torch, the loss of the forward pass, and what is refused.
 * NP: 1 2 */
#include "checkpoint/safetensors.h"
#include "scratch_shared.h"
#include "train/trainer.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define OK_OR_FAIL(call)                                                                           \
    do {                                                                                           \
        struct err err_ = {0}, *e = &err_;                                                         \
        if ((call) != OK) fail_msg("%s", err_.text);                                               \
    } while (0)

#define FOLDER FIXTURES "/train/ternary"

static struct safetensors answers = {.fd = -1};
static char folder[200];

static float *read_f32(const struct safetensors *s, const char *name, int64_t *n)
{
    const struct tensor_entry *t = safetensors_find(s, name);
    assert_non_null(t);
    float *x = calloc((size_t)t->n_elements, sizeof *x);
    assert_non_null(x);
    OK_OR_FAIL(safetensors_read_range(s, t, 0, t->n_elements, x, e));
    *n = t->n_elements;
    return x;
}

/* The fixture's tokens. */
static int32_t *tokens_of(struct train_tokens *x)
{
    const struct tensor_entry *t = safetensors_find(&answers, "tokens");
    assert_non_null(t);
    int32_t *ids = calloc((size_t)t->n_elements, sizeof *ids);
    OK_OR_FAIL(safetensors_read_i32(&answers, t, ids, e));
    *x = (struct train_tokens){.n = t->shape[0], .length = t->shape[1] - 1, .tokens = ids};
    return ids;
}

static double loss_of_torch(void)
{
    int64_t n;
    float *loss = read_f32(&answers, "loss", &n);
    const double first = loss[0];
    free(loss);
    return first;
}

/* g (n) is within 1e-5 of torch's, relative to the norm of each tensor. */
static void compare(const struct trainer *t, const float *g)
{
    for (int64_t i = 0; i < trainer_n_tensors(t); i++) {
        int64_t n;
        double apart = 0, size = 0;
        const struct hvp_tensor *x = trainer_tensor(t, i, NULL);
        float *expected = read_f32(&answers, x->name, &n);
        assert_int_equal(n, x->elements);
        for (int64_t k = 0; k < n; k++) {
            apart += pow((double)g[x->offset + k] - (double)expected[k], 2);
            size += pow((double)expected[k], 2);
        }
        assert_true(size > 0);
        if (!(sqrt(apart) <= 1e-5 * sqrt(size)))
            fail_msg("%s: %g of its norm", x->name, sqrt(apart / size));
        free(expected);
    }
}

/* At rate 0 without clipping SGD's moment is the gradient; activations kept or computed again. */
static void test_gradient(void **state)
{
    (void)state;
    struct train_tokens x;
    int32_t *ids = tokens_of(&x);
    for (int kept = 0; kept < 2; kept++) {
        struct trainer_options o = {.optimizer = {.kind = OPTIMIZER_sgd},
                                    .micro = 1,
                                    .memory = kept << 30,
                                    .ranks = MPI_COMM_WORLD};
        struct trainer *t;
        struct train_result r;
        struct safetensors saved = {.fd = -1};
        char path[300];
        int64_t n;
        double loss;
        snprintf(path, sizeof path, "%s/state%d", folder, kept);
        OK_OR_FAIL(trainer_open(FOLDER, &o, &t, e));
        OK_OR_FAIL(trainer_step(t, 1, 0, &x, &r, e));
        assert_float_equal(r.loss, loss_of_torch(), 1e-6);
        OK_OR_FAIL(trainer_loss(t, &x, &loss, e));
        assert_float_equal(loss, r.loss, 1e-12);
        OK_OR_FAIL(trainer_save(t, 1, path, e));
        MPI_Barrier(MPI_COMM_WORLD);
        OK_OR_FAIL(safetensors_open(path, &saved, e));
        float *m = read_f32(&saved, "m", &n);
        assert_int_equal(n, trainer_n(t));
        compare(t, m);
        free(m);
        safetensors_close(&saved);
        trainer_close(t);
    }
    free(ids);
}

/* The logits of the forward pass that sweeps use. */
static void test_forward(void **state)
{
    (void)state;
    struct checkpoint *c;
    struct model *m;
    struct sequences s;
    struct acts a;
    struct block b;
    struct train_tokens x;
    int32_t *ids = tokens_of(&x);
    OK_OR_FAIL(checkpoint_open(FOLDER, &c, e));
    OK_OR_FAIL(model_open(c, &m, e));
    const int64_t T = x.n * x.length, C = model_shape(m)->hidden, V = model_shape(m)->vocab;
    OK_OR_FAIL(sequences_init(&s, x.n, T, 0, e));
    for (int64_t i = 0; i <= x.n; i++) s.offset[i] = i * x.length;
    for (int64_t t = 0; t < T; t++) s.ids[t] = ids[t + t / x.length];
    float *h = calloc((size_t)(T * C), sizeof *h);
    double loss = 0;
    OK_OR_FAIL(model_acts_init(m, T, &a, e));
    OK_OR_FAIL(model_embed(m, &s, h, e));
    for (int64_t l = 0; l < model_shape(m)->layers; l++) {
        OK_OR_FAIL(model_block_load(m, l, &b, e));
        model_block_forward(m, &b, &s, h, &a);
        model_block_free(&b);
    }
    model_final_norm(m, h, T, h);
    for (int64_t t = 0; t < T; t++) {
        double sum = 0, target = 0;
        for (int64_t k = 0; k < V; k++) {
            double z = 0;
            for (int64_t i = 0; i < C; i++)
                z += (double)h[t * C + i] * (double)model_head(m)[k * C + i];
            sum += exp(z);
            if (k == ids[t + t / x.length + 1]) target = z;
        }
        loss += (log(sum) - target) / (double)T;
    }
    assert_float_equal(loss, loss_of_torch(), 1e-6);
    model_acts_free(&a);
    free(h);
    free(ids);
    sequences_free(&s);
    model_close(m);
    checkpoint_close(c);
}

/* Products with the Hessian, derivatives of a model that is not in training, stored codes. */
static void test_refused(void **state)
{
    (void)state;
    static const char *const folders[] = {FOLDER, FIXTURES "/models/bitnet_packed"};
    for (int i = 0; i < 2; i++) {
        struct err why = {0};
        struct checkpoint *c;
        struct model *m;
        struct hvp *h;
        struct sequences s;
        OK_OR_FAIL(checkpoint_open(folders[i], &c, e));
        OK_OR_FAIL(model_open(c, &m, e));
        OK_OR_FAIL(sequences_init(&s, 1, 2, 0, e));
        s.offset[1] = 2;
        assert_int_equal(hvp_open(m, &s, HVP_ALL, &h, &why), ERR_USAGE);
        assert_non_null(strstr(why.text, "which has no derivative"));
        err_clear(&why);
        model_straight_through(m);
        if (i) {
            assert_int_equal(hvp_open(m, &s, HVP_ALL, &h, &why), ERR_USAGE);
        } else {
            OK_OR_FAIL(hvp_open(m, &s, HVP_ALL, &h, e));
            float *v = calloc((size_t)hvp_n(h), sizeof *v),
                  *hv = calloc((size_t)hvp_n(h), sizeof *hv);
            assert_int_equal(hvp_apply(h, 1, (const float *const *)&v, &hv, &why), ERR_USAGE);
            assert_non_null(strstr(why.text, "no products with ternary weights"));
            free(v);
            free(hv);
            hvp_close(h);
        }
        err_clear(&why);
        sequences_free(&s);
        model_close(m);
        checkpoint_close(c);
    }
}

int main(int argc, char **argv)
{
    int provided, failed;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    scratch_shared(folder, sizeof folder);
    OK_OR_FAIL(safetensors_open(FOLDER "/reference.safetensors", &answers, e));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradient),
        cmocka_unit_test(test_forward),
        cmocka_unit_test(test_refused),
    };
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    safetensors_close(&answers);
    MPI_Finalize();
    return failed;
}
