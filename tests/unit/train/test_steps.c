/* 20 AdamW steps from the fixtures' models against torch in f64 (tests/fixtures/train): series,
 * weights and moments, resumed in the middle, in any micro-batches, by any number of ranks.
 * NP: 1 2 3
 * QTRAJ_TRAIN_FIXTURES and QTRAJ_PARITY_FIXTURES name the folders of the complete ones. */
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_file.h"
#include "scratch_shared.h"
#include "train/trainer.h"
#include "util/json.h"
#include "util/rng.h"
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define OK_OR_FAIL(call)                                                                           \
    do {                                                                                           \
        struct err err_ = {0}, *e = &err_;                                                         \
        if ((call) != OK) fail_msg("%s", err_.text);                                               \
    } while (0)

/* What a run in f32 may differ by from f64, with what torch's own f32 does: loss 1e-6, norm 1e-6
 * relative, w20 rms 7e-8, moments 1.2e-6 of their rms, the change of the weights 1e-4 of its norm.
 */
static const double loss_limit = 4e-6, norm_limit = 4e-6, weight_rms = 3e-7, weight_max = 1e-4,
                    moment_rms = 5e-6, moment_max = 2e-4;

struct fixture {
    json_t *info;
    struct safetensors answers;
    struct trainer *trainer;
    int32_t *tokens, *document;
    int64_t batch, length;
    struct trainer_options o;
};

static void path_of(char *path, size_t size, const char *variable, const char *usual,
                    const char *name)
{
    const char *whole = getenv(variable);
    snprintf(path, size, "%s/%s", whole ? whole : usual, name);
}

static const struct tensor_entry *answer(const struct fixture *f, const char *name)
{
    return safetensors_find(&f->answers, name);
}

static double *read_f64(const struct fixture *f, const char *name, int64_t *n)
{
    const struct tensor_entry *t = answer(f, name);
    double *x = t ? calloc((size_t)t->n_elements, sizeof *x) : NULL;
    if (!t) return NULL;
    assert_non_null(x);
    *n = t->n_elements;
    OK_OR_FAIL(safetensors_read_stored(&f->answers, t, 0, t->n_elements, x, e));
    return x;
}

static int32_t *read_i32(const struct fixture *f, const char *name)
{
    const struct tensor_entry *t = answer(f, name);
    int32_t *x = t ? calloc((size_t)t->n_elements, sizeof *x) : NULL;
    if (t) OK_OR_FAIL(safetensors_read_i32(&f->answers, t, x, e));
    return x;
}

