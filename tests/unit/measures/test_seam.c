/* What a visit offers to methods to come, tried with methods of this test alone: outputs of a block
 * with trial weights, linears that are tied, linears that work at run time. NP: 1 2 3 */
#include "engine/group.h"
#include "engine/visit.h"
#include "math/linalg.h"
#include "quant/job.h"
#include "util/mem.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct visit_group group;

/* --- a method that compares outputs of the block, and shifts factors between tied linears --- */

enum { LINEARS = 8 };
struct ties {
    bool rows[LINEARS], columns[LINEARS]; /* halved rows, doubled columns */
};
static int n_ties, n_compared;

/* The trial weights of linear i become factor times the original ones. */
static void set_trial(const struct quant_block *b, int i, float factor)
{
    const struct quant_linear *l = &b->linear[i];
    int64_t first, end;
    team_own_rows(b->team, l->rows, &first, &end);
    for (int64_t k = first * l->cols; k < end * l->cols; k++) l->trial[k] = factor * l->w[k];
}

static enum status compare(const struct quant_block *b, int stage, float factor_last, double *out,
                           struct err *e)
{
    int last = -1;
    for (int i = 0; i < b->n_linears; i++)
        if (b->linear[i].stage == stage) {
            set_trial(b, i, 1);
            last = i;
        }
    set_trial(b, last, factor_last);
    n_compared++;
    return b->compare(b, stage, out, e);
}

/* tr(W G Wᵀ) / (tokens rows): the mean square of a linear's outputs; where the Gram matrix is. */
static double mean_square(const struct quant_input *in, const struct quant_linear *l)
{
    const double *g = in->statistic[STATISTIC_GRAM];
    double sum = 0;
    for (int64_t r = 0; r < l->rows; r++)
        for (int64_t i = 0; i < l->cols; i++)
            for (int64_t j = i; j < l->cols; j++)
                sum += (i == j ? 1 : 2) * (double)l->w[r * l->cols + i] *
                       (double)l->w[r * l->cols + j] * g[i * l->cols + j];
    return sum / (double)(in->tokens * l->rows);
}

/* Stage k + 1 ends the module that stage k begins, with one linear: llama. */
static enum status check_module(const struct quant_block *b, int stage, struct err *e)
{
    enum status st = OK;
    double same, none, more;
    int last = 0;
    while (b->linear[last].stage <= stage) last++; /* of the module */
    TRY(compare(b, stage, 1, &same, e));
    ENSURE(same == 0, ERR_NUMERIC, "the same weights differ by %g", same);
    TRY(compare(b, stage + 1, 0, &none, e));
    /* v and up act linearly on the module's output. */
    TRY(compare(b, stage, 1.25f, &more, e));
    ENSURE(fabs(more / (none / 16) - 1) < 1e-4, ERR_NUMERIC, "%g is no 16th of %g", more, none);
    if (b->input[stage + 1].statistic[STATISTIC_GRAM]) {
        double expected = mean_square(&b->input[stage + 1], &b->linear[last]);
        ENSURE(fabs(none / expected - 1) < 1e-4, ERR_NUMERIC, "%g instead of %g", none, expected);
    }
done:
    return st;
}

static enum status block_prepare(const struct quant_block *b, void **prepared, struct err *e)
{
    enum status st = OK;
    struct ties ties = {0};
    for (int stage = 0; stage < b->n_stages; stage += 2) TRY(check_module(b, stage, e));
    for (int i = 0; i < b->n_linears; i++) {
        if (b->linear[i].tie < 0) continue;
        ENSURE(b->linear[b->linear[i].tie].rows == b->linear[i].cols, ERR_SHAPE, "not tied");
        ties.columns[i] = ties.rows[b->linear[i].tie] = true;
        n_ties++;
    }
    for (int stage = 0; stage < b->n_stages; stage++) {
        TRY(mem_alloc((struct ties **)&prepared[stage], 1, sizeof ties, "ties", e));
        memcpy(prepared[stage], &ties, sizeof ties);
    }
done:
    return st;
}

