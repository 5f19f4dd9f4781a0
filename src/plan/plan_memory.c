/* The memory that the visits of a plan need, and the ranks that have it. */
#include "plan/plan_internal.h"
#include "quant/quant.h"
#include "util/num.h"

/* The sequences of the rank of a group that has the largest share. */
static struct memory_sequences share_of(const struct cost_tokens *t, int64_t ranks)
{
    int64_t tokens = (int64_t)t->tokens, share = tokens / ranks + (ranks > 1 ? t->longest : 0);
    return (struct memory_sequences){(t->sequences + ranks - 1) / ranks,
                                     share < tokens ? share : tokens, t->longest};
}

/* The same for the sequences of a measure's text, which are distributed one by one. */
static struct memory_sequences own_share_of(const struct cost_tokens *t, int64_t ranks)
{
    int64_t n = (t->sequences + ranks - 1) / ranks, tokens = (int64_t)t->tokens;
    return (struct memory_sequences){n, n * t->longest < tokens ? n * t->longest : tokens,
                                     t->longest};
}

/* Memory that a visit uses before it plans: the checkpoint's headers, token ids and their bytes. */
enum { OPENED = 2 << 20, OPENED_TOKEN = 2 * sizeof(int32_t) };

/* The same of each further folder that an average reads, and its sums. */
enum { AVERAGED = 1 << 20 };

static int64_t base_of(const struct plan *p, int64_t model, const struct plan_rank *rank)
{
    int64_t most = 1, states = 0; /* folders that are read; what measures have of each variant */
    for (int64_t i = 0; i < p->n_checkpoints; i++)
        if (p->checkpoints[i].model == model)
            most = max64(most, weights_reads(&p->checkpoints[i].weights));
    for (int k = 0; k < MEASURES_N; k++)
        if (plan_asks(p, k)) states += (int64_t)measures[k]->state_of_variant;
    const int64_t more = (most - 1) * AVERAGED + states * plan_runs(p);
    if (rank->base <= 0) return memory_base(rank->threads) + more;
    double tokens = p->costs.evaluation.tokens + p->costs.calibration.tokens;
    return rank->base + OPENED + more + (int64_t)tokens * OPENED_TOKEN;
}

static enum status group_memory(const struct plan *p, int64_t model, const int64_t *variants,
                                int64_t n, const struct plan_rank *rank, struct memory_plan *out,
                                struct err *e)
{
    int64_t ranks = max64(rank->ranks, 1);
    struct memory_need need = {.sizes = p->costs.models[model].sizes,
                               .threads = rank->threads,
                               .ranks = ranks,
                               .node_ranks = min64(rank->mates, ranks),
                               .base = base_of(p, model, rank),
                               .evaluation = share_of(&p->costs.evaluation, ranks),
                               .calibration = share_of(&p->costs.calibration, ranks)};
    const struct memory_limits limits = {.memory = memory_usable(rank->memory),
                                         .scratch = INT64_MAX,
                                         .folder = rank->scratch ? "scratch" : NULL};
    memory_need_options(&need, &p->sweep->run);
    int64_t threads = need.threads;
    for (int64_t i = 0; i < n; i++) {
        const struct method_entry *m = p->variants[variants[i]].method;
        need.base += memory_of_rotation(&need, m, &threads);
        need.coded = need.coded || activation_coded(&m->grids.inputs);
        memory_need_add(&need, quant_find(m->method), &m->options);
    }
    for (int k = 0; k < MEASURES_N; k++)
        if (measures[k]->observe && plan_asks(p, k))
            need.base += measures[k]->observing(&need.sizes, &need.evaluation, need.threads);
    return memory_plan_make(&need, &limits, out, e);
}