static double setting(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static void begin(struct fixture *f)
{
    char dir[600];
    path_of(dir, sizeof dir, "QTRAJ_PARITY_FIXTURES", FIXTURES "/models",
            json_string_value(json_object_get(f->info, "model")));
    trainer_close(f->trainer);
    OK_OR_FAIL(trainer_open(dir, &f->o, &f->trainer, e));
}

static void fixture_open(struct fixture *f, const char *name, int64_t micro)
{
    char path[600], file[100];
    json_error_t why;
    memset(f, 0, sizeof *f);
    snprintf(file, sizeof file, "%s.json", name);
    path_of(path, sizeof path, "QTRAJ_TRAIN_FIXTURES", FIXTURES "/train", file);
    f->info = json_load_file(path, 0, &why);
    assert_non_null(f->info);
    snprintf(file, sizeof file, "%s.safetensors", name);
    path_of(path, sizeof path, "QTRAJ_TRAIN_FIXTURES", FIXTURES "/train", file);
    OK_OR_FAIL(safetensors_open(path, &f->answers, e));
    const json_t *a = json_object_get(f->info, "adamw");
    const char *decay = json_string_value(json_object_get(a, "decay"));
    f->o = (struct trainer_options){
        .optimizer = {.kind = OPTIMIZER_adamw,
                      .betas = {setting(a, "beta1"), setting(a, "beta2")},
                      .eps = setting(a, "eps"),
                      .weight_decay = setting(a, "weight_decay"),
                      .clip = setting(a, "clip"),
                      .z_loss = setting(f->info, "z_loss"),
                      .decay_on = strcmp(decay, "olmo2") == 0          ? DECAY_OLMO2
                                  : strcmp(decay, "no_embedding") == 0 ? DECAY_NO_EMBEDDINGS
                                                                       : DECAY_MATRICES},
        .micro = micro,
        .ranks = MPI_COMM_WORLD};
    f->batch = (int64_t)setting(f->info, "batch");
    f->length = (int64_t)setting(f->info, "length");
    f->tokens = read_i32(f, "tokens");
    f->document = read_i32(f, "document");
    begin(f);
}

static void fixture_close(struct fixture *f)
{
    json_decref(f->info);
    safetensors_close(&f->answers);
    trainer_close(f->trainer);
    free(f->tokens);
    free(f->document);
}

/* Steps a < k <= b, compared with the series. */
static void steps(struct fixture *f, int64_t a, int64_t b)
{
    int64_t n;
    double *lr = read_f64(f, "lr", &n), *ce = read_f64(f, "f64.ce", &n);
    double *z = read_f64(f, "f64.z", &n), *norm = read_f64(f, "f64.grad_norm", &n);
    double *clip = read_f64(f, "f64.clip", &n);
    for (int64_t k = a + 1; k <= b; k++) {
        const int64_t at = (k - 1) * f->batch * (f->length + 1);
        const struct train_tokens x = {.n = f->batch,
                                       .length = f->length,
                                       .tokens = f->tokens + at,
                                       .document = f->document ? f->document + at : NULL};
        struct train_result r;
        OK_OR_FAIL(trainer_step(f->trainer, k, lr[k - 1], &x, &r, e));
        assert_float_equal(r.loss, ce[k - 1], loss_limit);
        assert_float_equal(r.z, z[k - 1], loss_limit);
        assert_float_equal(r.norm / norm[k - 1], 1, norm_limit);
        assert_float_equal(r.clip, clip[k - 1], norm_limit);
    }
    free(lr);
    free(ce);
    free(z);
    free(norm);
    free(clip);
}

static bool is_noise(const struct fixture *f, const char *tensor, int64_t element)
{
    size_t i;
    json_t *one;
    const json_t *list = json_object_get(json_object_get(f->info, "noise_elements"), tensor);
    json_array_foreach(list, i, one)
        if (json_integer_value(one) == element) return true;
    return false;
}

/* Weights, or a moment read from the file of a saved state, tensor by tensor. */
static void compare(const struct fixture *f, const char *tag, const struct safetensors *saved,
                    double rms_limit, double max_limit)
{
    double squares = 0, worst = 0, size = 0;
    int64_t count = 0, n;
    const char part[2] = {tag[0], 0};
    for (int64_t i = 0; i < trainer_n_tensors(f->trainer); i++) {
        char name[300];
        const float *w;
        const struct hvp_tensor *t = trainer_tensor(f->trainer, i, &w);
        snprintf(name, sizeof name, "f64.%s.%s", tag, t->name);
        double *expected = read_f64(f, name, &n);
        if (!expected) continue; /* of the complete fixtures */
        float *x = calloc((size_t)n, sizeof *x);
        assert_int_equal(n, t->elements);
        OK_OR_FAIL(
            safetensors_read_range(saved, safetensors_find(saved, part), t->offset, n, x, e));
        for (int64_t k = 0; k < n; k++) {
            if (is_noise(f, t->name, k)) continue;
            const double d = (double)x[k] - expected[k];
            squares += d * d;
            size += expected[k] * expected[k];
            worst = fmax(worst, fabs(d));
            count++;
        }
        free(x);
        free(expected);
    }
    if (count == 0) return;
    const double scale = tag[0] == 'w' ? 1 : sqrt(size / (double)count);
    if (!(sqrt(squares / (double)count) <= rms_limit * scale && worst <= max_limit * scale))
        fail_msg("%s: rms %g, max %g", tag, sqrt(squares / (double)count) / scale, worst / scale);
}

/* The 2-norm of each tensor of m and v, and of the change of w, and two probes of it. */
static void compare_summary(const struct fixture *f, const char *tag, const struct trainer *start,
                            const struct safetensors *saved, double limit)
{
    int64_t n;
    char name[100];
    const char part[2] = {tag[0], 0};
    snprintf(name, sizeof name, "f64.summary.%s", tag);
    double *expected = read_f64(f, name, &n);
    if (!expected) return;
    for (int64_t i = 0; i < trainer_n_tensors(f->trainer); i++) {
        const float *w0;
        double sums[3] = {0};
        const struct hvp_tensor *t = trainer_tensor(start, i, &w0);
        float *x = calloc((size_t)t->elements, sizeof *x), *sign = calloc(2, sizeof *sign);
        OK_OR_FAIL(safetensors_read_range(saved, safetensors_find(saved, part), t->offset,
                                          t->elements, x, e));
        for (int64_t k = 0; k < t->elements; k++) {
            const double d = (double)x[k] - (tag[0] == 'w' ? (double)w0[k] : 0);
            sums[0] += d * d;
            for (int s = 0; s < 2; s++) {
                rng_signs((uint64_t)s, t->offset + k, 1, sign + s);
                sums[1 + s] += d * (double)sign[s];
            }
        }
        sums[0] = sqrt(sums[0]);
        const bool noise = json_object_get(json_object_get(f->info, "noise_elements"), t->name);
        for (int s = 0; s < 3 && !noise; s++)
            if (!(fabs(sums[s] - expected[3 * i + s]) <= limit * expected[3 * i] + 1e-12))
                fail_msg("%s of %s, %d: %g, expected %g (norm %g)", tag, t->name, s, sums[s],
                         expected[3 * i + s], expected[3 * i]);
        free(x);
        free(sign);
    }
    free(expected);
}

static char folder[200];

/* Saves the state and compares it with all that the fixture has of that step. */
static void check_state(struct fixture *f, const struct trainer *start, int64_t k)
{
    char path[300], tag[20];
    static const char parts[] = "wmv";
    static const double limits[] = {1e-3, 4e-5, 4e-5};
    struct safetensors saved = {.fd = -1};
    snprintf(path, sizeof path, "%s/state%lld", folder, (long long)k);
    OK_OR_FAIL(trainer_save(f->trainer, k, path, e));
    MPI_Barrier(MPI_COMM_WORLD);
    OK_OR_FAIL(safetensors_open(path, &saved, e));
    for (int i = 0; i < 3; i++) {
        snprintf(tag, sizeof tag, "%c%lld", parts[i], (long long)k);
        compare(f, tag, &saved, i ? moment_rms : weight_rms, i ? moment_max : weight_max);
        compare_summary(f, tag, start, &saved, limits[i]);
    }
    safetensors_close(&saved);
}

static const char *const cases[] = {
    "tiny_llama",
    "tiny_gpt_neox",
    "llama",
    "olmo2",
    "apertus",
    "gpt_neox_parallel",
    "smollm3",
    "tiny_llama_zloss",
    "smollm3_zloss",
    "tiny_llama_wd0",
    "tiny_llama_no_embedding_decay",
    "tiny_gpt_neox_olmo2_decay",
    "olmo2_recipe",
    "tiny_llama_docmask",
    "gpt_neox_parallel_docmask",
    "tiny_llama_lr_next",
};

static void test_cases(void **state)
{
    int ranks;
    (void)state;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (size_t i = 0; i<sizeof cases / sizeof *cases; i += ranks> 1 ? 5 : 1) {
        struct fixture f, start;
        fixture_open(&f, cases[i], 2);
        fixture_open(&start, cases[i], 2);
        static const int64_t at[] = {0, 1, 2, 5, 20};
        for (int j = 1; j < 5; j++) {
            steps(&f, at[j - 1], at[j]);
            check_state(&f, start.trainer, at[j]);
        }
        fixture_close(&f);
        fixture_close(&start);
    }
}

/* All weights and moments of a state file. */
static float *state_of(const struct fixture *f, const char *path, int64_t *n)
{
    struct safetensors s = {.fd = -1};
    const int64_t each = trainer_n(f->trainer);
    float *all = calloc((size_t)(3 * each), sizeof *all);
    assert_non_null(all);
    OK_OR_FAIL(safetensors_open(path, &s, e));
    for (int i = 0; i < 3; i++) {
        const char name[2] = {"wmv"[i], 0};
        OK_OR_FAIL(
            safetensors_read_range(&s, safetensors_find(&s, name), 0, each, all + i * each, e));
    }
    safetensors_close(&s);
    *n = 3 * each;
    return all;
}

/* A run resumed from step 5, on another number of threads, has the same bits at step 20. */
static void test_resume(void **state)
{
    struct fixture f;
    char five[300], twenty[300], again[300];
    int64_t n, k = 0;
    (void)state;
    snprintf(five, sizeof five, "%s/five", folder);
    snprintf(twenty, sizeof twenty, "%s/twenty", folder);
    snprintf(again, sizeof again, "%s/again", folder);
    fixture_open(&f, "smollm3", 2);
    steps(&f, 0, 5);
    OK_OR_FAIL(trainer_save(f.trainer, 5, five, e));
    steps(&f, 5, 20);
    OK_OR_FAIL(trainer_save(f.trainer, 20, twenty, e));
    MPI_Barrier(MPI_COMM_WORLD);
    begin(&f);
    const int threads = omp_get_max_threads();
    omp_set_num_threads(threads + 1);
    OK_OR_FAIL(trainer_load(f.trainer, five, &k, e));
    assert_int_equal(k, 5);
    steps(&f, 5, 20);
    omp_set_num_threads(threads);
    OK_OR_FAIL(trainer_save(f.trainer, 20, again, e));
    MPI_Barrier(MPI_COMM_WORLD);
    float *a = state_of(&f, twenty, &n), *b = state_of(&f, again, &n);
    assert_memory_equal(a, b, (size_t)n * sizeof *a);
    free(a);
    free(b);
    fixture_close(&f);
}

/* Every cut into micro-batches is within the tolerances; all ranks together have the bits of one
 * alone, whatever the cut. */
static void test_micro_and_ranks(void **state)
{
    (void)state;
    for (int64_t micro = 1; micro <= 4; micro++) {
        struct fixture f, alone;
        char path[2][300];
        int64_t n;
        for (int i = 0; i < 2; i++)
            snprintf(path[i], sizeof path[i], "%s/micro%lld.%d", folder, (long long)micro, i);
        fixture_open(&f, "tiny_gpt_neox", micro);
        fixture_open(&alone, "tiny_gpt_neox", micro);
        alone.o.ranks = MPI_COMM_SELF;
        alone.o.memory = 1 << 30; /* and keeps activations, which changes no bit */
        begin(&alone);
        steps(&f, 0, 20);
        steps(&alone, 0, 20);
        OK_OR_FAIL(trainer_save(f.trainer, 20, path[0], e));
        int rank;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        if (rank == 0) OK_OR_FAIL(trainer_save(alone.trainer, 20, path[1], e));
        MPI_Barrier(MPI_COMM_WORLD);
        float *a = state_of(&f, path[0], &n), *b = state_of(&f, path[1], &n);
        assert_memory_equal(a, b, (size_t)n * sizeof *a);
        free(a);
        free(b);
        fixture_close(&f);
        fixture_close(&alone);
    }
}

/* Steps a < k <= b by Muon at one rate, with the fixture's tokens. */
static void muon_steps(struct fixture *f, int64_t a, int64_t b)
{
    for (int64_t k = a + 1; k <= b; k++) {
        struct train_result r;
        const struct train_tokens x = {.n = f->batch,
                                       .length = f->length,
                                       .tokens = f->tokens + (k - 1) * f->batch * (f->length + 1)};
        OK_OR_FAIL(trainer_step(f->trainer, k, 1e-2, &x, &r, e));
    }
}

/* By Muon all ranks together have the bits of one alone, and of one that is resumed on another
 * number of threads. */
static void test_muon(void **state)
{
    (void)state;
    struct fixture f, alone;
    char path[3][300];
    int64_t n, k;
    int rank;
    for (int i = 0; i < 3; i++) snprintf(path[i], sizeof path[i], "%s/muon%d", folder, i);
    fixture_open(&f, "llama", 1);
    fixture_open(&alone, "llama", 1);
    alone.o.ranks = MPI_COMM_SELF;
    f.o.optimizer.kind = alone.o.optimizer.kind = OPTIMIZER_muon;
    f.o.optimizer.momentum = alone.o.optimizer.momentum = 0.95;
    begin(&f);
    begin(&alone);
    muon_steps(&f, 0, 6);
    OK_OR_FAIL(trainer_save(f.trainer, 6, path[0], e));
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        const int threads = omp_get_max_threads();
        muon_steps(&alone, 0, 3);
        OK_OR_FAIL(trainer_save(alone.trainer, 3, path[1], e));
        begin(&alone);
        OK_OR_FAIL(trainer_load(alone.trainer, path[1], &k, e));
        omp_set_num_threads(threads + 1);
        muon_steps(&alone, 3, 6);
        omp_set_num_threads(threads);
        OK_OR_FAIL(trainer_save(alone.trainer, 6, path[2], e));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    float *a = state_of(&f, path[0], &n), *b = state_of(&f, path[2], &n);
    assert_memory_equal(a, b, (size_t)n * sizeof *a);
    free(a);
    free(b);
    fixture_close(&f);
    fixture_close(&alone);
}

/* m <- momentum m + clip g, w <- (1 - rate decay) w - rate m, in numbers without rounding. */
static void test_sgd(void **state)
{
    const struct optimizer_options o = {.momentum = 0.5};
    const struct optimizer_step s = {
        .options = &o, .k = 1, .rate = 0.5, .clip = 0.25, .decay = 0.25};
    const float w[2] = {1, -2}, g[2] = {4, 8};
    float m[2] = {2, 0}, out[2];
    (void)state;
    optimizer_sgd.step(&s, 2, w, g, m, NULL, out);
    assert_true(m[0] == 2 && m[1] == 2);
    assert_true(out[0] == -0.125F && out[1] == -2.75F);
}

/* A loss that is not finite leaves the weights as they were. */
static void test_divergence(void **state)
{
    struct fixture f;
    struct train_result r;
    struct err e = {0};
    (void)state;
    fixture_open(&f, "tiny_llama", 2);
    const struct train_tokens x = {.n = f.batch, .length = f.length, .tokens = f.tokens};
    const float *w;
    trainer_tensor(f.trainer, 0, &w);
    ((float *)(uintptr_t)w)[0] = NAN;
    assert_int_equal(trainer_step(f.trainer, 1, 1, &x, &r, &e), ERR_NUMERIC);
    trainer_tensor(f.trainer, 1, &w);
    assert_true(isfinite(w[0]));
    fixture_close(&f);
}

int main(int argc, char **argv)
{
    int provided, failed;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    scratch_shared(folder, sizeof folder);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),           cmocka_unit_test(test_resume),
        cmocka_unit_test(test_micro_and_ranks), cmocka_unit_test(test_muon),
        cmocka_unit_test(test_divergence),      cmocka_unit_test(test_sgd),
    };
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
