/* Statistics of the stages' inputs and the states behind a block are those of the plain forward
 * pass, bit for bit, whatever ranges the sequences are cut into and however many of them are
 * retained; so are comparisons of outputs with trial weights. */
#include "engine/visit_internal.h"
#include "math/linalg.h"
#include "scratch.h"
#include "util/mem.h"
#include <fcntl.h>
#include <mpi.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cmocka.h>

#define OK_OR_FAIL(call)                                                                           \
    do {                                                                                           \
        struct err err_ = {0}, *e = &err_;                                                         \
        if ((call) != OK) fail_msg("%s", err_.text);                                               \
    } while (0)

enum { ONE_EACH = 50, ALL = 1000 }; /* tokens of a range; the two sequences have 48 each */

struct bench {
    struct visit_group group;
    struct checkpoint *checkpoint;
    struct model *model;
    struct model_sizes sizes;
    struct visit_cache cache;
    struct visit visit;
    struct run run;
    struct block block;
    struct acts acts;
    float *before;         // (tokens, C) states before the block
    float *after;          // (tokens, C) and behind it
    double *gram[STAGE_N]; // (cols, cols) of the stages' inputs, upper triangle
};

static void *zeros(int64_t n, size_t size)
{
    void *p;
    OK_OR_FAIL(mem_zero(&p, n, size, "a test", e));
    return p;
}

static int64_t floats(const struct bench *b)
{
    const struct sequences *s = b->run.inputs.calibration;
    return s->offset[s->n] * b->sizes.shape.hidden;
}

/* Everything by the plain forward pass over all sequences at once. */
static void make_reference(struct bench *b)
{
    const struct sequences *s = b->run.inputs.calibration;
    b->before = zeros(floats(b), sizeof(float));
    b->after = zeros(floats(b), sizeof(float));
    OK_OR_FAIL(model_embed(b->model, s, b->before, e));
    OK_OR_FAIL(model_acts_init(b->model, s->offset[s->n], &b->acts, e));
    memcpy(b->after, b->before, (size_t)floats(b) * sizeof(float));
    for (int k = 0; k < STAGE_N; k++) {
        int64_t n = b->sizes.cols[k];
        b->gram[k] = zeros(n * n, sizeof(double));
        model_stage_input(b->model, &b->block, k, s, 0, s->n, b->after, &b->acts);
        OK_OR_FAIL(gram_add(b->gram[k], b->acts.in, n, s->offset, s->n, NULL, PRODUCTS_F32, e));
        model_stage_output(b->model, &b->block, k, s, 0, s->n, b->after, &b->acts);
    }
}

static void bench_open(struct bench *b, const char *name)
{
    static char ids[] = FIXTURES "/models/llama/reference.safetensors:input_ids";
    static char path[200], label[] = "m";
    static struct data_options data;
    snprintf(path, sizeof path, FIXTURES "/models/%s", name);
    data = (struct data_options){.name = label, .ids = ids};
    *b = (struct bench){.visit = {.weights = {.path = path},
                                  .calibration = data,
                                  .n_evaluations = 1,
                                  .evaluations = &data}};
    OK_OR_FAIL(group_open(MPI_COMM_SELF, &b->group, e));
    OK_OR_FAIL(checkpoint_open(path, &b->checkpoint, e));
    OK_OR_FAIL(model_open(b->checkpoint, &b->model, e));
    model_sizes(b->model, &b->sizes);
    b->run = (struct run){.visit = &b->visit, .group = &b->group, .model = b->model};
    OK_OR_FAIL(visit_inputs_get(&b->cache, &b->visit, &b->run.inputs, e));
    b->run.local = b->run.inputs;
    OK_OR_FAIL(model_block_load(b->model, 0, &b->block, e));
    make_reference(b);
}

