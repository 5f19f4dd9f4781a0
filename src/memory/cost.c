#include "memory/cost.h"
#include "curvature/hvp_predict.h"
#include "math/rates.h"
#include "model/arch.h"
#include "model/diff_block.h"
#include "quant/quant.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

const char *cost_phase_name(enum cost_phase phase)
{
    static const char *const names[COST_PHASE_N] = {
        [COST_READ] = "read",           [COST_FORWARD] = "forward",
        [COST_HESSIAN] = "hessian",     [COST_FACTOR] = "factor",
        [COST_SWEEP] = "sweep",         [COST_HEAD] = "head",
        [COST_CURVATURE] = "curvature", [COST_SECOND_ORDER] = "second_order",
    };
    return names[phase];
}

void cost_add(struct cost *to, const struct cost *more, double times)
{
    for (int i = 0; i < COST_PHASE_N; i++) to->flop[i] += times * more->flop[i];
    to->bytes += times * more->bytes;
}

double cost_flop(const struct cost *c)
{
    double sum = 0;
    for (int i = 0; i < COST_PHASE_N; i++) sum += c->flop[i];
    return sum;
}

/* --- FLOPs --- */

/* Twice the pairs of a query and a key that it sees. With a window of W keys, a sequence of T > W
 * tokens has T W - W²/2 pairs instead of T²/2; sequences of unequal lengths count as equal ones. */
static double pairs(const struct cost_tokens *t, int64_t window)
{
    const double w = (double)window, length = t->tokens > 0 ? t->squares / t->tokens : 0;
    return window == 0 || length <= w ? t->squares : t->tokens * w * (2 - w / length);
}

/* Scores and products with the values, each 2 T²/2 times the heads' width, or as many as a window
 * leaves. */
static double attention(const struct model_sizes *m, const struct cost_tokens *t)
{
    double width = (double)(m->shape.heads * m->shape.head_dim);
    double windowed = (double)m->windowed, layers = (double)m->shape.layers;
    return 2.0 * width * (windowed * pairs(t, m->spec.window) + (layers - windowed) * pairs(t, 0));
}

static double linears(const struct model_sizes *m, const struct cost_tokens *t)
{
    return (double)m->shape.layers * 2.0 * (double)m->linears * t->tokens;
}

static double forward(const struct model_sizes *m, const struct cost_tokens *t)
{
    return linears(m, t) + attention(m, t);
}

static double head(const struct model_sizes *m, const struct cost_tokens *t)
{
    return 2.0 * (double)m->shape.vocab * (double)m->shape.hidden * t->tokens;
}

struct cost cost_shared(const struct model_sizes *m, const struct cost_tokens *evaluation,
                        double bytes_per_weight)
{
    return (struct cost){
        .flop = {[COST_FORWARD] = forward(m, evaluation), [COST_HEAD] = head(m, evaluation)},
        .bytes = bytes_per_weight * (double)m->shape.parameters};
}

/* For pairs the full-precision model computes each stage's input from the block's, and the block's
 * output: so many forward passes. */
static const double PASSES_PAIRS = 2.5;

/* Computing statistics: the forward pass of the calibration tokens and the sums over the inputs. */
static void calibrate(const struct model_sizes *m, const struct quant_needs *needs,
                      const struct cost_tokens *calibration, struct cost *c)
{
    c->flop[COST_FORWARD] += (needs->pairs ? 1 + PASSES_PAIRS : 1) * forward(m, calibration);
    for (int i = 0; i < STAGE_N; i++)
        for (int k = 0; k < STATISTIC_N; k++)
            if (needs->statistics & WANTS(k) && statistic_at(k)->flop)
                c->flop[COST_HESSIAN] += (double)m->shape.layers *
                                         statistic_at(k)->flop(m->cols[i]) * calibration->tokens;
}

/* Adds the work that a method declares; prepares: include prepare (own statistics). */
static void add_method(const struct model_sizes *m, const struct method_entry *method,
                       const struct cost_tokens *calibration, bool prepares, bool runs,
                       struct cost *c)
{
    const struct quant_method *q = quant_find(method->method);
    double layers = (double)m->shape.layers, passes = 0;
    for (int i = 0; q && i < STAGE_N; i++) {
        struct quant_cost one = {.run = (double)m->all_rows[i] * (double)m->cols[i] * q->flop};
        if (q->cost) q->cost(&method->options, m->all_rows[i], m->cols[i], &one);
        if (prepares) c->flop[COST_FACTOR] += layers * one.prepare;
        if (runs) c->flop[COST_SWEEP] += layers * one.run;
        if (one.passes > passes) passes = one.passes;
    }
    if (runs && arch_norm_absorbs(m->spec.arch))
        c->flop[COST_FORWARD] += passes * forward(m, calibration);
}

