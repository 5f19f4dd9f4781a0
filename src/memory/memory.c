#include "memory/memory.h"
#include "curvature/rotation_learn.h"
#include "eval/head.h"
#include "math/linalg.h"
#include "util/num.h"
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

const char *memory_part_name(enum memory_part part)
{
    static const char *const names[MEMORY_PART_N] = {
        [MEMORY_BASE] = "base",           [MEMORY_WEIGHTS] = "weights",
        [MEMORY_STATES] = "states",       [MEMORY_WORK] = "work",
        [MEMORY_RETAINED] = "kept",       [MEMORY_HESSIANS] = "hessians",
        [MEMORY_QUANTIZER] = "quantizer",
    };
    return names[part];
}

struct memory_sequences memory_sequences_of(const struct sequences *s)
{
    if (!s) return (struct memory_sequences){0};
    return (struct memory_sequences){s->n, s->offset[s->n], sequences_longest(s)};
}

enum {
    FLOAT = sizeof(float),
    HALF = sizeof(uint16_t),
    DOUBLE = sizeof(double),
    READ_BUFFER = 1 << 20
};

/* --- the process --- */

/* Resident memory of libraries, MPI's buffers and the program, and of each computing thread: stack,
 * malloc arena, BLAS buffer. Measured. */
enum { BASE_PROCESS = 44 << 20, BASE_COMPUTING = 3 << 20, BASE_THREAD = 1 << 20 };

static int64_t base_growth(int64_t threads)
{
    return BASE_COMPUTING + threads * BASE_THREAD;
}

int64_t memory_base(int64_t threads)
{
    return BASE_PROCESS + base_growth(threads);
}

static bool process_now(int64_t *mapped, int64_t *resident)
{
    long long all = 0, here = 0, page = sysconf(_SC_PAGESIZE);
    FILE *f = fopen("/proc/self/statm", "re");
    bool read = f && fscanf(f, "%lld %lld", &all, &here) == 2;
    if (f) fclose(f);
    *mapped = read ? all * page : 0;
    *resident = read ? here * page : 0;
    return read;
}

int64_t memory_base_now(const struct model_sizes *sizes, int64_t threads)
{
    int64_t mapped, resident;
    process_now(&mapped, &resident);
    int64_t outside = sizes ? sizes->outside * FLOAT : 0;
    return max64(resident - outside, 0) + base_growth(threads);
}

/* Address space of a computing thread, mostly never touched: BLAS's buffer of 128 MiB, malloc's
 * arena, which maps as much again to align itself, and a stack. */
enum { MAPPED_THREAD = 272 << 20 };

int64_t memory_usable_now(int64_t bound, const struct model_sizes *sizes, int64_t threads)
{
    int64_t mapped, resident, available = memory_usable(bound) - memory_base_now(sizes, threads);
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY) return available;
    if (!process_now(&mapped, &resident)) return 0;
    /* Twice, because BLAS starts as many threads. */
    return min64(available, (int64_t)space.rlim_cur - mapped - 2 * threads * MAPPED_THREAD);
}

enum { MARGIN = 32 };

int64_t memory_usable(int64_t bound)
{
    return bound - bound / MARGIN;
}

int64_t memory_bound(int64_t usable)
{
    return usable + usable / (MARGIN - 1) + 1;
}

/* --- what the visit needs --- */

static void take_maximum(struct quant_memory *to, const struct quant_memory *from)
{
    to->prepared = max64(to->prepared, from->prepared);
    to->preparing = max64(to->preparing, from->preparing);
    to->running = max64(to->running, from->running);
    to->linears = max64(to->linears, from->linears);
}

bool memory_distributes(int64_t from, int64_t ranks, int64_t cols)
{
    return ranks > 1 && from > 0 && cols >= from;
}

int64_t memory_distributed_from(const struct run_options *o)
{
    return o->reproducible ? 0 : o->scalapack_from;
}

static bool is_distributed(const struct memory_need *need, int stage)
{
    return memory_distributes(need->scalapack_from, need->ranks, need->sizes.cols[stage]);
}

void memory_need_options(struct memory_need *need, const struct run_options *o)
{
    need->type = o->activations == ACTIVATIONS_BF16 ? DTYPE_BF16 : DTYPE_F32;
    need->products = products_resolve((enum products)o->products);
    need->scalapack_from = memory_distributed_from(o);
}

static int64_t longest_of(const struct memory_need *need)
{
    return max64(need->evaluation.longest, need->calibration.longest);
}