static void bench_close(struct bench *b)
{
    for (int k = 0; k < STAGE_N; k++) free(b->gram[k]);
    free(b->before);
    free(b->after);
    model_acts_free(&b->acts);
    model_block_free(&b->block);
    visit_cache_free(&b->cache);
    model_close(b->model);
    checkpoint_close(b->checkpoint);
    group_close(&b->group);
}

static const char *states_folder; /* NULL: in memory */

/* A stream before the block, and a workspace for it. */
static void start_method(struct bench *b, const struct quant_method *method, bool sequential,
                         int64_t range, int64_t kept, struct stream *s, struct workspace *w)
{
    struct quant_options o;
    struct stream *streams[] = {s};
    const struct sequences *all = b->run.inputs.calibration;
    options_default(&quant_table, &o);
    o.true_sequential = sequential;
    b->run.plan = (struct memory_plan){
        .range_tokens = range, .retained_tokens = kept, .place = {states_folder, DTYPE_F32}};
    *s = (struct stream){.method = method};
    s->needs = quant_needs_of(s->method, &o);
    OK_OR_FAIL(states_open(&b->run.plan.place, all->offset[all->n], b->sizes.shape.hidden, "states",
                           &s->calibration, e));
    OK_OR_FAIL(states_put(s->calibration, 0, all->offset[all->n], b->before, e));
    OK_OR_FAIL(workspace_init(w, &b->run, streams, 1, e));
}

static void start(struct bench *b, bool sequential, int64_t range, int64_t kept, struct stream *s,
                  struct workspace *w)
{
    start_method(b, quant_find("gptq"), sequential, range, kept, s, w);
}

static void has_states(const struct bench *b, struct stream *s, const float *expected)
{
    const struct sequences *all = b->run.inputs.calibration;
    float *x = zeros(floats(b), sizeof *x);
    OK_OR_FAIL(states_copy(s->calibration, 0, all->offset[all->n], x, e));
    assert_memory_equal(x, expected, (size_t)floats(b) * sizeof *x);
    free(x);
}

static void has_gram(const struct bench *b, const struct workspace *w, int stage)
{
    int64_t n = b->sizes.cols[stage];
    const double *found = w->sums[STATISTIC_GRAM][stage];
    assert_true(b->gram[stage][0] > 0);
    for (int64_t i = 0; i < n; i++)
        assert_memory_equal(found + i * n + i, b->gram[stage] + i * n + i,
                            (size_t)(n - i) * sizeof *found);
}

static const char *const models[] = {"llama", "gpt_neox_parallel"};

static void stage_by_stage(void **state)
{
    (void)state;
    static const int64_t cases[][3] = {/* tokens of a range, kept, ranges kept */
                                       {ONE_EACH, 0, 0},
                                       {ONE_EACH, 48, 1},
                                       {ONE_EACH, 96, 2},
                                       {ALL, 0, 0},
                                       {ALL, 96, 1}};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct bench b;
        bench_open(&b, models[m]);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct stream s;
            struct workspace w;
            start(&b, true, cases[i][0], cases[i][1], &s, &w);
            assert_int_equal(w.retained_ranges, cases[i][2]);
            for (int stage = 0; stage < STAGE_N; stage++) {
                OK_OR_FAIL(calibrate_stage(&w, &s, &b.block, stage, e));
                has_gram(&b, &w, stage);
            }
            OK_OR_FAIL(calibrate_end(&w, &s, &b.block, e));
            has_states(&b, &s, b.after);
            workspace_free(&w);
            stream_free(&s);
        }
        bench_close(&b);
    }
}

static void all_stages_in_one_pass(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (int advance = 0; advance < 2; advance++) {
            struct bench b;
            struct stream s;
            struct workspace w;
            bench_open(&b, models[m]);
            start(&b, false, ONE_EACH, 0, &s, &w);
            OK_OR_FAIL(calibrate_block(&w, &s, &b.block, advance, e));
            for (int stage = 0; stage < STAGE_N; stage++) has_gram(&b, &w, stage);
            has_states(&b, &s, advance ? b.after : b.before);
            workspace_free(&w);
            stream_free(&s);
            bench_close(&b);
        }
}