struct cost cost_shared_statistics(const struct model_sizes *m, const struct method_entry *methods,
                                   int64_t n, const struct cost_tokens *calibration)
{
    struct cost c = {0};
    struct quant_needs all = {0};
    bool prepared = false;
    for (int64_t i = 0; i < n; i++) {
        const struct quant_method *q = quant_find(methods[i].method);
        if (!q) continue;
        const struct quant_needs needs = quant_needs_of(q, &methods[i].options);
        /* Usually they share one prepare, so only the first is counted. */
        if (needs.shared && !prepared)
            add_method(m, &methods[i], calibration, prepared = true, false, &c);
        quant_needs_share(&all, &needs);
    }
    if (all.shared) calibrate(m, &all, calibration, &c);
    return c;
}

/* Products' FLOPs in the time of quantizing a value: 0.4 to 1 ns of a core with AVX2. */
static const double FLOP_GRID = 40;

/* Of quantizing what a token's forward pass computes. */
static double grids(const struct model_sizes *m, const struct activation_grids *g)
{
    const double cache = (double)(m->shape.kv_heads * m->shape.head_dim);
    double values = 0;
    for (int i = 0; i < STAGE_N && activation_quantizes(&g->inputs); i++)
        values += (double)m->cols[i];
    if (activation_quantizes(&g->keys)) values += cache;
    if (activation_quantizes(&g->values)) values += cache;
    return FLOP_GRID * (double)m->shape.layers * values;
}

/* Of a cache with a residual: so many queries together quantize the keys, or values, that they see.
 */
static const double CACHE_QUERIES = 64;
static double cache(const struct model_sizes *m, const struct activation_grids *g,
                    const struct cost_tokens *t)
{
    const double parts = (g->keys.residual > 0) + (g->values.residual > 0);
    return parts * FLOP_GRID / (4 * CACHE_QUERIES) * attention(m, t);
}

/* What products of codes save, where they are multiplied as such: they take a third of the time of
 * others. */
static double saved_by_codes(const struct model_sizes *m, const struct method_entry *method,
                             const struct cost_tokens *evaluation)
{
    struct quant_grid_form form;
    const bool coded =
        integers_run() && activation_coded(&method->grids.inputs) &&
        quant_grid_form_of(quant_find(method->method), &method->options, &form, NULL) == OK;
    return coded ? linears(m, evaluation) * 2 / 3 : 0;
}

struct cost cost_variant(const struct model_sizes *m, const struct method_entry *method,
                         const struct cost_tokens *evaluation,
                         const struct cost_tokens *calibration)
{
    struct cost c = {
        .flop = {[COST_FORWARD] = forward(m, evaluation), [COST_HEAD] = head(m, evaluation)}};
    const struct quant_method *q = quant_find(method->method);
    if (!q) return c;
    const struct quant_needs needs = quant_needs_of(q, &method->options);
    c.flop[COST_FORWARD] +=
        grids(m, &method->grids) * evaluation->tokens + cache(m, &method->grids, evaluation);
    c.flop[COST_FORWARD] -= saved_by_codes(m, method, evaluation);
    add_method(m, method, calibration, needs.own, true, &c);
    if (needs.own) calibrate(m, &needs, calibration, &c);
    if (method->rotation_steps > 0) {
        const double share =
            fmin(1, (double)method->rotation_sequences / fmax(1, (double)calibration->sequences));
        const struct cost step = cost_curvature(m, calibration, HVP_QUANTIZED, 0, false);
        cost_add(&c, &step, share * (double)method->rotation_steps);
    }
    return c;
}

/* Work in units of that of a forward pass, by where it is (docs/math/hvp.md). */
struct passes {
    double linears, attention, head;
};
static const struct passes pass = {1, 1, 1};

static double passes_flop(const struct model_sizes *m, const struct cost_tokens *t, struct passes p)
{
    return p.linears * linears(m, t) + p.attention * attention(m, t) + p.head * head(m, t);
}

static struct passes passes_sum(struct passes a, double times, struct passes b)
{
    return (struct passes){a.linears + times * b.linears, a.attention + times * b.attention,
                           a.head + times * b.head};
}

/* Which part of the linears' weights a backward pass computes the outputs of again: not that of a
 * linear whose output it does not read. */
static double again(const struct model_sizes *m)
{
    struct diff_program p;
    double sum = 0, all = 0;
    diff_program(&m->spec, &p);
    for (int i = 0; i < p.n; i++) {
        if (p.op[i].kind != DIFF_LINEAR) continue;
        const double weights = (double)(m->all_rows[p.op[i].arg] * m->cols[p.op[i].arg]);
        all += weights;
        sum += p.op[i].backward ? weights : 0;
    }
    return all > 0 ? sum / all : 1;
}