static enum status block_run(const struct quant_job *job, struct quant_report *report,
                             struct err *e)
{
    const struct ties *t = job->prepared;
    float factor = (t->rows[job->linear] ? 0.5f : 1) * (t->columns[job->linear] ? 2.0f : 1);
    int64_t first, end;
    team_own_rows(job->team, job->rows, &first, &end);
    for (int64_t k = first * job->cols; k < end * job->cols; k++) job->q[k] = factor * job->w[k];
    return job_report(job, 32, report, e);
}

static const struct quant_method block_method = {
    .name = "test-block",
    .doc = "",
    .options = "",
    .bits_min = QUANT_BITS_MIN,
    .bits_max = QUANT_BITS_MAX,
    .statistics = WANTS(STATISTIC_GRAM),
    .prepare_block = block_prepare,
    .release = free,
    .run = block_run,
};

/* --- a method that works at run time --- */

struct computing {
    int64_t rows, cols, longest;
    const float *q;
};
static float activation_steps; /* of the greatest activation of a sequence; 0: not rounded */
static int n_made, n_freed, n_applied;

static enum status plain_run(const struct quant_job *job, struct quant_report *report,
                             struct err *e)
{
    int64_t first, end;
    team_own_rows(job->team, job->rows, &first, &end);
    memcpy(job->q + first * job->cols, job->w + first * job->cols,
           (size_t)((end - first) * job->cols) * sizeof *job->q);
    return job_report(job, 32, report, e);
}

static enum status make_linear(const struct quant_job *job, int64_t longest, void **out,
                               struct err *e)
{
    enum status st = OK;
    struct computing *c;
    TRY(mem_alloc(&c, 1, sizeof *c, "a linear", e));
    *c = (struct computing){job->rows, job->cols, longest, job->q};
    *out = c;
    n_made++;
done:
    return st;
}

static bool apply(const void *computing, const float *x, int64_t tokens, float *y, int64_t ld)
{
    const struct computing *c = computing;
    float most = 0;
    if (tokens != c->longest) fail_msg("%lld tokens are no sequence", (long long)tokens);
    for (int64_t i = 0; i < tokens * c->cols; i++) most = fmaxf(most, fabsf(x[i]));
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t r = 0; r < c->rows; r++) {
            double sum = 0;
            for (int64_t j = 0; j < c->cols; j++) {
                float a = x[t * c->cols + j], step = most / activation_steps;
                if (activation_steps > 0) a = step * nearbyintf(a / step);
                sum += (double)(c->q[r * c->cols + j] * a);
            }
            y[t * ld + r] = (float)sum;
        }
    n_applied++;
    return true;
}

static void free_linear(void *computing)
{
    n_freed++;
    free(computing);
}

static const struct quant_method run_time_method = {
    .name = "test-run-time",
    .doc = "",
    .options = "",
    .bits_min = QUANT_BITS_MIN,
    .bits_max = QUANT_BITS_MAX,
    .run = plain_run,
    .make_linear = make_linear,
    .apply = apply,
    .free_linear = free_linear,
};

/* --- visits --- */

struct outcome {
    bool done;
    char message[512];
    double delta, distance, bits;
};

static enum status emit(void *context, const json_t *record, struct err *e)
{
    struct outcome *o = context;
    (void)e;
    if (strcmp(json_text(record, "type", ""), "cell") != 0) return OK;
    const json_t *values = json_object_get(record, "values");
    const json_t *d = json_object_get(json_object_get(record, "datasets"), "m");
    o->done = strcmp(json_text(record, "status", ""), "done") == 0;
    snprintf(o->message, sizeof o->message, "%s", json_text(record, "message", ""));
    o->delta = json_number_get(json_object_get(d, "loss_delta"));
    o->distance = json_number_get(json_object_get(values, "weight_distance"));
    o->bits = json_number_get(json_object_get(values, "bits_per_weight"));
    return OK;
}

static enum status weights(void *context, const struct variant *v, const struct linear *l,
                           const float *q, const struct quant_grids *grids, struct err *e)
{
    (void)context, (void)v, (void)l, (void)q, (void)grids, (void)e;
    return OK;
}