/* What part i takes after the blocks of a visit with n variants: zero if it has nothing to do. */
static enum status fit_part(const struct plan *p, int i, int64_t model, int64_t n,
                            const struct plan_rank *rank, struct memory_fit *fit, struct err *e)
{
    const struct measure *part = measures[i];
    const int64_t base = base_of(p, model, rank), usable = memory_usable(rank->memory);
    const bool alone = part->in_fixed_order && p->sweep->run.reproducible;
    struct memory_after after = {.sizes = &p->costs.models[model].sizes,
                                 .threads = rank->threads,
                                 .products =
                                     products_resolve((enum products)p->sweep->run.products),
                                 .ranks = alone ? 1 : max64(rank->ranks, 1),
                                 .node_ranks = min64(rank->mates, max64(rank->ranks, 1)),
                                 .variants = n,
                                 .base = base,
                                 .bound = rank->memory,
                                 .spare = usable - base};
    *fit = (struct memory_fit){0};
    if (!plan_asks(p, i) || !part->memory || (part->of_cells && n == 0)) return OK;
    after.tokens = own_share_of(&p->costs.own[i], after.ranks);
    return part->memory(p->setup[i], &after, true, fit, e);
}

void plan_costs_fit(struct plan *p, int64_t model, const struct plan_rank *rank)
{
    struct plan_model *m = &p->costs.models[model];
    m->ranks = rank->ranks;
    m->memory = rank->memory;
    if (!m->known) return;
    for (int i = 0; i < MEASURES_N; i++) {
        struct memory_fit fit;
        /* The visit reports what does not fit. */
        m->kept[i] = fit_part(p, i, model, p->n_variants, rank, &fit, NULL) == OK && fit.kept;
    }
    plan_cost_model(p, &p->costs, m);
}

/* Adds the memory of the parts that run after the blocks, at their minimum, and what they save. */
static enum status add_after(const struct plan *p, int64_t model, int64_t n,
                             const struct plan_rank *rank, struct memory_plan *out, struct err *e)
{
    enum status st = OK;
    out->after = 0;
    for (int i = 0; i < MEASURES_N; i++) {
        struct memory_fit fit;
        struct err why = {0};
        enum status fits = fit_part(p, i, model, n, rank, &fit, &why);
        out->after = max64(out->after, fit.bytes);
        if (measures[i]->of_cells)
            out->saved += fit.saved;
        else
            out->saved = max64(out->saved, fit.saved);
        /* Other errors do not depend on memory; the visit reports them. */
        if (fits == ERR_NOMEM && st == OK)
            st = err_set(e, fits, __FILE__, __LINE__, "%s", why.text);
    }
    out->peak = max64(out->peak, out->after);
    return st;
}

enum status plan_visit_memory(const struct plan *p, int64_t model, const int64_t *variants,
                              int64_t n, const struct plan_rank *rank, struct memory_plan *out,
                              struct err *e)
{
    PASS(group_memory(p, model, variants, n, rank, out, e));
    return add_after(p, model, n, rank, out, e);
}

static bool ranks_suffice(const struct plan *p, int64_t model, const int64_t *variants, int64_t n,
                          const struct plan_rank *rank, bool after)
{
    struct memory_plan plan;
    struct err why = {0};
    return group_memory(p, model, variants, n, rank, &plan, &why) == OK &&
           (!after || add_after(p, model, n, rank, &plan, &why) == OK);
}

int64_t plan_model_ranks(const struct plan *p, int64_t model, const int64_t *variants, int64_t n,
                         const struct plan_rank *largest)
{
    struct plan_rank rank = *largest;
    if (!p->costs.models[model].known || largest->memory < 1) return 1;
    /* If no group has enough memory for curvature, only curvature fails; groups are chosen for the
     * cells. */
    bool after = ranks_suffice(p, model, variants, n, largest, true);
    /* 1, 2, 3, 4, 6, 8, 12, ...: a few more ranks than needed cost little. */
    for (int64_t r = 1; r < largest->ranks; r = r < 3 ? r + 1 : r % 3 ? r + r / 2 : r / 3 * 4) {
        rank.ranks = r;
        if (ranks_suffice(p, model, variants, n, &rank, after)) return r;
    }
    return largest->ranks;
}

bool plan_memory_raised(const struct plan *p, int64_t model, const json_t *record)
{
    const json_t *limit = json_object_get(json_object_get(record, "provenance"), "memory_limit");
    const struct plan_model *m = &p->costs.models[model];
    const int64_t then = json_integer_value(limit);
    return m->ranks > 0 && then > 0 && (m->memory == 0 || m->memory > then);
}