/* Whether a subset has the head's matrix, whose gradient or products are then computed. */
static bool with_head(int subset)
{
    return subset == HVP_ALL || subset == HVP_MAT2D;
}

/* A pass forward and one backward. Attention has 2 products forward and 5 backward. */
static struct passes gradient(const struct model_sizes *m, int subset, bool kept)
{
    struct passes p = {1 + 2, 1 + 2.5, with_head(subset) ? 3 : 2};
    return kept ? p : passes_sum(p, 1, (struct passes){again(m), 1, 0});
}

/* The tangents of both passes: of a linear 2 products forward and 4 backward, of attention 5 and
 * 12. Without retained activations the values and adjoints too, and those of the forward pass again
 * in the backward pass. The head retains its logits' and its input's adjoints. */
static struct passes product(const struct model_sizes *m, int subset, bool kept)
{
    struct passes p = {2 + 4, 2.5 + 6, with_head(subset) ? 6 : 2};
    const double repeated = 1 + 2;
    if (kept) return p;
    return passes_sum(p, 1, (struct passes){1 + 1 + repeated * again(m), 1 + 2.5 + 1 + 2.5, 2});
}

/* A product with the change of one linear (hvp_apply_layer), the mean over the layers: the layers
 * in front of it have at most a forward pass. */
static struct passes product_of_layer(const struct model_sizes *m, bool kept)
{
    const double L = (double)m->shape.layers, behind = (L + 1) / (2 * L);
    const struct passes whole = product(m, HVP_QUANTIZED, kept);
    struct passes p = passes_sum((struct passes){.head = (1 - behind) * whole.head}, behind, whole);
    return kept ? p : passes_sum(p, 1 - behind, (struct passes){1, 1, 0});
}

struct cost cost_curvature(const struct model_sizes *m, const struct cost_tokens *tokens,
                           int subset, int64_t products, bool kept)
{
    const struct passes all =
        passes_sum(gradient(m, subset, kept), (double)products, product(m, subset, kept));
    return (struct cost){.flop = {[COST_CURVATURE] = passes_flop(m, tokens, all)}};
}

/* A critical step usually takes so many losses: the step of 1, one doubled or halved, four of
 * bisection. */
static const double CRITICAL = 6;

/* The loss, the gradient, and the checkpoint's critical step, which starts with a loss. */
struct cost cost_second_order(const struct model_sizes *m, const struct cost_tokens *tokens,
                              int depth, bool critical, bool kept)
{
    struct passes all = pass;
    if (depth != SECOND_ORDER_NONE) all = passes_sum(all, 1, gradient(m, HVP_QUANTIZED, kept));
    if (critical) all = passes_sum(all, 1 + CRITICAL, pass);
    return (struct cost){.flop = {[COST_SECOND_ORDER] = passes_flop(m, tokens, all)}};
}

/* The quantized model's loss, a product with the whole change, and one with each linear's. */
struct cost cost_second_order_cell(const struct model_sizes *m, const struct cost_tokens *tokens,
                                   int depth, bool critical, bool kept)
{
    struct slot slots[SLOTS_MAX];
    const int n = slots_of(&m->spec, 0, slots);
    struct passes all = pass;
    if (depth != SECOND_ORDER_NONE) all = passes_sum(all, 1, product(m, HVP_QUANTIZED, kept));
    for (int i = 0; depth == SECOND_ORDER_LAYERS && i < n; i++)
        if (slots[i].kind == SLOT_WEIGHT)
            all = passes_sum(all, (double)m->shape.layers, product_of_layer(m, kept));
    if (critical) all = passes_sum(all, CRITICAL, pass);
    return (struct cost){.flop = {[COST_SECOND_ORDER] = passes_flop(m, tokens, all)}};
}

/* --- seconds --- */

/* Fraction of sgemm's rate (factor: dgemm's) that each phase reaches, norms, exponentials and
 * memory traffic included; measured on blocks of models from 160M to 1B parameters. */
static const double reached[COST_PHASE_N] = {
    [COST_FORWARD] = 0.75, [COST_HESSIAN] = 0.75,  [COST_FACTOR] = 0.5,       [COST_SWEEP] = 0.35,
    [COST_HEAD] = 0.6,     [COST_CURVATURE] = 0.6, [COST_SECOND_ORDER] = 0.6,
};

static double phase_rate(const struct cost_rates *r, int phase)
{
    const double own[COST_PHASE_N] = {
        [COST_FACTOR] = r->dgemm,          [COST_FORWARD] = r->forward,
        [COST_HEAD] = r->forward,          [COST_HESSIAN] = r->gram,
        [COST_CURVATURE] = r->derivatives, [COST_SECOND_ORDER] = r->derivatives};
    return own[phase] > 0 ? own[phase] : r->sgemm;
}

