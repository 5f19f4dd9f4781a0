/* The formulas are those of transformers' modeling_rope_utils, with the same roundings to f32, so
 * that an f32 forward pass reproduces its logits. */
#include "model/rope.h"
#include "math/real.h"
#include <math.h>
#include <string.h>

/* Compiled once more for the f64 build (math/real.h). */
#ifdef QTRAJ_REAL_F64
#define rope        rope_f64
#define rope_read   rope_read_f64
#define rope_angles rope_angles_f64
#define real_pow    pow
#define real_cos    cos
#define real_sin    sin
#else
#define real_pow powf
#define real_cos cosf
#define real_sin sinf
#endif

/* What the scalings read. */
struct scaling {
    const struct hfconfig *c;
    double theta, factor;
    int64_t dim; /* rotated values, 2 half */
};

/* *out = a number that is positive in f32, too; `otherwise` as hf_number. */
static enum status read_positive(const struct hfconfig *c, const char *key, double otherwise,
                                 double *out, struct err *e)
{
    PASS(hf_number(c, key, otherwise, out, e));
    NEED((float)*out > 0 && isfinite((float)*out), ERR_FORMAT,
         "%s: %s%s is %g; expected a positive number", c->name, c->prefix, key, *out);
    return OK;
}

static enum status scale_linear(struct rope *r, struct scaling *s, struct err *e)
{
    PASS(read_positive(s->c, "factor", HF_REQUIRED_NUMBER, &s->factor, e));
    for (int64_t j = 0; j < r->half; j++) r->inv[j] /= (real)s->factor;
    return OK;
}

/* Llama 3.1: divides the frequencies of long wavelengths by the factor, leaves short ones unchanged
 * and blends in between. */
static void blend_llama3(struct rope *r, double factor, double low, double high, double original)
{
    for (int64_t j = 0; j < r->half; j++) {
        real inv = r->inv[j], wave = (real)(2 * M_PI) / inv;
        real slow = wave > (real)(original / low) ? inv / (real)factor : inv;
        real smooth = ((real)original / wave - (real)low) / (real)(high - low);
        bool between = wave >= (real)(original / high) && wave <= (real)(original / low);
        r->inv[j] = between ? (1 - smooth) * slow / (real)factor + smooth * slow : slow;
    }
}

static enum status scale_llama3(struct rope *r, struct scaling *s, struct err *e)
{
    double low, high;
    int64_t original;
    PASS(read_positive(s->c, "factor", HF_REQUIRED_NUMBER, &s->factor, e));
    PASS(read_positive(s->c, "low_freq_factor", HF_REQUIRED_NUMBER, &low, e));
    PASS(read_positive(s->c, "high_freq_factor", HF_REQUIRED_NUMBER, &high, e));
    PASS(hf_int(s->c, "original_max_position_embeddings", HF_REQUIRED, 1, &original, e));
    NEED(high > low, ERR_FORMAT,
         "%s: %shigh_freq_factor is %g; expected more than low_freq_factor, %g", s->c->name,
         s->c->prefix, high, low);
    blend_llama3(r, s->factor, low, high, (double)original);
    return OK;
}

static double yarn_magnitude(double factor, double m)
{
    return factor <= 1 ? 1.0 : 0.1 * m * log(factor) + 1.0;
}

static enum status yarn_scale(const struct scaling *s, real *scale, struct err *e)
{
    double m, m_all, attention;
    PASS(hf_number(s->c, "mscale", 0, &m, e));
    PASS(hf_number(s->c, "mscale_all_dim", 0, &m_all, e));
    NEED(m >= 0 && m_all >= 0, ERR_FORMAT,
         "%s: %smscale and mscale_all_dim are %g and %g; expected no negative number", s->c->name,
         s->c->prefix, m, m_all);
    double otherwise = m != 0 && m_all != 0
                           ? yarn_magnitude(s->factor, m) / yarn_magnitude(s->factor, m_all)
                           : yarn_magnitude(s->factor, 1);
    PASS(read_positive(s->c, "attention_factor", otherwise, &attention, e));
    *scale = (real)attention;
    return OK;
}

/* YaRN (Peng et al. 2023): dimensions that turn more than beta_fast times over the original context
 * stay unchanged, those that turn less than beta_slow times are interpolated, with a ramp between.
 */
