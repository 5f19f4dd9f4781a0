/* layer: a synthetic linear layer with correlated inputs, for tests of quantizers. */
#pragma once
#include "math/linalg.h"
#include "quant/quant.h"
#include "util/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct layer {
    int64_t rows, cols;
    float *w;                  // (rows, cols)
    float *x;                  // (tokens, cols) inputs
    float *change;             // (tokens, cols) the full-precision model's minus these
    double *sums[STATISTIC_N]; /* of the inputs */
    double *gram;              /* one of them: (cols, cols) upper triangle */
    struct quant_input input;
};

static inline float noise(uint64_t *state)
{
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(*state >> 40) / (1 << 24) - 0.5;
    }
    return (float)(sum * 1.7320508);
}

/* Neighbouring channels are correlated and their sizes differ by 50; `tokens` inputs in one
 * sequence. */
static inline struct layer layer_make(int64_t rows, int64_t cols, int64_t tokens)
{
    struct layer l = {.rows = rows, .cols = cols};
    uint64_t state = (uint64_t)(rows * 1009 + cols);
    const int64_t offset[] = {0, tokens};
    if (mem_zero(&l.w, rows * cols, sizeof *l.w, "weights", NULL) != OK ||
        mem_zero(&l.x, tokens * cols, sizeof *l.x, "inputs", NULL) != OK)
        abort();
    for (int64_t i = 0; i < rows * cols; i++) l.w[i] = 0.05f * noise(&state);
    for (int64_t t = 0; t < tokens; t++) {
        float last = 0;
        for (int64_t j = 0; j < cols; j++) {
            last = 0.8f * last + 0.6f * noise(&state);
            l.x[t * cols + j] = last * expf(2.0f * sinf((float)(j * j)));
        }
    }
    l.input = (struct quant_input){.cols = cols, .samples = 1, .tokens = tokens};
    if (mem_zero(&l.change, tokens * cols, sizeof *l.change, "inputs", NULL) != OK) abort();
    for (int64_t k = 0; k < tokens * cols; k++) l.change[k] = 0.1f * noise(&state) * l.x[k];
    const struct statistic_range all = {
        .change = l.change, .x = l.x, .cols = cols, .offset = offset, .n = 1, .tokens = tokens};
    for (int k = 0; k < STATISTIC_N; k++) {
        const struct statistic *s = statistic_at(k);
        if (mem_zero(&l.sums[k], s->count(cols), sizeof(double), s->name, NULL) != OK ||
            s->add(l.sums[k], &all, NULL) != OK)
            abort();
        l.input.statistic[k] = l.sums[k];
    }
    l.gram = l.sums[STATISTIC_GRAM];
    return l;
}

static inline void layer_free(struct layer *l)
{
    free(l->w);
    free(l->x);
    free(l->change);
    for (int k = 0; k < STATISTIC_N; k++) free(l->sums[k]);
}

/* Sets an option by its flag, value NULL for a flag without one. */
static inline void option_set(struct quant_options *o, const char *flag, const char *value)
{
    char *arguments[] = {(char *)(uintptr_t)flag, (char *)(uintptr_t)value};
    int used;
    if (options_flag(&quant_table, "", o, value ? 2 : 1, arguments, &used, NULL) != OK || !used)
        abort();
}

static inline struct quant_options options_make(int64_t group_size)
{
    struct quant_options o;
    options_default(&quant_table, &o);
    o.group_size = group_size;
    option_set(&o, "--trellis-window", "8"); /* 65,536 states take long */
    return o;
}

/* --- every method, also with a mixing if it has that option --- */

struct subject {
    int i;
    const struct quant_method *method;
    bool mixed;
    unsigned results; /* what then holds: mixed back, weights are on no grid, and an input channel
                         without input gets a share of the others' errors */
};

/* The first (all zero) or the next one; false after the last. */
static inline bool subject_next(struct subject *s)
{
    for (; (s->method = quant_at(s->i / 2)) != NULL; s->i++) {
        s->mixed = s->i % 2;
        if (s->mixed && !quant_concerns(s->method, "mixing")) continue;
        s->results = s->method->results;
        if (s->mixed) s->results &= ~(unsigned)(QUANT_UNIFORM_GRID | QUANT_DEAD_IS_ZERO);
        s->i++;
        return true;
    }
    return false;
}

#define EACH_SUBJECT(s) for (struct subject s = {0}; subject_next(&(s));)

static inline struct quant_options subject_options(const struct subject *s, int64_t group_size)
{
    struct quant_options o = options_make(group_size);
    if (!s->mixed) return o;
    option_set(&o, "--mixing", "hadamard");
    if (quant_concerns(s->method, "scaled")) option_set(&o, "--scaled", "free");
    return o;
}