static struct outcome visit_with(const struct quant_method *m, bool wants_weights)
{
    static char name[] = "m", none[] = "", path[] = FIXTURES "/models/llama";
    static char ids[] = FIXTURES "/models/llama/reference.safetensors:input_ids";
    struct visit_cache cache = {0};
    struct variant variant = {.bits = 4, .key = none};
    struct data_options data = {.name = name, .ids = ids};
    struct outcome out = {0};
    struct err e = {0};
    options_default(&quant_table, &variant.method.options);
    variant.method.name = variant.method.method = (char *)(uintptr_t)m->name;
    const struct visit v = {.model = name,
                            .checkpoint = name,
                            .weights = {.path = path},
                            .key = none,
                            .run = {.scalapack_from = 1},
                            .n_variants = 1,
                            .variants = &variant,
                            .calibration = data,
                            .n_evaluations = 1,
                            .evaluations = &data};
    const struct visit_hooks hooks = {
        .context = &out, .ranks = 1, .emit = emit, .weights = wants_weights ? weights : NULL};
    quant_add(m);
    if (visit_run(&v, group.comm, &cache, &hooks, &e) != OK) fail_msg("%s", e.text);
    quant_add(NULL);
    visit_cache_free(&cache);
    return out;
}

/* Trial weights give what the Gram matrix says, and factors of two between tied linears change no
 * bit of the loss; on the variant's own states and on the full-precision ones. The method takes no
 * distributed Gram matrix, although every stage is large enough for one. */
static void trial_weights_give_what_the_gram_matrix_says(void **state)
{
    (void)state;
    struct quant_method full = block_method;
    full.full_precision = true;
    const struct quant_method *methods[] = {&block_method, &full};
    for (int i = 0; i < 2; i++) {
        n_ties = n_compared = 0;
        struct outcome o = visit_with(methods[i], true);
        if (group.rank == 0 && !o.done) fail_msg("%s", o.message);
        assert_true(n_compared > 0 && n_compared % 6 == 0); /* six a block */
        assert_true(n_ties >= n_compared / 6);              /* up and down of each block */
        if (group.rank != 0) continue;
        assert_true(o.delta == 0 && o.distance > 1 && o.bits == 32);
    }
}

static void methods_at_run_time_change_the_inputs(void **state)
{
    (void)state;
    struct outcome o[2];
    for (int i = 0; i < 2; i++) {
        n_made = n_freed = n_applied = 0;
        activation_steps = i ? 15 : 0;
        o[i] = visit_with(&run_time_method, false);
        if (group.rank == 0 && !o[i].done) fail_msg("%s", o[i].message);
        assert_true(n_made > 0 && n_made == n_freed);
        MPI_Allreduce(MPI_IN_PLACE, &n_applied, 1, MPI_INT, MPI_SUM, group.comm);
        assert_true(n_applied > 0); /* a rank may have no sequence */
    }
    if (group.rank == 0) {
        assert_true(fabs(o[0].delta) < 1e-5 && o[0].distance == 0);
        assert_true(fabs(o[1].delta) > 1e-4 && o[1].distance == 0);
    }
    o[0] = visit_with(&run_time_method, true);
    if (group.rank == 0) {
        assert_false(o[0].done);
        assert_non_null(strstr(o[0].message, "quantizes activations too"));
    }
}

/* Where weights are assumed, such a method is refused. */
static void methods_at_run_time_are_refused_for_surfaces(void **state)
{
    (void)state;
    struct err e = {0};
    assert_int_equal(quant_check_weights(&block_method, "surfaces", &e), OK);
    assert_int_equal(quant_check_weights(&run_time_method, "surfaces", &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "surfaces: method test-run-time quantizes activations too"));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    linalg_setup();
    if (group_open(MPI_COMM_WORLD, &group, NULL) != OK) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trial_weights_give_what_the_gram_matrix_says),
        cmocka_unit_test(methods_at_run_time_change_the_inputs),
        cmocka_unit_test(methods_at_run_time_are_refused_for_surfaces)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    group_close(&group);
    MPI_Finalize();
    return failed;
}
