/* grids: models whose inputs of linears, keys and values are quantized, and their losses. Include
 * it after cmocka.h. */
#pragma once
#include "blocks.h"
#include "fixture.h"
#include "model/model_internal.h"
#include "model/rotated.h"
#include <math.h>

/* The factor of a row's range, of 1, 0.99, ..., 0.21, with the least sum of |error|^2.4. */
static double best_clip(struct activation_grid g, const float *w, float *scratch, int64_t n)
{
    double best = INFINITY, clip = 1;
    for (int i = 0; i < 80; i++) {
        double sum = 0;
        g.clip = 1 - i / 100.;
        memcpy(scratch, w, (size_t)n * sizeof *w);
        activation_row(&g, -1, scratch, n);
        for (int64_t j = 0; j < n; j++) sum += pow(fabs((double)scratch[j] - (double)w[j]), 2.4);
        if (sum < best) best = sum, clip = g.clip;
    }
    return clip;
}

/* Weights of a row in so many bits: absmax / (2^(bits-1) - 1), which is an input's own grid.
 * searches: for a smaller range (QuaRot's w_clip). */
static void quantize_weights(struct block *b, int64_t bits, int64_t down_bits, bool searches)
{
    struct activation_grid g = {.symmetric = true, .clip = 1, .group_size = -1};
    for (int k = 0; bits < 16 && k < b->n_linears; k++) {
        const struct linear *l = &b->linear[k];
        g.bits = l->stage == STAGE_DOWN && down_bits ? down_bits : bits;
        float *scratch = malloc((size_t)l->cols * sizeof *scratch);
        for (int64_t i = 0; i < l->rows; i++) {
            float *w = (float *)(uintptr_t)l->w + i * l->cols;
            g.clip = searches ? best_clip(g, w, scratch, l->cols) : 1;
            activation_row(&g, -1, w, l->cols);
        }
        free(scratch);
    }
}

/* How a model is run: in another basis (NULL: its own), with grids, weights in so many bits. */
struct setting {
    const struct model *rotated;
    struct activation_grids grids;
    int64_t weight_bits;
    bool searches;
    void (*quantize)(void *context, struct block *b); /* in place of weight_bits; NULL: none */
    void *context;
    void (*prepare)(void *context, struct block *b); /* sets what grids know; NULL: nothing */
};

/* The hidden states behind all blocks, which the caller frees. rows: of the last block only these,
 * all of them. */
static inline float *run_setting(const struct model *m, const struct sequences *s,
                                 const struct setting *how, bool rows)
{
    const struct model *rotated = how->rotated;
    const struct activation_grids *g = &how->grids;
    struct block own;
    struct acts a;
    struct block b;
    struct err e = {0};
    const int64_t tokens = s->offset[s->n], layers = model_shape(m)->layers;
    float *x = malloc((size_t)(tokens * model_shape(m)->hidden) * sizeof *x);
    bool *wanted = malloc((size_t)tokens);
    memset(wanted, true, (size_t)tokens);
    must(model_check_grids(model_shape(m), g, &e), &e);
    must(model_acts_init(m, tokens, &a, &e), &e);
    must(model_acts_codes(&a, &e), &e);
    must(model_embed(rotated ? rotated : m, s, x, &e), &e);
    for (int64_t layer = 0; layer < layers; layer++) {
        must(model_block_load(m, layer, &b, &e), &e);
        own = b;
        if (rotated) must(model_block_rotate(rotated, &b, &own, &e), &e);
        if (how->quantize)
            how->quantize(how->context, &own);
        else
            quantize_weights(&own, how->weight_bits, how->grids.inputs.down_bits, how->searches);
        own.grids = g;
        if (how->prepare) how->prepare(how->context, &own);
        if (rows && layer + 1 == layers)
            model_block_forward_rows(m, &own, s, wanted, s, x, &a);
        else
            model_block_forward(m, &own, s, x, &a);
        if (rotated) model_block_free(&own);
        model_block_free(&b);
    }
    model_acts_free(&a);
    free(wanted);
    return x;
}

/* Outlier channels by the scores of Atom and QUIK on their calibration text. */
struct scores {
    const struct fixture *f;
    const char *name;
    int32_t order[STAGE_N][96];
};

static inline void give_order(void *context, struct block *b)
{
    struct scores *s = context;
    struct err e = {0};
    for (int stage = 0; stage < STAGE_N; stage++) {
        char key[64];
        snprintf(key, sizeof key, "model.%s.%d.%d.score", s->name, (int)b->layer, stage);
        const struct fixture_tensor t = fixture_get(s->f, key);
        must(activation_order(t.data, t.dim[0], s->order[stage], &e), &e);
        b->inputs[stage].order = s->order[stage];
        b->inputs[stage].outliers = b->grids->inputs.outliers;
    }
}