/* --- the layer as a block of one linear behind a norm, for methods with prepare_block --- */

struct layer_block {
    const struct layer *l;
    float *trial;  // (rows, cols)
    float *change; // (tokens, rows)
};

/* Every rank has the inputs and all of the original weights. */
static inline enum status layer_compare(const struct quant_block *b, int stage,
                                        double *mean_squared, struct err *e)
{
    const struct layer_block *t = b->context;
    const struct layer *l = t->l;
    int64_t n = l->input.tokens * l->rows, first, end;
    double sum = 0;
    (void)stage, (void)e;
    for (int r = 0; b->team && r < b->team->size; r++) {
        team_rows(b->team, r, l->rows, &first, &end);
        MPI_Bcast(t->trial + first * l->cols, (int)((end - first) * l->cols), MPI_FLOAT, r,
                  b->team->comm);
    }
    for (int64_t k = 0; k < l->rows * l->cols; k++) t->trial[k] -= l->w[k];
    mat_tiles(MAT_NT, t->change, l->rows, l->x, l->cols, t->trial, l->cols, l->input.tokens,
              l->rows, l->cols, 0);
    for (int64_t k = 0; k < n; k++) sum += (double)t->change[k] * (double)t->change[k];
    *mean_squared = sum / (double)n;
    return OK;
}

/* prepare or prepare_block, whichever the method has. */
static inline enum status layer_prepare(const struct layer *l, const struct quant_method *m,
                                        int64_t bits, const struct quant_options *o,
                                        const struct quant_input *in, void **prepared,
                                        struct err *e)
{
    struct layer_block t = {.l = l};
    if (m->prepare) return m->prepare(in, o, prepared, e);
    if (!m->prepare_block) return OK;
    if (mem_zero(&t.trial, l->rows * l->cols, sizeof *t.trial, "trial", NULL) != OK ||
        mem_zero(&t.change, in->tokens * l->rows, sizeof *t.change, "outputs", NULL) != OK)
        abort();
    const struct quant_linear linear = {"linear", 0, l->rows, l->cols, l->w, t.trial, TIE_NORM};
    const struct quant_block b = {.team = in->team,
                                  .bits = bits,
                                  .options = o,
                                  .n_linears = 1,
                                  .n_stages = 1,
                                  .linear = &linear,
                                  .input = in,
                                  .compare = layer_compare,
                                  .context = &t};
    enum status st = m->prepare_block(&b, prepared, e);
    free(t.trial);
    free(t.change);
    return st;
}

/* Runs the job; of methods with integer grids, every weight must be a code of the grid that the
 * method reports, and give back the weight. */
static inline enum status layer_run(const struct quant_method *m, struct quant_job *job,
                                    struct quant_report *report, struct err *e)
{
    struct quant_grid_form form;
    struct quant_grids g = {0};
    uint8_t *code = calloc((size_t)job->cols, 1);
    if (quant_grid_form_of(m, job->options, &form, NULL) == OK) job->grids = &g;
    if (quant_grids_init(&g, job->options, job->rows, job->cols, NULL) != OK) abort();
    enum status st = m->run(job, report, e);
    for (int64_t i = 0; job->grids && st == OK && i < job->rows; i++) {
        const float *q = job->q + i * job->cols;
        st = quant_grids_codes(&g, i, q, job->cols, job->bits, code, e);
        for (int64_t j = 0; st == OK && j < job->cols; j++) {
            const double *grid = g.grid + (i * g.groups + g.group[j]) * 2;
            const float w = (float)grid[0] * ((float)code[j] - (float)grid[1]);
            if (form.symmetric && grid[1] != (double)(1 << (job->bits - 1))) abort();
            if (!g.columns && !g.rows && w != q[j]) abort();
        }
    }
    quant_grids_free(&g);
    free(code);
    return st;
}

/* q (rows, cols) is allocated for the caller, whatever the status. */
static inline enum status layer_quantize(const struct layer *l, const struct quant_method *m,
                                         int64_t bits, const struct quant_options *o, float **q,
                                         struct quant_report *report, struct err *e)
{
    void *prepared = NULL;
    const struct quant_input *in = m->statistics || quant_calibrates(m, o) ? &l->input : NULL;
    if (mem_alloc(q, l->rows * l->cols, sizeof **q, "result", NULL) != OK) abort();
    enum status st = layer_prepare(l, m, bits, o, in, &prepared, e);
    struct quant_job job = {.bits = bits,
                            .options = o,
                            .rows = l->rows,
                            .cols = l->cols,
                            .w = l->w,
                            .q = *q,
                            .input = in,
                            .prepared = prepared};
    if (st == OK) st = layer_run(m, &job, report, e);
    if (prepared) m->release(prepared);
    return st;
}