int64_t memory_of_rotation(const struct memory_need *need, const struct method_entry *m,
                           int64_t *threads)
{
    const unsigned places = method_entry_places(m);
    if (!places) return 0;
    int64_t bytes = model_rotated_bytes(&need->sizes, *threads, places);
    if (m->rotation_steps > 0)
        bytes += rotation_learn_bytes(&need->sizes, m->rotation_sequences,
                                      need->calibration.longest, need->threads);
    *threads = 0;
    return bytes;
}

void memory_need_add(struct memory_need *need, const struct quant_method *method,
                     const struct quant_options *options)
{
    const struct quant_needs n = quant_needs_of(method, options);
    int64_t *kind = n.shared       ? &need->shared
                    : n.sequential ? &need->own
                    : n.own        ? &need->own_at_once
                                   : &need->plain;
    ++*kind;
    quant_needs_add(&need->needs, &n);
    for (int stage = 0; stage < STAGE_N && method->memory; stage++) {
        struct quant_memory m = {0};
        const struct quant_extent extent = {.cols = need->sizes.cols[stage],
                                            .rows = need->sizes.rows[stage],
                                            .all_rows = need->sizes.all_rows[stage],
                                            .longest = longest_of(need),
                                            .threads = need->threads,
                                            .ranks = max64(need->ranks, 1),
                                            .distributed =
                                                n.distributed && is_distributed(need, stage)};
        method->memory(options, &extent, &m);
        if (stage == STAGE_UP && quant_moves_rows(options)) /* a copy in that order */
            m.running += extent.rows * extent.cols * FLOAT;
        take_maximum(&need->stage[stage], &m);
    }
}

/* Variants [first, first + n) of need, by kind. */
struct batch {
    int64_t n, shared, own, own_at_once;
};

static int64_t overlap(int64_t first, int64_t n, int64_t *start, int64_t count)
{
    int64_t from = max64(first, *start), to = min64(first + n, *start + count);
    *start += count;
    return max64(to - from, 0);
}

static struct batch batch_of(const struct memory_need *need, int64_t first, int64_t n)
{
    struct batch b = {.n = n};
    int64_t start = 0;
    b.shared = overlap(first, n, &start, need->shared);
    b.own = overlap(first, n, &start, need->own);
    b.own_at_once = overlap(first, n, &start, need->own_at_once);
    return b;
}

static int64_t variants(const struct memory_need *need)
{
    return need->shared + need->own + need->own_at_once + need->plain;
}

/* --- predicted memory --- */

static int64_t state_bytes(const struct memory_need *need, const struct memory_sequences *s,
                           int64_t streams)
{
    return streams * s->tokens * need->sizes.shape.hidden * (int64_t)dtype_size(need->type);
}

static int64_t states_of(const struct memory_need *need, const struct batch *b)
{
    const bool full = b->shared > 0 || need->needs.pairs || need->needs.scores;
    int64_t calibrating = b->own + b->own_at_once + full;
    return state_bytes(need, &need->evaluation, 1 + b->n) +
           state_bytes(need, &need->calibration, calibrating);
}

static int64_t retained_per_token(const struct memory_need *need)
{
    const struct model_sizes *s = &need->sizes;
    bool branch = s->parallel || need->needs.trials;
    return (s->in_width + (branch ? s->shape.hidden : 0)) * FLOAT;
}

/* Bytes of a statistic of a stage; *summing: bytes used while it is summed, before prepare. */
static int64_t sums_of(const struct memory_need *need, int stage, int statistic, int64_t *summing)
{
    const struct statistic *s = statistic_at(statistic);
    int64_t n = need->sizes.cols[stage], bytes = 0, beside = 0;
    bool large = s->add_distributed && is_distributed(need, stage);
    if (!((need->needs.statistics | need->needs.scores) & WANTS(statistic))) return 0;
    if (large && need->needs.distributed) {
        bytes += s->distributed(n, need->ranks);
        beside = s->adding_distributed(n);
    }
    if (!large || need->needs.whole) {
        bytes += s->count(n) * DOUBLE;
        beside = max64(beside, statistic_reduce_bytes(s, need->ranks));
    }
    *summing = max64(
        *summing,
        (s->adding ? s->adding(n, need->threads, products_of_calibration(need->products)) : 0) +
            beside);
    return bytes;
}

static int64_t statistics_of(const struct memory_need *need, const struct batch *b,
                             int64_t *summing)
{
    int64_t bytes = 0;
    *summing = 0;
    if (!b->shared && !b->own && !b->own_at_once && !need->needs.scores) return 0;
    for (int k = 0; k < STATISTIC_N; k++) {
        int64_t all = 0, largest = 0;
        for (int stage = 0; stage < STAGE_N; stage++) {
            const int64_t own = sums_of(need, stage, k, summing);
            all += own;
            largest = max64(largest, own);
        }
        bytes += b->shared || b->own_at_once || statistic_at(k)->of_full ? all : largest;
    }
    return bytes;
}