double cost_seconds(const struct cost *c, const struct cost_rates *r, double seconds[COST_PHASE_N])
{
    double own[COST_PHASE_N], sum = 0;
    own[COST_READ] = c->bytes / r->read * r->correction[COST_READ];
    for (int i = COST_READ + 1; i < COST_PHASE_N; i++) {
        own[i] = c->flop[i] / (phase_rate(r, i) * reached[i]) * r->correction[i];
        sum += own[i];
    }
    if (seconds) memcpy(seconds, own, sizeof own);
    return sum > own[COST_READ] ? sum : own[COST_READ];
}

struct cost_rates cost_rates_of(double sgemm, double dgemm, double bf16)
{
    struct cost_rates r = {.sgemm = sgemm,
                           .dgemm = dgemm,
                           .bf16 = bf16,
                           .forward = sgemm,
                           .gram = sgemm,
                           .derivatives = sgemm,
                           .read = 1e9,
                           .measured = true};
    for (int i = 0; i < COST_PHASE_N; i++) r.correction[i] = 1;
    return r;
}

static double rate_of(const struct cost_rates *r, enum products kind)
{
    return kind == PRODUCTS_F32 ? r->sgemm : r->bf16 / products_pairs(kind);
}

/* About half of the products of derivatives are with weights, the others as in Gram sums
 * (docs/math/hvp.md). */
void cost_rates_choose(struct cost_rates *r, enum products kind)
{
    const enum products resolved = products_resolve(kind);
    if (!r->measured) return;
    r->forward = rate_of(r, resolved);
    r->gram = rate_of(r, products_of_sums(resolved));
    r->derivatives = 2 / (1 / r->forward + 1 / r->gram);
}

struct cost_rates cost_rates_given(double gflops)
{
    struct cost_rates r = cost_rates_of(gflops * 1e9, gflops * 0.5e9, 0);
    r.measured = false;
    return r;
}

/* Bytes per second of reading the folder's largest file, uncached; 0: no large file. */
static double read_rate(const char *folder)
{
    enum { CHUNK = 4 << 20, MOST = 64 };
    char path[1024];
    AUTO_FREE char *buffer = NULL;
    CLEANUP(fsx_close) int fd = -1;
    int64_t total = 0;
    CLEANUP(fsx_closedir) DIR *dir = folder ? opendir(folder) : NULL;
    for (struct dirent *entry; dir && fd < 0 && (entry = readdir(dir)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && lseek(fd, 0, SEEK_END) < CHUNK) {
            close(fd);
            fd = -1;
        }
    }
    if (fd < 0 || mem_alloc(&buffer, CHUNK, 1, "a reading buffer", NULL) != OK) return 0;
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    double start = clock_seconds();
    for (int i = 0; i < MOST && clock_seconds() - start < 0.3; i++) {
        ssize_t n = pread(fd, buffer, CHUNK, (off_t)i * CHUNK);
        if (n <= 0) break;
        total += n;
    }
    double seconds = clock_seconds() - start;
    return total > 0 && seconds > 0 ? (double)total / seconds : 0;
}

enum status cost_rates_measure(const char *folder, struct cost_rates *out, struct err *e)
{
    static struct linalg_rates known; /* of this process */
    if (known.threads == 0) PASS(linalg_rates_measure(0.1, &known, e));
    *out = cost_rates_of(known.sgemm, known.dgemm, known.bf16);
    double rate = read_rate(folder);
    if (rate > 0) out->read = rate;
    return OK;
}

/* --- corrections --- */

void cost_learn_phase(struct cost_measured *m, enum cost_phase phase, const struct cost *c,
                      const struct cost_rates *r, const json_t *seconds)
{
    double expected[COST_PHASE_N], taken = json_number_get(seconds);
    cost_seconds(c, r, expected);
    if (!(taken >= 0) || !(expected[phase] > 0)) return;
    m->expected[phase] += expected[phase];
    m->taken[phase] += taken;
}

void cost_learn(struct cost_measured *m, const struct cost *c, const struct cost_rates *r,
                const json_t *record)
{
    const json_t *values = json_object_get(record, "values");
    for (int i = 0; i < COST_PHASE_N; i++) {
        char name[32];
        snprintf(name, sizeof name, "seconds_%s", cost_phase_name((enum cost_phase)i));
        cost_learn_phase(m, (enum cost_phase)i, c, r, json_object_get(values, name));
    }
}

void cost_correct(const struct cost_measured *m, struct cost_rates *r)
{
    for (int i = COST_READ + 1; i < COST_PHASE_N; i++)
        if (m->taken[i] >= 1 && m->expected[i] > 0)
            r->correction[i] *= m->taken[i] / m->expected[i];
}