static enum status scale_yarn(struct rope *r, struct scaling *s, struct err *e)
{
    double fast, slow;
    int64_t original;
    bool truncate;
    PASS(read_positive(s->c, "factor", HF_REQUIRED_NUMBER, &s->factor, e));
    PASS(hf_int(s->c, "original_max_position_embeddings", HF_REQUIRED, 1, &original, e));
    PASS(read_positive(s->c, "beta_fast", 32, &fast, e));
    PASS(read_positive(s->c, "beta_slow", 1, &slow, e));
    NEED(fast >= slow, ERR_FORMAT, "%s: %sbeta_fast is %g; expected at least beta_slow, %g",
         s->c->name, s->c->prefix, fast, slow);
    NEED(s->theta > 1, ERR_FORMAT, "%s: rope_theta is %g; expected more than 1 for yarn",
         s->c->name, s->theta);
    PASS(hf_bool(s->c, "truncate", true, &truncate, e));
    PASS(yarn_scale(s, &r->scale, e));
    double turns = (double)original / (2 * M_PI), per = (double)s->dim / (2 * log(s->theta));
    double lo = per * log(turns / fast), hi = per * log(turns / slow);
    if (truncate) lo = floor(lo), hi = ceil(hi);
    lo = fmax(lo, 0);
    hi = fmin(hi, (double)s->dim - 1);
    if (hi == lo) hi += 0.001;
    for (int64_t j = 0; j < r->half; j++) {
        real ramp = ((real)j - (real)lo) / (real)(hi - lo);
        real keep = 1 - (real)fmin(fmax(ramp, 0), 1);
        real base = real_pow((real)s->theta, (real)(2 * j) / (real)s->dim);
        r->inv[j] = 1 / ((real)s->factor * base) * (1 - keep) + 1 / base * keep;
    }
    return OK;
}

/* LongRoPE with the same factors for long and short sequences: a divisor of each frequency. */
static enum status scale_factors(struct rope *r, struct scaling *s, struct err *e)
{
    const json_t *longer = hf_value(s->c, "long_factor");
    double attention;
    PASS(read_positive(s->c, "attention_factor", HF_REQUIRED_NUMBER, &attention, e));
    NEED(longer && json_equal(longer, hf_value(s->c, "short_factor")), ERR_USAGE,
         "%s: %slong_factor and short_factor differ: that depends on a sequence's length, and is "
         "not supported",
         s->c->name, s->c->prefix);
    NEED((int64_t)json_array_size(longer) == r->half, ERR_FORMAT,
         "%s: %slong_factor has %zu numbers; expected %lld", s->c->name, s->c->prefix,
         json_array_size(longer), (long long)r->half);
    for (int64_t j = 0; j < r->half; j++) {
        const real factor = (real)json_number_value(json_array_get(longer, (size_t)j));
        NEED(factor > 0 && isfinite(factor), ERR_FORMAT,
             "%s: %slong_factor[%lld] is no positive number", s->c->name, s->c->prefix,
             (long long)j);
        r->inv[j] /= factor;
    }
    r->scale = (real)attention;
    return OK;
}

static const struct {
    const char *name;
    enum status (*apply)(struct rope *r, struct scaling *s, struct err *e);
} types[] = {
    {"default", NULL},    {"linear", scale_linear},    {"llama3", scale_llama3},
    {"yarn", scale_yarn}, {"longrope", scale_factors},
};

static enum status apply_type(const char *name, struct rope *r, struct scaling *s, struct err *e)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0) {
            r->info.type = types[i].name;
            return types[i].apply ? types[i].apply(r, s, e) : OK;
        }
    RAISE(ERR_USAGE,
          "%s: %srope_type \"%s\" is not supported (supported: default, linear, llama3, yarn, "
          "longrope)",
          s->c->name, s->c->prefix, name);
}

/* theta and the rotated fraction are in the rope object (transformers 5) or at the top level (4; in
 * GPT-NeoX under other names). */