/* --- trials --- */

enum { TRIALS = 3 };
static double differences[2][TRIALS]; /* of attention and MLP */

/* Trial weights are a tenth larger each time. */
static enum status try_weights(const struct quant_block *b, void **prepared, struct err *e)
{
    static const int stages[] = {STAGE_QKV, STAGE_UP};
    (void)prepared;
    for (int k = 0; k < 2; k++)
        for (int trial = 0; trial < TRIALS; trial++) {
            for (int i = 0; i < b->n_linears; i++) {
                const struct quant_linear *l = &b->linear[i];
                for (int64_t j = 0; l->stage == stages[k] && j < l->rows * l->cols; j++)
                    l->trial[j] = l->w[j] * (1 + 0.1f * (float)(trial + 1));
            }
            PASS(b->compare(b, stages[k], &differences[k][trial], e));
        }
    return OK;
}

/* A comparison does not depend on the trials before it, nor on what is retained between them. */
static void compared_outputs(void **state)
{
    static const struct quant_method tries = {.name = "tries",
                                              .options = "",
                                              .statistics = WANTS(STATISTIC_GRAM),
                                              .full_precision = true,
                                              .prepare_block = try_weights};
    const int64_t kept[] = {0, 48, 96};
    double expected[2][TRIALS];
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (int i = 0; i < 3; i++) {
            struct bench b;
            struct stream s;
            struct workspace w;
            struct variant v = {.bits = 4};
            bench_open(&b, models[m]);
            start_method(&b, &tries, false, ONE_EACH, kept[i], &s, &w);
            assert_int_equal(w.retained_ranges, i);
            s.variant = &v;
            w.full = &s;
            w.original = &b.block;
            OK_OR_FAIL(trial_prepare(&w, &s, &b.block, e));
            for (int k = 0; k < 2; k++) {
                assert_true(differences[k][0] > 0);
                for (int trial = 1; trial < TRIALS; trial++)
                    assert_true(differences[k][trial] > differences[k][trial - 1]);
            }
            if (i == 0) memcpy(expected, differences, sizeof expected);
            assert_memory_equal(expected, differences, sizeof expected);
            has_states(&b, &s, b.before);
            s.variant = NULL;
            workspace_free(&w);
            stream_free(&s);
            bench_close(&b);
        }
}

/* Reproducible sums are rounded, so that the cut into ranges and the order play no part. */
static void reproducible_sums(void **state)
{
    (void)state;
    struct bench b;
    struct stream s;
    struct workspace w;
    bench_open(&b, "llama");
    b.visit.run.reproducible = true;
    for (int stage = 0; stage < STAGE_N; stage++) {
        int64_t n = b.sizes.cols[stage];
        double *first = zeros(n * n, sizeof *first);
        for (int turn = 0; turn < 2; turn++) {
            start(&b, turn, turn ? ONE_EACH : ALL, 0, &s, &w);
            for (int k = 0; turn && k <= stage; k++)
                OK_OR_FAIL(calibrate_stage(&w, &s, &b.block, k, e));
            if (!turn) OK_OR_FAIL(calibrate_block(&w, &s, &b.block, false, e));
            const double *found = w.sums[STATISTIC_GRAM][stage];
            for (int64_t i = 0; i < n; i++) {
                size_t bytes = (size_t)(n - i) * sizeof *first;
                if (turn)
                    assert_memory_equal(found + i * n + i, first + i * n + i, bytes);
                else
                    memcpy(first + i * n + i, found + i * n + i, bytes);
            }
            double exact = b.gram[stage][0];
            assert_true(first[0] > exact * (1 - 1e-6) && first[0] < exact * (1 + 1e-6));
            workspace_free(&w);
            stream_free(&s);
        }
        free(first);
    }
    bench_close(&b);
}