static int64_t quantizer_of(const struct memory_need *need, const struct batch *b)
{
    int64_t one = 0, together = 0, before = 0, linears = 0;
    for (int stage = 0; stage < STAGE_N; stage++) {
        const struct quant_memory *m = &need->stage[stage];
        int64_t passing = max64(m->preparing, m->running);
        one = max64(one, m->prepared + passing);
        together = max64(together, before + m->prepared + passing);
        before += m->prepared;
        linears += m->linears;
    }
    return linears + ((b->shared || (need->ranks > 1 && b->own_at_once)) ? together : one);
}

/* Tokens of the longest range. */
static int64_t range_of(const struct memory_need *need, const struct memory_plan *p)
{
    int64_t tokens = max64(need->evaluation.tokens, need->calibration.tokens);
    return min64(tokens, p->range_tokens);
}

/* Bytes of so many weights prepared for products of a kind; those in f32 are if the plan says so.
 */
static int64_t prepared_of(const struct memory_plan *p, enum products kind, int64_t weights)
{
    return kind == PRODUCTS_F32 && !p->prepared ? 0 : product_weights_bytes(kind, weights);
}

static int64_t head_of(const struct memory_need *need, const struct memory_plan *p,
                       const struct batch *b)
{
    const int64_t output = need->sizes.shape.vocab * need->sizes.shape.hidden;
    bool in_place = !p->place.scratch && need->type == DTYPE_F32;
    int64_t rows = in_place ? 0 : (1 + b->n) * range_of(need, p);
    return head_bytes(&need->sizes.shape, need->threads, b->n, need->products) +
           prepared_of(p, need->products, output) + rows * need->sizes.shape.hidden * FLOAT;
}

/* Fills the parts of p from its choices, for the batch. */
static void predict_batch(const struct memory_need *need, const struct batch *b,
                          struct memory_plan *p)
{
    const struct model_sizes *s = &need->sizes;
    const enum products blocks = products_of_calibration(need->products);
    int64_t *part = p->part, range = range_of(need, p);
    int64_t states = states_of(need, b), final = state_bytes(need, &need->evaluation, 1 + b->n);
    part[MEMORY_BASE] = need->base;
    int64_t quantized = b->n ? s->linears : 0;
    if (need->needs.unrounded && (b->own || b->own_at_once)) quantized += s->linears;
    int64_t trials = need->needs.trials ? s->linears : 0;
    int64_t prepared = prepared_of(p, blocks, s->linears + quantized + trials);
    if (need->coded) prepared += quantized * 3 / 2; /* codes; scales and sums of groups of 32 */
    int64_t shared = ((1 + p->ahead) * s->block + quantized) * FLOAT + prepared;
    int64_t per_rank = shared / max64(need->node_ranks, 1);
    /* While Hessians are in memory, the weights that only forward passes read are not resident:
     * only the quantized blocks and what this rank reads ahead. */
    int64_t resident = shared;
    if (need->node_ranks > 1 && (b->own || b->own_at_once || b->shared))
        resident = (quantized + p->ahead * s->block / need->node_ranks) * FLOAT + prepared;
    p->shared = resident - per_rank;
    part[MEMORY_WEIGHTS] = s->outside * FLOAT + per_rank + READ_BUFFER;
    part[MEMORY_STATES] = p->place.scratch ? 0 : states;
    part[MEMORY_WORK] = model_sizes_acts(s, range, need->threads) + range * s->shape.hidden * FLOAT;
    part[MEMORY_WORK] += range * s->in_width * products_terms(blocks) * HALF;
    if (need->coded) part[MEMORY_WORK] += range * (s->in_width + 2 * FLOAT);
    if (need->needs.pairs) part[MEMORY_WORK] += range * s->in_width * FLOAT;
    if (need->needs.trials) part[MEMORY_WORK] += range * (s->in_width + s->shape.hidden) * FLOAT;
    if (b->own || (b->n && need->needs.trials))
        part[MEMORY_RETAINED] =
            min64(p->retained_tokens, need->calibration.tokens) * retained_per_token(need);
    int64_t summing;
    part[MEMORY_HESSIANS] = statistics_of(need, b, &summing);
    part[MEMORY_QUANTIZER] = b->n ? max64(quantizer_of(need, b), summing) : 0;
    p->blocks = 0;
    for (int i = 0; i < MEMORY_PART_N; i++) p->blocks += part[i];
    p->head =
        need->base + s->outside * FLOAT + (p->place.scratch ? 0 : final) + head_of(need, p, b);
    p->peak = max64(p->blocks, p->head);
    p->scratch = p->place.scratch ? states : 0;
    p->saved = states;
}

