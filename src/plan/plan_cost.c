/* Costs of the visits of a plan. */
#include "engine/inputs.h"
#include "engine/wanted.h"
#include "model/positions.h"
#include "plan/plan_internal.h"
#include "quant/quant.h"
#include "records/scores.h"
#include "util/fsx.h"
#include "util/mem.h"

void plan_costs_free(struct plan_costs *c)
{
    for (int64_t i = 0; i < c->n; i++) {
        free(c->models[i].config_file);
        json_decref(c->models[i].config);
    }
    free(c->models);
    free(c->texts);
    free(c->heldout);
    *c = (struct plan_costs){0};
}

/* --- shapes --- */

/* What config.json in the folder says of the model: its positions, and the shape if the family is
 * known. */
static void read_config(struct plan *p, int64_t model, const char *folder)
{
    AUTO_FREE char *file = NULL;
    json_auto_t *config = NULL;
    struct plan_model *m = &p->costs.models[model];
    int64_t *positions = &p->lengths[model].positions;
    if (m->known || checkpoint_read_config(folder, &config, &file, NULL) != OK) return;
    if (*positions <= 0) *positions = positions_usable(config);
    m->known = model_sizes_read(config, file, &m->sizes, NULL) == OK;
    if (!m->known) return;
    const char *type = json_text(config, "torch_dtype", json_text(config, "dtype", ""));
    m->bytes_per_weight = strcmp(type, "float32") == 0 ? 4 : 2;
    m->config = json_incref(config);
    m->config_file = TAKE(file);
}

enum status plan_shapes_find(struct plan *p, struct err *e)
{
    const char *last = "";
    PASS(mem_zero(&p->costs.models, p->sweep->n_models, sizeof *p->costs.models, "models", e));
    p->costs.n = p->sweep->n_models;
    for (int64_t i = 0; i < p->costs.n; i++) {
        AUTO_FREE char *kept = NULL;
        PASS(plan_stage_shape(p->sweep, i, &kept, e));
        if (kept) read_config(p, i, kept);
    }
    for (int64_t i = 0; i < p->n_checkpoints; i++) {
        const struct plan_checkpoint *at = &p->checkpoints[i];
        const char *folder = weights_folder(&at->weights);
        AUTO_FREE char *above = NULL;
        if (p->costs.models[at->model].known || strcmp(folder, last) == 0) continue;
        read_config(p, at->model, folder);
        if (fsx_parent(folder, &above, NULL) == OK) read_config(p, at->model, above);
        if (!p->costs.models[at->model].known) last = folder; /* it is not tried again */
    }
    return OK;
}

/* --- tokens --- */

/* Longer texts are not read for a plan: tokenizing them would take many seconds. */
static const double bytes_counted_max = 4e6;

/* *out (shallow; the caller frees *kept) = a visit of the first checkpoint that has a tokenizer and
 * a shape; of a model that is staged, not of what happens to be on disk. False: none is there. */
static bool find_reader(const struct plan *p, struct visit *out, char **kept)
{
    for (int64_t i = 0; i < p->n_checkpoints; i++) {
        const struct plan_checkpoint *c = &p->checkpoints[i];
        *kept = NULL;
        if (plan_stage_shape(p->sweep, c->model, kept, NULL) != OK) return false;
        const struct weights shape = {.path = *kept};
        *out = (struct visit){.weights = *kept ? shape : c->weights, /* shallow */
                              .tokenizer = p->sweep->models[c->model].tokenizer};
        if (weights_present(&out->weights)) return true;
        free(*kept);
    }
    *kept = NULL;
    return false;
}

/* As cost_tokens_of, but counts instead of estimating if the text is short enough and some
 * checkpoint with a tokenizer exists; the first one's tokenizer is used. */
static struct cost_tokens tokens_counted(const struct plan *p, struct visit_cache *cache,
                                         const struct data_options *options)
{
    const struct data_options resolved = plan_data(p, 0, options), *d = &resolved;
    struct cost_tokens t = cost_tokens_of(d);
    const struct sequences *found;
    struct visit v;
    AUTO_FREE char *kept = NULL;
    if (!t.guessed || t.tokens > bytes_counted_max || (d->draw && !plan_text_is_short(d))) return t;
    if (!find_reader(p, &v, &kept)) return t;
    /* Errors in the text or the tokenizer are reported by the visit. */
    if (visit_sequences_get(cache, &v, d, &found, NULL) == OK) t = cost_tokens_count(found);
    return t;
}

