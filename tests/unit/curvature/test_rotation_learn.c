/* Learned rotations: loss and derivatives of rounded models against torch's autograd with a
 * straight-through rounding (tests/fixtures/learned), steps along them, the same for any number of
 * threads. */
#include "checkpoint/checkpoint.h"
#include "curvature/rotation_learn.h"
#include "model/model_internal.h"
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../fixture.h"

static const unsigned places = ROTATE_R1 | ROTATE_RANDOM | ROTATE_R2;

struct learning {
    struct fixture f;
    struct checkpoint *checkpoint;
    struct model *model, *turned;
    struct sequences s;
    int64_t offset[2];
    struct quant_options options;
    struct rotation_recipe how;
};

static void must(enum status st, const struct err *e)
{
    if (st != OK) fail_msg("%s", e->text);
}

/* The fixture's matrices in place of random ones. */
static void turn_as(struct learning *l)
{
    struct err e = {0};
    const struct fixture_tensor R1 = fixture_get(&l->f, "R1"), R2 = fixture_get(&l->f, "R2");
    model_close(l->turned);
    must(model_rotate(l->model, places, 0, &l->turned, &e), &e);
    struct rotation *r = l->turned->rotation;
    memcpy(r->stream.dense, R1.data, (size_t)(R1.dim[0] * R1.dim[0]) * sizeof(double));
    for (int64_t i = 0, n = R2.dim[1] * R2.dim[2]; i < R2.dim[0]; i++) {
        must(mix_to_dense(&r->head[i], &e), &e);
        memcpy(r->head[i].dense, (const double *)R2.data + i * n, (size_t)n * sizeof(double));
    }
}

static void learning_open(struct learning *l, const char *family)
{
    struct err e = {0};
    char path[512];
    *l = (struct learning){0};
    assert_true(fixture_open(&l->f, FIXTURES "/learned", family));
    snprintf(path, sizeof path, "%s/models/%s", FIXTURES, family);
    must(checkpoint_open(path, &l->checkpoint, &e), &e);
    must(model_open(l->checkpoint, &l->model, &e), &e);
    turn_as(l);
    const struct fixture_tensor ids = fixture_get(&l->f, "ids");
    l->offset[1] = ids.dim[1];
    l->s = (struct sequences){.n = 1, .offset = l->offset, .ids = (int32_t *)(uintptr_t)ids.data};
    options_default(&quant_table, &l->options);
    l->options.symmetric = false;
    l->options.group_size = json_int(l->f.meta, "group_size");
    l->how = (struct rotation_recipe){.steps = 1,
                                      .sequences = 1,
                                      .rate = 1.5,
                                      .bits = json_int(l->f.meta, "bits"),
                                      .options = &l->options};
}

static void learning_close(struct learning *l)
{
    model_close(l->turned);
    model_close(l->model);
    checkpoint_close(l->checkpoint);
    fixture_close(&l->f);
}

/* Within 1e-5 of the largest. */
static void check_near(const char *what, const float *x, const double *reference, int64_t n)
{
    double most = 0, worst = 0;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs(reference[i]));
        worst = fmax(worst, fabs((double)x[i] - reference[i]));
    }
    print_message("%s: %.1e of %.2g\n", what, worst, most);
    if (!(worst <= 1e-5 * most)) fail_msg("%s: %g of %g", what, worst, most);
}

static double unlike_orthogonal(const struct mix *m)
{
    double worst = 0;
    for (int64_t i = 0; i < m->n; i++)
        for (int64_t j = 0; j < m->n; j++) {
            double dot = 0;
            for (int64_t k = 0; k < m->n; k++)
                dot += m->dense[i * m->n + k] * m->dense[j * m->n + k];
            worst = fmax(worst, fabs(dot - (i == j)));
        }
    return worst;
}

static void derivatives_are_torch_s(void **state)
{
    (void)state;
    static const char *const families[] = {"llama", "gpt_neox_sequential"};
    for (int i = 0; i < 2; i++) {
        struct learning l;
        struct err e = {0};
        struct rotation_learner *learner;
        const float *stream, *heads;
        double loss;
        learning_open(&l, families[i]);
        const struct fixture_tensor A1 = fixture_get(&l.f, "A1"), A2 = fixture_get(&l.f, "A2");
        const double expected = *(const double *)fixture_get(&l.f, "loss").data;
        must(rotation_learner_open(l.model, l.turned, &l.how, &learner, &e), &e);
        must(rotation_learner_gradient(learner, &l.s, &loss, &stream, &heads, &e), &e);
        print_message("%s: loss %.9f, torch %.9f\n", families[i], loss, expected);
        assert_true(fabs(loss - expected) < 1e-6);
        check_near("R1", stream, A1.data, A1.dim[0] * A1.dim[1]);
        check_near("R2", heads, A2.data, A2.dim[0] * A2.dim[1] * A2.dim[2]);
        rotation_learner_close(learner);
        learning_close(&l);
    }
}

static void count(void *context)
{
    ++*(int *)context;
}

/* One thread and three learn the same bits, the matrices stay orthogonal, the loss falls; each step
 * is told. */
static void steps_lower_the_loss(void **state)
{
    (void)state;
    struct learning l;
    struct err e = {0};
    double *first = NULL;
    learning_open(&l, "llama");
    l.how.steps = 12;
    const int64_t C = l.turned->rotation->stream.n;
    for (int threads = 1; threads <= 3; threads += 2) {
        struct rotation_learner *learner;
        const float *stream, *heads;
        double before, after;
        int steps = 0;
        l.how.stepped = count;
        l.how.context = &steps;
        omp_set_num_threads(threads);
        turn_as(&l);
        must(rotation_learner_open(l.model, l.turned, &l.how, &learner, &e), &e);
        must(rotation_learner_gradient(learner, &l.s, &before, &stream, &heads, &e), &e);
        rotation_learner_close(learner);
        must(rotation_learn(l.model, l.turned, &l.s, &l.how, &e), &e);
        assert_int_equal(steps, 12);
        const struct rotation *r = l.turned->rotation;
        assert_true(unlike_orthogonal(&r->stream) < 1e-12);
        for (int64_t i = 0; i < r->layers; i++) assert_true(unlike_orthogonal(&r->head[i]) < 1e-12);
        must(rotation_learner_open(l.model, l.turned, &l.how, &learner, &e), &e);
        must(rotation_learner_gradient(learner, &l.s, &after, &stream, &heads, &e), &e);
        rotation_learner_close(learner);
        print_message("loss %.4f, then %.4f\n", before, after);
        assert_true(after < before - 0.05);
        if (!first) {
            first = calloc((size_t)(C * C), sizeof *first);
            assert_non_null(first);
            memcpy(first, r->stream.dense, (size_t)(C * C) * sizeof *first);
        }
        assert_memory_equal(first, r->stream.dense, (size_t)(C * C) * sizeof *first);
    }
    free(first);
    learning_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(derivatives_are_torch_s),
                                       cmocka_unit_test(steps_lower_the_loss)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