static enum status read_base(const struct hfconfig *c, const struct hfconfig *object, bool found,
                             const struct rope_defaults *d, double *theta, double *partial,
                             struct err *e)
{
    PASS(hf_number(c, "rotary_emb_base", d->theta, theta, e));
    PASS(hf_number(c, "rope_theta", *theta, theta, e));
    PASS(hf_number(c, "rotary_pct", d->partial, partial, e));
    PASS(hf_number(c, "partial_rotary_factor", *partial, partial, e));
    if (found) {
        PASS(hf_number(object, "rope_theta", *theta, theta, e));
        PASS(hf_number(object, "partial_rotary_factor", *partial, partial, e));
    }
    NEED(*theta != 0 || d->theta != 0, ERR_FORMAT,
         "%s: \"%srope_theta\" is missing; expected a positive number (500000 in the published "
         "models of this family)",
         c->name, found ? object->prefix : "");
    NEED((float)*theta > 0 && isfinite((float)*theta), ERR_FORMAT,
         "%s: rope_theta is %g; expected a positive number", c->name, *theta);
    return OK;
}

/* Types of layers, as keys of rope_parameters. */
static const struct {
    const char *key, *prefix;
} nested[ROPES_MAX] = {
    [ROPE_FULL] = {"full_attention", "rope_parameters.full_attention."},
    [ROPE_WINDOW] = {"sliding_attention", "rope_parameters.sliding_attention."},
};

/* Where the parameters are. *scales: whether they say how these layers scale. */
static enum status read_object(const struct hfconfig *c, enum rope_layers layers,
                               const struct rope_defaults *d, bool *found, bool *scales,
                               struct hfconfig *object, struct err *e)
{
    PASS(hf_object(c, "rope_parameters", "rope_parameters.", found, object, e));
    if (!*found) PASS(hf_object(c, "rope_scaling", "rope_scaling.", found, object, e));
    const struct hfconfig all = *object;
    for (int i = 0; i < ROPES_MAX && *found; i++)
        if (json_is_object(hf_value(&all, nested[i].key))) {
            NEED(d->by_layer, ERR_USAGE,
                 "%s: \"%s%s\": parameters by type of layer are not supported in this family; "
                 "expected one set for all layers",
                 c->name, all.prefix, nested[i].key);
            PASS(hf_object(&all, nested[layers].key, nested[layers].prefix, found, object, e));
            *scales = *found;
            return OK;
        }
    *scales = *found && layers == ROPE_FULL;
    return OK;
}

enum status rope_read(const struct hfconfig *c, int64_t head_dim, enum rope_layers layers,
                      const struct rope_defaults *d, struct rope *out, struct err *e)
{
    bool found, scales = false;
    struct hfconfig object = *c;
    struct scaling s = {.c = &object, .factor = 1};
    double partial;
    const char *type = "default";
    PASS(read_object(c, layers, d, &found, &scales, &object, e));
    PASS(read_base(c, &object, found, d, &s.theta, &partial, e));
    s.dim = (int64_t)((double)head_dim * partial);
    NEED(s.dim >= 2 && s.dim <= head_dim && s.dim % 2 == 0, ERR_FORMAT,
         "%s: RoPE would rotate %lld of %lld values of a head; expected an even number", c->name,
         (long long)s.dim, (long long)head_dim);
    NEED(s.dim / 2 <= ROPE_HALF_MAX, ERR_USAGE, "%s: heads of %lld values; at most %d", c->name,
         (long long)s.dim, 2 * ROPE_HALF_MAX);
    out->half = s.dim / 2;
    out->scale = 1;
    out->info.type = "default";
    for (int64_t j = 0; j < out->half; j++)
        out->inv[j] = 1 / real_pow((real)s.theta, (real)(2 * j) / (real)s.dim);
    if (scales) {
        PASS(hf_text(&object, "type", "default", &type, e));
        PASS(hf_text(&object, "rope_type", type, &type, e));
        PASS(apply_type(type, out, &s, e));
    } else if (d->llama3 && !hf_has(c, "rope_scaling") && !hf_has(c, "rope_parameters")) {
        s.factor = 8;
        out->info.type = "llama3";
        blend_llama3(out, s.factor, 1, 4, 8192);
    }
    out->info.theta = s.theta;
    out->info.factor = s.factor;
    return OK;
}

void rope_angles(const struct rope *r, int64_t position, real *cosine, real *sine)
{
    for (int64_t j = 0; j < r->half; j++) {
        real angle = (real)position * r->inv[j];
        cosine[j] = real_cos(angle) * r->scale;
        sine[j] = real_sin(angle) * r->scale;
    }
}