static enum status count_tokens(const struct plan *p, struct plan_costs *c, struct err *e)
{
    const struct sweep *s = p->sweep;
    CLEANUP(visit_cache_free) struct visit_cache cache = {0};
    c->calibration = tokens_counted(p, &cache, &s->calibration);
    PASS(mem_zero(&c->texts, s->n_evaluations, sizeof *c->texts, "texts", e));
    for (int64_t i = 0; i < s->n_evaluations; i++) {
        c->texts[i] = tokens_counted(p, &cache, &s->evaluations[i]);
        cost_tokens_add(&c->evaluation_texts, &c->texts[i]);
    }
    cost_tokens_add(&c->evaluation, &c->evaluation_texts);
    PASS(mem_zero(&c->heldout, p->n_checkpoints, sizeof *c->heldout, "texts", e));
    for (int64_t i = 0; i < p->n_checkpoints; i++)
        if (p->checkpoints[i].weights.kind == WEIGHTS_GREEDY)
            c->heldout[i] = tokens_counted(p, &cache, &p->checkpoints[i].weights.heldout);
    for (int k = 0; k < MEASURES_N; k++) {
        if (measures[k]->text) {
            const struct data_options text = measures[k]->text(p, 0);
            c->own[k] = tokens_counted(p, &cache, &text);
        }
        if (!measures[k]->tokens) continue;
        struct visit v;
        char *kept = NULL;
        const bool found = find_reader(p, &v, &kept);
        c->own[k] = measures[k]->tokens(p, found ? &v : NULL, &cache);
        cost_tokens_add(&c->evaluation, &c->own[k]);
        free(kept);
    }
    return OK;
}

/* --- costs --- */

bool plan_asks(const struct plan *p, int k)
{
    bool any = p->setup[k];
    for (int64_t i = 0; i < p->n_records; i++) any = any || p->records[i].of_cell == k;
    return any;
}

/* Whether its work is that of the visit's cells. */
static bool with_cells(int k)
{
    return measures[k]->of_cells || measures[k]->cell_key;
}

void plan_cost_model(const struct plan *p, const struct plan_costs *c, struct plan_model *m)
{
    m->shared = cost_shared(&m->sizes, &c->evaluation, m->bytes_per_weight);
    m->statistics =
        cost_shared_statistics(&m->sizes, p->sweep->methods, p->sweep->n_methods, &c->calibration);
    for (int k = 0; k < MEASURES_N; k++) {
        if (!plan_asks(p, k) || !measures[k]->cost) continue;
        m->once[k] = m->cell[k] = (struct cost){0};
        measures[k]->cost(p->setup[k], &m->sizes, &c->own[k], m->kept[k], &m->once[k], &m->cell[k]);
    }
}

/* What is done for a variant; parts add nothing to a replicate. */
enum work { WORK_CELL, WORK_COMPLETION, WORK_REPLICATE };

/* The cost of that for variant i of the plan, with the tokens of c. */
static struct cost variant_cost(const struct plan *p, const struct plan_costs *c,
                                const struct plan_model *m, int64_t i, enum work work)
{
    const struct cost_tokens none = {0}, *scored = work == WORK_COMPLETION ? &none : &c->evaluation;
    if (!m->known) return m->shared;
    struct cost sum = cost_variant(&m->sizes, p->variants[i].method, scored, &c->calibration);
    for (int k = 0; work != WORK_REPLICATE && k < MEASURES_N; k++) cost_add(&sum, &m->cell[k], 1);
    return sum;
}

enum status plan_costs_make(struct plan *p, struct err *e)
{
    struct plan_costs *c = &p->costs;
    c->rates = cost_rates_given(100);
    PASS(count_tokens(p, c, e));
    for (struct plan_model *m = c->models; m < c->models + c->n; m++)
        if (m->known)
            plan_cost_model(p, c, m);
        else /* everything costs one second */
            m->shared.flop[COST_FORWARD] = 1e11;
    return OK;
}

static bool shares_statistics(const struct plan_variant *v)
{
    const struct quant_method *q = quant_find(v->method->method);
    if (!q) return false;
    const struct quant_needs needs = quant_needs_of(q, &v->method->options);
    return needs.shared || needs.scores;
}

/* Work that every batch of such a visit repeats. */
static struct cost shared_cost(const struct plan *p, const struct plan_model *m,
                               const int64_t *variants, int64_t n)
{
    struct cost c = m->shared;
    for (int64_t i = 0; i < n; i++)
        if (shares_statistics(&p->variants[variants[i]])) {
            cost_add(&c, &m->statistics, 1);
            break;
        }
    for (int k = 0; n > 0 && k < MEASURES_N; k++)
        if (with_cells(k)) cost_add(&c, &m->once[k], 1);
    return c;
}

/* out (MEASURES_N) = seconds of work that is the cells' but for what completes them, which has a
 * phase of its own. */