/* Fills the parts of p from its choices, for the wave with the highest peak. */
static void predict(const struct memory_need *need, struct memory_plan *p)
{
    struct memory_plan one = *p;
    int64_t n = variants(need), scratch = 0, head = 0, saved = 0;
    p->peak = -1;
    for (int64_t first = 0; first == 0 || first < n; first += max64(p->wave, 1)) {
        struct batch b = batch_of(need, first, min64(n - first, p->wave));
        predict_batch(need, &b, &one);
        scratch = max64(scratch, one.scratch);
        head = max64(head, one.head);
        saved = max64(saved, one.saved);
        if (one.peak > p->peak) *p = one;
    }
    p->scratch = scratch;
    p->head = head;
    p->saved = saved;
}

/* --- the choice --- */

static bool fits(const struct memory_limits *l, const struct memory_plan *p)
{
    return (l->memory == 0 || p->peak <= l->memory) &&
           (!p->place.scratch || p->scratch <= l->scratch);
}

static enum status too_little(const struct memory_need *need, const struct memory_limits *l,
                              const struct memory_plan *least_plan, struct err *e)
{
    const double mib = 1 << 20;
    RAISE(
        ERR_NOMEM,
        "memory_per_rank of %.0f MiB is too little for this checkpoint and these texts: with one "
        "variant at a time%s it takes %.0f MiB (weights %.0f, states %.0f, work on sequences of up "
        "to %lld tokens %.0f, Hessians and factors %.0f, head %.0f); give a rank more memory%s, "
        "or a visit more ranks (run.ranks_per_group)",
        (double)memory_bound(l->memory) / mib,
        least_plan->place.scratch ? " and its states on scratch" : "",
        (double)memory_bound(least_plan->peak) / mib,
        (double)least_plan->part[MEMORY_WEIGHTS] / mib,
        (double)least_plan->part[MEMORY_STATES] / mib, (long long)longest_of(need),
        (double)least_plan->part[MEMORY_WORK] / mib,
        (double)(least_plan->part[MEMORY_HESSIANS] + least_plan->part[MEMORY_QUANTIZER]) / mib,
        (double)(least_plan->head) / mib,
        least_plan->place.scratch ? "" : ", name a scratch folder with enough space");
}

/* Tokens of this rank from which on preparing weights for products in f32, which takes as long as
 * products of about 20 to 60 tokens, is well below the twentieth that they gain. */
enum { PREPARED_FROM = 2048 };

enum status memory_plan_make(const struct memory_need *need, const struct memory_limits *limits,
                             struct memory_plan *out, struct err *e)
{
    /* Whether weights are to be prepared for products in f32. */
    const bool prepares = need->products == PRODUCTS_F32 && products_prepare(PRODUCTS_F32) &&
                          need->evaluation.tokens + need->calibration.tokens >= PREPARED_FROM;
    int64_t n = variants(need), longest = longest_of(need);
    /* Whole sequences, if possible enough of them to occupy every thread. */
    const int64_t ranges[] = {max64(longest, need->threads * 4 * TOKEN_TILE), longest};
    struct memory_plan p, smallest = {.peak = INT64_MAX};
    for (int64_t waves = 1; waves <= max64(n, 1); waves++) {
        int64_t wave = (n + waves - 1) / waves;
        if (waves > 1 && (n + wave - 1) / wave < waves) continue; /* the same as with fewer waves */
        for (int scratch = 0; scratch <= (limits->folder != NULL); scratch++)
            for (int k = prepares ? 0 : 1; k < 8; k += prepares ? 1 : 2) {
                p = (struct memory_plan){
                    .range_tokens = ranges[k / 4],
                    .ahead = k / 2 % 2 == 0,
                    .prepared = k % 2 == 0,
                    .waves = waves,
                    .wave = wave,
                    .place = {.scratch = scratch ? limits->folder : NULL, .type = need->type}};
                predict(need, &p);
                if (p.peak < smallest.peak && p.scratch <= limits->scratch) smallest = p;
                if (!fits(limits, &p)) continue;
                /* Retains activations of as many calibration tokens as fit. */
                int64_t available = limits->memory ? limits->memory - p.blocks : INT64_MAX;
                int64_t tokens = available / retained_per_token(need);
                p.retained_tokens = min64(max64(tokens, 0), need->calibration.tokens);
                predict(need, &p);
                if (p.prepared && p.retained_tokens != need->calibration.tokens) continue;
                *out = p;
                return OK;
            }
    }
    return too_little(need, limits, &smallest, e);
}