/* --- states on scratch --- */

/* Replace the C library's functions: note what is announced of files without a name, and whether
 * that is what is read next and comes before what is computed from the read before. */
static struct {
    int fd, reads, surprises, late;
    off_t at, bytes;
    bool announced;
} noted;

static bool is_scratch(int fd)
{
    struct stat s;
    return fstat(fd, &s) == 0 && s.st_nlink == 0;
}

int posix_fadvise(int fd, off_t at, off_t bytes, int advice)
{
    if (!is_scratch(fd) || advice != POSIX_FADV_WILLNEED) return 0;
    noted.fd = fd;
    noted.at = at;
    noted.bytes = bytes;
    noted.announced = true;
    return 0;
}

ssize_t pread(int fd, void *to, size_t bytes, off_t at)
{
    if (is_scratch(fd)) {
        noted.reads++;
        noted.surprises +=
            !noted.announced || noted.fd != fd || noted.at != at || noted.bytes != (off_t)bytes;
        noted.announced = false;
    }
    return syscall(SYS_pread64, fd, to, bytes, at);
}

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t at)
{
    if (is_scratch(fd)) noted.late += !noted.announced;
    return syscall(SYS_pwrite64, fd, from, bytes, at);
}

static struct states *scratch_states(struct bench *b)
{
    const struct sequences *all = b->run.inputs.evaluation;
    struct states *s = NULL;
    OK_OR_FAIL(states_open(&b->run.plan.place, all->offset[all->n], b->sizes.shape.hidden, "states",
                           &s, e));
    OK_OR_FAIL(states_put(s, 0, all->offset[all->n], b->before, e));
    return s;
}

/* Each range of a variant's states is announced while the one before is computed: within a pass,
 * between two passes, from calibration to evaluation, and on to the next stream. */
static void announced_before(bool sequential, bool reproducible)
{
    struct bench b;
    struct stream s;
    struct workspace w;
    float *buffer, *x;
    states_folder = scratch_dir();
    bench_open(&b, "llama");
    b.visit.run.reproducible = reproducible;
    start(&b, sequential, ONE_EACH, 0, &s, &w);
    s.evaluation = scratch_states(&b);
    struct states *next = scratch_states(&b);
    w.next = next;
    w.next_ranges = &w.calibration;
    memset(&noted, 0, sizeof noted);
    for (int stage = 0; sequential && stage < STAGE_N; stage++)
        OK_OR_FAIL(calibrate_stage(&w, &s, &b.block, stage, e));
    if (sequential) {
        OK_OR_FAIL(calibrate_end(&w, &s, &b.block, e));
    } else {
        OK_OR_FAIL(calibrate_block(&w, &s, &b.block, false, e));
        OK_OR_FAIL(forward_block(&w, &s, &b.block, s.calibration, &w.calibration, e));
    }
    OK_OR_FAIL(forward_block(&w, &s, &b.block, s.evaluation, &w.evaluation, e));
    buffer = zeros(floats(&b), sizeof *buffer);
    OK_OR_FAIL(states_take(next, 0, w.calibration.range[0].tokens, buffer, &x, e));
    assert_true(noted.reads >= (sequential ? 15 : 7));
    assert_int_equal(noted.surprises, 1); /* the first */
    assert_int_equal(noted.late, 0);
    has_states(&b, &s, b.after);
    free(buffer);
    states_close(next);
    workspace_free(&w);
    stream_free(&s);
    bench_close(&b);
    states_folder = NULL;
}

static void each_range_is_announced(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) announced_before(i & 1, i & 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stage_by_stage),          cmocka_unit_test(all_stages_in_one_pass),
        cmocka_unit_test(compared_outputs),        cmocka_unit_test(reproducible_sums),
        cmocka_unit_test(each_range_is_announced),
    };
    MPI_Init(&argc, &argv);
    linalg_setup();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