static void split_seconds(const struct plan *p, const struct cost *c, double *out)
{
    double phase[COST_PHASE_N];
    out[MEASURE_cell] = cost_seconds(c, &p->costs.rates, phase);
    for (int k = 0; k < MEASURES_N; k++) {
        if (!measures[k]->of_cells) continue;
        out[k] = phase[measures[k]->phase];
        out[MEASURE_cell] -= out[k];
    }
}

/* What the replicates of one number cost besides their streams: the blocks are read again, and
 * shared statistics are summed again if one of the streams uses them. */
static struct cost repeated_cost(const struct plan_model *m, bool read, bool summed)
{
    struct cost c = {0};
    if (summed) cost_add(&c, &m->statistics, 1);
    if (read) c.bytes += m->shared.bytes;
    return c;
}

/* What variant i of the visit adds. Of the streams of a replicate, the first that reads or sums
 * pays for it. */
static struct cost batch_cost(const struct plan *p, const struct plan_costs *costs,
                              const struct plan_model *m, const struct plan_visit *v,
                              const int64_t *variants, int64_t i)
{
    const struct variant *all = v->visit.variants;
    bool read = false, summed = false;
    const bool runs = !all[i].scored || wanted_count(all[i].records, measure_cell.name, NULL);
    if (all[i].replicate == 0)
        return variant_cost(p, costs, m, variants[i], runs ? WORK_CELL : WORK_COMPLETION);
    for (int64_t j = 0; j < i; j++) {
        if (all[j].replicate != all[i].replicate) continue;
        read = true;
        summed = summed || shares_statistics(&p->variants[variants[j]]);
    }
    const bool sums = !summed && shares_statistics(&p->variants[variants[i]]);
    struct cost c = repeated_cost(m, !read, sums);
    const struct cost own = variant_cost(p, costs, m, variants[i], WORK_REPLICATE);
    c.bytes *= (double)weights_reads(&v->visit.weights);
    cost_add(&c, &own, 1);
    return c;
}

enum status plan_visit_price_own(const struct plan *p, int k, const struct cost *c,
                                 struct plan_visit *v, struct err *e)
{
    PASS(mem_zero(&v->seconds, MEASURES_N, sizeof *v->seconds, "visits", e));
    v->cost = v->seconds[k] = cost_seconds(c, &p->costs.rates, NULL);
    return OK;
}

static enum status price(const struct plan *p, const struct plan_costs *costs,
                         const struct plan_model *m, const int64_t *variants, struct plan_visit *v,
                         struct err *e)
{
    const struct visit *visit = &v->visit;
    struct cost shared = shared_cost(p, m, variants, visit->n_variants);
    const struct cost choice = plan_choice_cost(p, visit);
    shared.bytes *= (double)weights_reads(&visit->weights);
    cost_add(&shared, &choice, 1);
    v->n_batches = visit_batches(visit);
    PASS(mem_zero(&v->batches, v->n_batches, sizeof *v->batches, "visits", e));
    PASS(mem_zero(&v->seconds, (1 + v->n_batches) * MEASURES_N, sizeof *v->seconds, "visits", e));
    double *row = v->seconds;
    /* What is asked for without cells runs the blocks itself. */
    if (visit->n_variants > 0 || !visit->cells_only || visit->records || visit_observes(visit))
        split_seconds(p, &shared, row);
    for (int i = 0; i < MEASURES_N; i++) v->cost += row[i];
    row += 2 * MEASURES_N; /* the checkpoint's own batch costs nothing more */
    for (int64_t i = 0; i < visit->n_variants; i++, row += MEASURES_N) {
        const struct cost c = batch_cost(p, costs, m, v, variants, i);
        split_seconds(p, &c, row);
    }
    for (int k = 0; k < MEASURES_N; k++) {
        if (!visit_has_batch(visit, k)) continue;
        const struct cost once = plan_reuse_cost(p, m, visit, k);
        row[k] = cost_seconds(&once, &p->costs.rates, NULL);
        row += MEASURES_N;
    }
    for (int64_t i = 0; i < v->n_batches; i++)
        for (int k = 0; k < MEASURES_N; k++) v->batches[i] += v->seconds[(1 + i) * MEASURES_N + k];
    return OK;
}

enum status plan_visit_price(const struct plan *p, const int64_t *variants, struct plan_visit *v,
                             struct err *e)
{
    const struct plan_model *all = &p->costs.models[v->model];
    struct plan_model some = *all; /* shallow */
    if (!all->known || v->visit.n_evaluations == p->sweep->n_evaluations)
        return price(p, &p->costs, all, variants, v, e);
    const struct plan_costs costs = plan_texts_costs(p, v->model, &v->visit);
    plan_cost_model(p, &costs, &some);
    return price(p, &costs, &some, variants, v, e);
}

