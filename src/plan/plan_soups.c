/* Greedy soups of a plan: the text that chooses their members, and what the choice costs. */
#include "engine/inputs.h"
#include "engine/weights_greedy.h"
#include "plan/plan_internal.h"
#include "quant/quant.h"
#include "util/mem.h"

/* --- the text --- */

enum status plan_find_heldout(struct plan *p, struct plan_checkpoint *c, struct err *e)
{
    char hash[HASH_HEX];
    json_auto_t *identity = NULL;
    const struct model_entry *m = &p->sweep->models[c->model];
    if (c->weights.kind != WEIGHTS_GREEDY) return OK;
    const struct average_entry *a = &m->averages[m->rows[c->row].average - 1];
    const struct data_options d = plan_data(p, c->model, &a->greedy.text);
    PASS(options_copy(&data_heldout_table, &d, &c->weights.heldout, e));
    PASS(plan_data_identity(p, c->model, &d, &identity, e));
    PASS(plan_digest(json_incref(identity), hash, e));
    PASS(mem_string(&c->weights.identity, hash, e));
    /* Who judges, on what it calibrates, and what the keys say of it. */
    char key[HASH_HEX];
    json_auto_t *calibration = NULL;
    struct variant *judge = &c->weights.variant;
    judge->bits = a->greedy.bits;
    PASS(average_judge(p->sweep, a, &judge->method, e));
    if (!judge->method.method) return OK;
    if (quant_calibrates(quant_find(judge->method.method), &judge->method.options)) {
        const struct data_options judged = plan_data(p, c->model, &p->sweep->calibration);
        PASS(plan_calibration_identity(p, c->model, &calibration, e));
        NEED(calibration, ERR_USAGE,
             "calibration: missing; %s needs calibration text, by which average %s is judged",
             judge->method.name, a->name);
        PASS(options_copy(&data_table, &judged, &c->weights.calibration, e));
    }
    PASS(plan_variant_key(p, &judge->method, judge->bits, calibration, key, e));
    return mem_append(&c->weights.identity, e, "; judge %s %lld %s", judge->method.name,
                      (long long)judge->bits, key);
}

static enum status check_heldout(const struct plan *p, const struct plan_checkpoint *c,
                                 struct visit_cache *cache, struct plan_faults *f, struct err *e)
{
    const struct model_entry *m = &p->sweep->models[c->model];
    struct err why = {0};
    struct visit v;
    AUTO_FREE struct data_options *evaluations = NULL;
    PASS(plan_texts_of(p, c->model, &v, &evaluations, e));
    v.weights = c->weights; /* shallow */
    v.checkpoint = m->rows[c->row].checkpoint;
    v.calibration = (struct data_options){0};
    if (!plan_text_is_short(&c->weights.heldout) || !plan_texts_are_short(&v)) return OK;
    const struct sequences *read;
    if (!c->recalled && plan_text_is_judged(p, &c->weights.heldout) &&
        visit_sequences_get(cache, &v, &c->weights.heldout, &read, &why) != OK) {
        enum status st = OK; /* in a run, the visit says so */
        if (p->look_ahead)
            st = plan_faults_add_model(f, p, c->model, false, e, "its average %s will fail: %s",
                                       v.checkpoint, why.text);
        err_clear(&why);
        return st;
    }
    enum status st = weights_check_heldout(&c->weights, &v, cache, &why);
    NEED(st != ERR_USAGE, st, "%s: %s", m->name, why.text);
    err_clear(&why); /* what else is wrong, the visit says */
    return OK;
}

enum status plan_check_heldout(const struct plan *p, struct plan_faults *f, struct err *e)
{
    CLEANUP(visit_cache_free) struct visit_cache cache = {0};
    for (int64_t i = 0; i < p->n_checkpoints; i++)
        if (p->checkpoints[i].weights.kind == WEIGHTS_GREEDY)
            PASS(check_heldout(p, &p->checkpoints[i], &cache, f, e));
    return OK;
}

/* --- costs --- */

/* Choosing the members of greedy soup i of the plan, of n candidates: one evaluation of each, and
 * of up to n - 1 soups, the last of which has all members. */
static struct cost choice_cost(const struct plan *p, int64_t i, const struct weights *w)
{
    const struct plan_model *m = &p->costs.models[p->checkpoints[i].model];
    const double n = (double)w->n;
    struct cost c = {0};
    if (w->kind != WEIGHTS_GREEDY || w->chosen || !m->known) return c;
    const struct cost_tokens *text = &p->costs.heldout[i], *calibration = &p->costs.calibration;
    const struct method_entry *judge = &w->variant.method;
    struct cost once = cost_shared(&m->sizes, text, m->bytes_per_weight);
    if (judge->method) {
        const struct cost own = cost_variant(&m->sizes, judge, text, calibration),
                          shared = cost_shared_statistics(&m->sizes, judge, 1, calibration);
        cost_add(&once, &own, 1);
        cost_add(&once, &shared, 1);
    }
    cost_add(&c, &once, 2 * n - 1);
    c.bytes = once.bytes * (n + (n + 2) * (n - 1) / 2);
    return c;
}

struct cost plan_choice_cost(const struct plan *p, const struct visit *v)
{
    for (int64_t i = 0; v->weights.kind == WEIGHTS_GREEDY && i < p->n_checkpoints; i++)
        if (strcmp(p->checkpoints[i].key, v->key) == 0) return choice_cost(p, i, &v->weights);
    return (struct cost){0};
}

struct cost plan_mean_choice_cost(const struct plan *p, int64_t model)
{
    struct cost sum = {0}, mean = {0};
    int64_t n = 0;
    for (int64_t i = 0; i < p->n_checkpoints; i++) {
        if (p->checkpoints[i].model != model) continue;
        const struct cost c = choice_cost(p, i, &p->checkpoints[i].weights);
        cost_add(&sum, &c, 1);
        n++;
    }
    if (n > 0) cost_add(&mean, &sum, 1 / (double)n);
    return mean;
}