/* The same of a model in its own basis. */
static inline float *run(const struct model *m, const struct sequences *s,
                         const struct activation_grids *g, int64_t weight_bits, bool rows)
{
    const struct setting how = {.grids = *g, .weight_bits = weight_bits};
    return run_setting(m, s, &how, rows);
}

/* nll (sequences, T - 1) of the hidden states. */
static inline void losses(const struct model *m, const struct sequences *s, float *x, double *nll)
{
    const int64_t C = model_shape(m)->hidden, V = model_shape(m)->vocab;
    double *logit = malloc((size_t)V * sizeof *logit);
    model_final_norm(m, x, s->offset[s->n], x);
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t t = s->offset[i]; t + 1 < s->offset[i + 1]; t++) {
            double most = -INFINITY, sum = 0;
            for (int64_t v = 0; v < V; v++) {
                logit[v] = 0;
                for (int64_t c = 0; c < C; c++)
                    logit[v] += (double)x[t * C + c] * (double)model_head(m)[v * C + c];
                most = fmax(most, logit[v]);
            }
            for (int64_t v = 0; v < V; v++) sum += exp(logit[v] - most);
            *nll++ = log(sum) + most - logit[s->ids[t + 1]];
        }
    free(logit);
}

static double number(const json_t *setting, const char *key, double fallback)
{
    const json_t *x = json_object_get(setting, key);
    return x ? json_number_value(x) : fallback;
}

static bool flag(const json_t *setting, const char *key, bool fallback)
{
    const json_t *x = json_object_get(setting, key);
    return x ? json_is_true(x) : fallback;
}

static inline struct activation_grids grids_of(const json_t *s)
{
    return (struct activation_grids){
        .inputs = {.bits = (int64_t)number(s, "a_bits", 16),
                   .symmetric = !flag(s, "a_asym", false),
                   .clip = number(s, "a_clip_ratio", 1),
                   .group_size = (int64_t)number(s, "a_groupsize", -1),
                   .o_group = (int64_t)number(s, "o_groupsize", 0),
                   .down_bits = flag(s, "int8_down_proj", false) ? 8 : 0},
        .keys = {.bits = (int64_t)number(s, "k_bits", 16),
                 .symmetric = !flag(s, "k_asym", true),
                 .clip = number(s, "k_clip_ratio", 1),
                 .group_size = -1,
                 .rotation =
                     flag(s, "k_hadamard", true) ? RUN_ROTATION_HADAMARD : RUN_ROTATION_NONE},
        .values = {.bits = (int64_t)number(s, "v_bits", 16),
                   .symmetric = !flag(s, "v_asym", true),
                   .clip = number(s, "v_clip_ratio", 1),
                   .group_size = -1}};
}

/* The reference's own loss moves where rounding alone makes a code flip, which every later position
 * of its row sees: `agree` is how many positions of it stay. Where none does, GPTQ's near ties are
 * decided by the kernel, and f32 programs differ by up to 0.08 on these random models. */
static inline void check_losses(const char *name, const json_t *setting, const double *nll,
                                const double *reference, int64_t n)
{
    const bool exact = number(setting, "agree", 0) >= 1, eight = number(setting, "a_bits", 16) == 8,
               none = number(setting, "agree", 1) == 0;
    int64_t near = 0;
    double difference = 0;
    for (int64_t i = 0; i < n; i++) {
        near += fabs(nll[i] - reference[i]) < 1e-4;
        difference += (nll[i] - reference[i]) / (double)n;
    }
    print_message("%s: %+.1e, %d of %d positions\n", name, difference, (int)near, (int)n);
    if (exact)
        assert_true(fabs(difference) < 3e-6 && near == n);
    else
        assert_true(10 * near >= 4 * n || (eight && fabs(difference) < 1e-2) ||
                    (none && fabs(difference) < 0.08));
}

/* The ids (sequences, tokens) of a fixture, which the caller frees. */
static struct sequences sequences_of(const struct fixture *f, const char *name)
{
    const struct fixture_tensor t = fixture_get(f, name);
    struct sequences s;
    struct err e = {0};
    must(sequences_init(&s, t.dim[0], t.dim[0] * t.dim[1], false, &e), &e);
    for (int64_t i = 0; i <= s.n; i++) s.offset[i] = i * t.dim[1];
    memcpy(s.ids, t.data, (size_t)s.offset[s.n] * sizeof *s.ids);
    return s;
}