/* The share of the model's checkpoints that the measure has a record of. */
static double share_measured(const struct plan *p, int64_t model, int k)
{
    double n = 0, measured = 0;
    for (int64_t i = 0; i < p->n_checkpoints; i++) {
        if (p->checkpoints[i].model != model) continue;
        measured += p->checkpoints[i].keys[k][0] != '\0';
        n++;
    }
    return n > 0 ? measured / n : 1;
}

/* Adds the replicates of all numbers. */
static void add_replicates(const struct plan *p, const struct plan_model *m,
                           const int64_t *variants, int64_t n, struct cost *c)
{
    bool read = true;
    for (int64_t number = 1; read; number++) {
        bool summed = false;
        read = false;
        for (int64_t i = 0; i < n; i++) {
            const struct plan_variant *v = &p->variants[variants[i]];
            if (number >= v->replicates) continue;
            const struct cost own = variant_cost(p, &p->costs, m, variants[i], WORK_REPLICATE);
            cost_add(c, &own, 1);
            read = true;
            summed = summed || shares_statistics(v);
        }
        const struct cost again = repeated_cost(m, read, summed);
        cost_add(c, &again, 1);
    }
}

struct cost plan_visit_cost(const struct plan *p, int64_t model, const int64_t *variants, int64_t n)
{
    const struct plan_model *m = &p->costs.models[model];
    struct cost c = shared_cost(p, m, variants, n);
    for (int64_t i = 0; i < n; i++) {
        const struct cost own = variant_cost(p, &p->costs, m, variants[i], WORK_CELL);
        cost_add(&c, &own, 1);
    }
    add_replicates(p, m, variants, n, &c);
    for (int k = 0; k < MEASURES_N; k++)
        if (!with_cells(k)) cost_add(&c, &m->once[k], share_measured(p, model, k));
    /* Folders that a visit of the model reads, on average over its checkpoints. */
    double visits = 0, reads = 0;
    for (int64_t i = 0; i < p->n_checkpoints; i++) {
        if (p->checkpoints[i].model != model) continue;
        reads += (double)weights_reads(&p->checkpoints[i].weights);
        visits++;
    }
    c.bytes *= visits > 0 ? reads / visits : 1;
    const struct cost choice = plan_mean_choice_cost(p, model);
    cost_add(&c, &choice, 1);
    return c;
}

/* --- corrections --- */

static bool finished(const json_t *record)
{
    return record && strcmp(json_text(record, "status", ""), "done") == 0;
}

static const char (*texts_of(const struct plan *p, const struct plan_checkpoint *c))[HASH_HEX]
{
    return (const char(*)[HASH_HEX])p->lengths[c->model].texts;
}

void plan_costs_learn(struct plan *p, const struct results_view *view)
{
    struct cost_measured sums = {0};
    struct plan_costs *c = &p->costs;
    const int64_t n = p->sweep->n_evaluations;
    for (int64_t i = 0; view && i < p->n_checkpoints; i++) {
        const struct plan_checkpoint *at = &p->checkpoints[i];
        const struct plan_model *m = &c->models[at->model];
        const json_t *record = m->known ? results_view_find(view, at->key) : NULL;
        if (finished(record) && scores_are(record, texts_of(p, at), n)) {
            /* The head's seconds in this record are those of all streams, which the cells share. */
            struct cost own = m->shared;
            own.flop[COST_HEAD] = 0;
            cost_learn(&sums, &own, &c->rates, record);
            c->learned++;
        }
        for (int k = 0; m->known && k < MEASURES_N; k++) {
            record = measures[k]->phase && !measures[k]->of_cells && at->keys[k][0]
                         ? results_view_find(view, at->keys[k])
                         : NULL;
            const json_t *from = json_object_get(record, "provenance");
            if (!finished(record) || json_object_get(from, "parts")) continue;
            cost_learn_phase(&sums, (enum cost_phase)measures[k]->phase, &m->once[k], &c->rates,
                             json_object_get(json_object_get(record, "values"), "seconds"));
            c->learned++;
        }
        for (int64_t j = 0; m->known && j < p->n_variants; j++) {
            char key[HASH_HEX];
            if (!p->variants[j].applicable) continue;
            plan_cell_key(p, at, j, key);
            record = results_view_find(view, key);
            if (!finished(record) || !scores_are(record, texts_of(p, at), n)) continue;
            const struct cost own = variant_cost(p, c, m, j, WORK_CELL);
            cost_learn(&sums, &own, &c->rates, record);
            c->learned++;
        }
    }
    cost_correct(&sums, &c->rates);
}
