/* Finds the missing cells and makes the visits that compute them. */
#include "engine/wanted.h"
#include "engine/weights_greedy.h"
#include "plan/plan_internal.h"
#include "records/saved.h"
#include "util/fsx.h"
#include "util/mem.h"

void plan_visits_free(struct plan_visits *v)
{
    for (int64_t i = 0; i < v->n; i++) {
        visit_free(&v->visits[i].visit);
        free(v->visits[i].name);
        free(v->visits[i].batches);
        free(v->visits[i].seconds);
        json_decref(v->visits[i].stage);
    }
    free(v->visits);
    json_decref(v->changed);
    *v = (struct plan_visits){0};
}

double plan_visit_seconds(const struct plan_visit *v)
{
    double sum = v->cost;
    for (int64_t i = 0; i < v->n_batches; i++) sum += v->batches[i];
    return sum;
}

json_t *plan_visit_json(const struct plan_visit *v)
{
    json_t *json = visit_to_json(&v->visit);
    if (json)
        json_object_set_new(json, "seconds",
                            json_numbers_new(v->seconds, (1 + v->n_batches) * MEASURES_N));
    if (json && v->stage) json_object_set(json, "stage", v->stage);
    return json;
}

bool plan_missing(const struct results_view *view, const char *key,
                  const struct plan_choice *choice)
{
    const json_t *record = view ? results_view_find(view, key) : NULL;
    const json_t *provenance = json_object_get(record, "provenance");
    const char *name;
    json_t *digest;
    if (!record || choice->redo) return true;
    /* Made from the weights of a changed checkpoint, among others. */
    json_object_foreach(json_object_get(provenance, "weights_read"), name, digest) {
        if (json_object_get(choice->changed, name)) return true;
    }
    return choice->retry_failed && strcmp(json_text(record, "status", ""), "failed") == 0;
}

bool plan_inputs_changed(const json_t *record, const char *field, const struct visit *v, int i)
{
    const char *stamp = json_text(json_object_get(record, "provenance"), field, "");
    char now[HASH_HEX];
    if (!stamp[0]) return false;
    visit_stamp(v, i, now);
    return strcmp(now, stamp) != 0;
}

/* Whether the weights differ from those of the record, or the special tokens, which belong to the
 * checkpoint and stand in no key. */
static bool weights_changed(const struct plan_checkpoint *c, const json_t *record)
{
    return plan_weights_changed(c, record, "weights_hash") || plan_special_changed(c, record);
}

enum status plan_states_folder(const struct plan *p, char **out, struct err *e)
{
    const char *name = strrchr(p->results, '/'), *base = p->sweep->run.checkpoints;
    AUTO_FREE char *folder = NULL;
    char *resolved, hash[HASH_HEX];
    *out = NULL;
    if (base && strcmp(base, "off") == 0) return OK;
    if (!base) return mem_format(out, e, "%s.checkpoints", p->results);
    /* Several sweeps may name one folder. */
    PASS(fsx_parent(p->results, &folder, e));
    resolved = realpath(folder, NULL);
    hash_text(resolved ? resolved : folder, hash);
    free(resolved);
    return mem_format(out, e, "%s/%s-%.8s", base, name ? name + 1 : p->results, hash);
}

enum status plan_visits_begun(const struct plan *p, struct plan_visits *v, struct err *e)
{
    AUTO_FREE char *folder = NULL;
    AUTO_FREE struct saved_found *found = NULL;
    int64_t n = 0;
    PASS(plan_states_folder(p, &folder, e));
    if (folder) PASS(saved_list(folder, &found, &n, e));
    for (int64_t i = 0; n > 0 && i < v->n; i++) {
        char owner[HASH_HEX];
        double longest = 0;
        hash_text(v->visits[i].visit.key, owner);
        for (int64_t k = 0; k < n; k++)
            if (strcmp(found[k].owner, owner) == 0 && found[k].seconds > longest)
                longest = found[k].seconds;
        v->visits[i].saved = longest;
    }
    return OK;
}

enum status plan_visit_begin(const struct plan *p, const struct plan_checkpoint *c, const char *key,
                             struct visit *v, struct err *e)
{
    const struct model_entry *m = &p->sweep->models[c->model];
    PASS(mem_string(&v->model, m->name, e));
    PASS(mem_string(&v->checkpoint, plan_name_of(p, c), e));
    PASS(mem_string(&v->known, plan_known_model(p, c->model), e));
    PASS(weights_copy(&c->weights, &v->weights, e));
    if (m->tokenizer) PASS(mem_string(&v->tokenizer, m->tokenizer, e));
    PASS(plan_visit_inputs(p, c, v, e));
    PASS(mem_string(&v->key, key, e));
    return options_copy(&run_table, &p->sweep->run, &v->run, e);
}

static enum status fill_visit(const struct plan *p, const struct plan_checkpoint *c,
                              struct visit *v, struct err *e)
{
    const struct sweep *s = p->sweep;
    PASS(plan_visit_begin(p, c, c->key, v, e));
    free(v->run.checkpoints);
    PASS(plan_states_folder(p, &v->run.checkpoints, e));
    v->seed = s->seed;
    const struct data_options calibration = plan_data(p, c->model, &s->calibration);
    if (calibration.text || calibration.ids)
        PASS(options_copy(&data_table, &calibration, &v->calibration, e));
    PASS(mem_zero(&v->evaluations, s->n_evaluations, sizeof *v->evaluations, "datasets", e));
    for (int64_t i = 0; i < s->n_evaluations; i++, v->n_evaluations++) {
        const struct data_options d = plan_data(p, c->model, &s->evaluations[i]);
        PASS(options_copy(&data_table, &d, &v->evaluations[i], e));
        PASS(mem_append(&v->texts, e, "%s%s", i ? "\n" : "", p->lengths[c->model].texts[i]));
    }
    for (int k = 0; k < MEASURES_N; k++)
        if (measures[k]->describe) PASS(measures[k]->describe(p, v, e));
    return mem_zero(&v->variants, plan_runs(p), sizeof *v->variants, "variants", e);
}

enum status plan_setup_make(const struct plan *p, const struct plan_checkpoint *c, int k,
                            void **setup, struct err *e)
{
    PASS(mem_zero(setup, 1, measures[k]->setup->size, "a setup", e));
    return measures[k]->make_setup(p, c, *setup, e);
}

/* What a checkpoint's visit is made for: v is filled, but for its variants and curvature. */
struct search {
    const struct plan *p;
    const struct plan_checkpoint *c;
    const struct results_view *view;
    struct plan_choice choice;
    struct visit *v;
    int64_t *asked; // (MEASURES_N) of struct plan_visits
};

/* What is to be made of a cell, or of the checkpoint itself. */
enum need { NEED_NOTHING, NEED_COMPLETION, NEED_ALL };

/* Whether the input files of a record have changed since, or the limit of memory for which it has
 * failed; files that cannot be looked at now, as those of a staged checkpoint, have not. */
static bool inputs_changed(const struct search *s, const json_t *record, const char *field, int k)
{
    const bool away = s->p->sweep->models[s->c->model].stage && !weights_present(&s->c->weights);
    return plan_memory_raised(s->p, s->c->model, record) ||
           (!away && plan_inputs_changed(record, field, s->v, k));
}

/* What measures are to complete a finished record with. One that lacks it, or some of it, gets it
 * alone; one that has it of another text is made again. The key stays, and with it what other plans
 * make of the cell. */
static enum need completion_of(const struct search *s, const json_t *record, bool of_checkpoint)
{
    enum need need = NEED_NOTHING;
    const bool there = weights_present(&s->c->weights);
    for (int k = 0; k < MEASURES_N; k++) {
        const void *setup = s->v->setup[k];
        const struct measure *m = measures[k];
        char inputs[64];
        if (!m->of_cells || !setup) continue;
        if (of_checkpoint && !(m->of_checkpoint && m->of_checkpoint(setup))) continue;
        const char *had = json_text(json_object_get(record, "provenance"), m->name, "");
        snprintf(inputs, sizeof inputs, "%s_inputs", m->name);
        const enum plan_had as = plan_completed_as(s->p, s->c, k, had);
        if (as == HAD_OTHER) return NEED_ALL;
        if (as == HAD_LESS || (there && inputs_changed(s, record, inputs, k)))
            need = NEED_COMPLETION;
    }
    return need;
}

/* Of a record of the cells' run. What has failed is made again when one of its input files has
 * changed. */
static enum need need_of(const struct search *s, const char *key)
{
    const json_t *record = s->view ? results_view_find(s->view, key) : NULL;
    if (plan_missing(s->view, key, &s->choice)) return NEED_ALL;
    const bool failed = result_state_of(record) == STATE_FAILED;
    return failed && inputs_changed(s, record, "inputs", MEASURE_cell) ? NEED_ALL : NEED_NOTHING;
}

/* The same of the record of the checkpoint or a cell, which measures may complete. */
static enum need need_of_whole(const struct search *s, const char *key, bool of_checkpoint)
{
    const json_t *record = s->view ? results_view_find(s->view, key) : NULL;
    const enum need need = need_of(s, key);
    return need == NEED_NOTHING && result_state_of(record) == STATE_DONE
               ? completion_of(s, record, of_checkpoint)
               : need;
}

/* Adds to *lines (wanted.h) the further records that the checkpoint (i < 0) or its variant i lacks.
 */
static enum status find_records(const struct search *s, int64_t i, char **lines, struct err *e)
{
    char of[HASH_HEX], key[HASH_HEX];
    memcpy(of, s->c->key, sizeof of);
    if (i >= 0) plan_cell_key(s->p, s->c, i, of);
    for (int64_t n = 0; n < s->p->n_records; n++) {
        const struct plan_record_of *r = &s->p->records[n];
        const int k = i < 0 ? r->of_checkpoint : r->of_cell;
        results_task_key(of, r->key, key);
        if (k >= 0 && need_of(s, key) == NEED_ALL)
            PASS(wanted_add(lines, measures[k]->name, r->label, key, e));
    }
    return OK;
}

/* Adds variant i of the plan, or that replicate of it, if it is to be made, or a measure asks for a
 * finished one. */
static enum status add_variant(const struct search *s, int64_t i, int64_t replicate, int64_t *which,
                               struct err *e)
{
    const struct plan *p = s->p;
    const struct plan_variant *variant = &p->variants[i];
    struct visit *v = s->v;
    char key[HASH_HEX], cell[HASH_HEX];
    AUTO_FREE char *records = NULL, *path = NULL;
    bool asked[MEASURES_N] = {false}, any = false;
    plan_cell_key(p, s->c, i, key);
    memcpy(cell, key, sizeof cell);
    if (replicate > 0) results_replicate_key(cell, replicate, p->seed, key);
    enum need need = replicate == 0 ? need_of_whole(s, key, false) : need_of(s, key);
    const json_t *record = s->view ? results_view_find(s->view, key) : NULL;
    bool again = false;
    if (variant->method->path) PASS(plan_stored_path(p, s->c, variant->method, &path, e));
    if (replicate > 0 && need != NEED_ALL) PASS(plan_texts_drawn(p, s->c, record, v, &again, e));
    if (again || (path && plan_stored_changed(p, path, record))) need = NEED_ALL;
    for (int k = 0; k < MEASURES_N; k++) {
        if (measures[k]->of_cell && replicate == 0 &&
            (need == NEED_ALL || result_state_of(record) == STATE_DONE))
            PASS(measures[k]->of_cell(p, s->c, i, v, &asked[k], e));
        any = any || asked[k];
    }
    if (replicate == 0) PASS(find_records(s, i, &records, e));
    if (need != NEED_ALL) PASS(plan_texts_lacking(p, s->c, record, &s->choice, v, &records, e));
    if (need == NEED_NOTHING && !any && !records) return OK;
    if (need == NEED_NOTHING && replicate == 0 && !any && !path)
        PASS(plan_texts_stored(p, s->c, i, records, &path, e));
    for (int k = 0; k < MEASURES_N; k++) s->asked[k] += asked[k];
    struct variant *to = &v->variants[v->n_variants];
    which[v->n_variants++] = i;
    PASS(variant_copy(variant->method, variant->bits, key, to, e));
    PASS(plan_texts_read(to, &path, e));
    to->replicate = replicate;
    to->scored = need != NEED_ALL;
    to->complete = need == NEED_NOTHING;
    to->records = TAKE(records);
    return OK;
}

/* Adds those of the plan's variants that are to be made, then their replicates; which: their places
 * in the plan. */
static enum status add_variants(const struct search *s, int64_t *which, struct err *e)
{
    const struct plan *p = s->p;
    for (int64_t r = 0; r < REPLICATES_MAX; r++)
        for (int64_t i = 0; i < p->n_variants; i++)
            if (r < p->variants[i].replicates && plan_variant_chosen(&p->variants[i], &s->choice))
                PASS(add_variant(s, i, r, which, e));
    return OK;
}

int64_t plan_runs(const struct plan *p)
{
    int64_t n = 0;
    for (int64_t i = 0; i < p->n_variants; i++) n += p->variants[i].replicates;
    return n;
}

/* Whether a part that completes records has any to complete. */
static bool has_cells(const struct visit *v)
{
    for (int64_t i = 0; i < v->n_variants; i++)
        if (variant_is_completed(&v->variants[i])) return true;
    return !v->cells_only;
}

/* The record that measure k makes of the checkpoint. */
static enum status find_record(const struct search *s, int k, struct err *e)
{
    const struct measure *m = measures[k];
    const char *key = s->c->keys[k];
    const json_t *record = s->view ? results_view_find(s->view, key) : NULL;
    if (!key[0] || !plan_measures_chosen(&s->choice)) return OK;
    const bool missing = plan_missing(s->view, key, &s->choice) || weights_changed(s->c, record) ||
                         (m->stale && m->stale(s->p, s->c, record));
    if (!missing && result_state_of(record) != STATE_FAILED) return OK;
    PASS(plan_setup_make(s->p, s->c, k, &s->v->setup[k], e));
    PASS(mem_string(&s->v->record_key[k], key, e));
    if (!missing && !inputs_changed(s, record, "inputs", k)) visit_drop_setup(s->v, k);
    return s->v->setup[k] && !s->choice.redo ? plan_reuse(s->p, s->c, k, s->view, s->v->setup[k], e)
                                             : OK;
}

/* Makes the checkpoint's visit; which: indices of its variants in the plan. *wanted is false if
 * there is nothing to do. */
static enum status make_visit(const struct plan *p, const struct plan_checkpoint *c,
                              const struct results_view *view, const struct plan_choice *choice,
                              struct visit *v, int64_t *asked, int64_t *which, bool *wanted,
                              bool *changed, struct err *e)
{
    struct search s = {.p = p, .c = c, .view = view, .choice = *choice, .v = v, .asked = asked};
    const json_t *record = view ? results_view_find(view, c->key) : NULL;
    *changed = record && weights_changed(c, record);
    if (*changed) s.choice.redo = true;
    PASS(fill_visit(p, c, v, e));
    for (int k = 0; k < MEASURES_N; k++)
        if (measures[k]->of_cells && c->keys[k][0]) PASS(plan_setup_make(p, c, k, &v->setup[k], e));
    const enum need need = need_of_whole(&s, c->key, true);
    v->scored = need == NEED_COMPLETION;
    v->cells_only = need == NEED_NOTHING;
    /* What is chosen anew may be another soup than that of finished cells. */
    if (c->weights.kind == WEIGHTS_GREEDY && need == NEED_ALL) s.choice.redo = true;
    PASS(find_records(&s, -1, &v->records, e));
    if (need != NEED_ALL) PASS(plan_texts_lacking(p, c, record, &s.choice, v, &v->records, e));
    PASS(add_variants(&s, which, e));
    /* Its cells make a checkpoint whose record failed worth another try. */
    for (int64_t i = 0; i < v->n_variants && result_state_of(record) != STATE_DONE; i++)
        if (!v->variants[i].scored) v->cells_only = false;
    for (int k = 0; k < MEASURES_N; k++) {
        if (measures[k]->of_cells && v->setup[k] && !has_cells(v)) visit_drop_setup(v, k);
        if (measures[k]->make_setup && !measures[k]->of_cells) PASS(find_record(&s, k, e));
    }
    plan_texts_keep(v);
    /* Only the checkpoint's record says what was chosen. */
    if (v->cells_only || v->scored) weights_recall_choice(&v->weights, record);
    *wanted = !v->cells_only || v->n_variants > 0 || v->records;
    for (int k = 0; k < MEASURES_N; k++) *wanted = *wanted || v->record_key[k];
    return OK;
}

/* Adds the visit of checkpoint c if there is anything to do. which (n_variants): scratch. */
static enum status add_checkpoint(const struct plan *p, const struct plan_checkpoint *c,
                                  const struct results_view *view, const struct plan_choice *choice,
                                  int64_t *which, struct plan_visits *out, struct err *e)
{
    enum status st = OK;
    struct plan_visit *v = &out->visits[out->n];
    bool wanted, changed, completes = false;
    *v = (struct plan_visit){.model = c->model,
                             .row = c->row,
                             .at = c - p->checkpoints,
                             .kind = c->model,
                             .files = 1 + out->n};
    st = make_visit(p, c, view, choice, &v->visit, out->asked, which, &wanted, &changed, e);
    if (st != OK || !wanted) visit_free(&v->visit);
    if (st != OK || !wanted) return st;
    out->n++;
    PASS(mem_format(&v->name, e, "%s %s", v->visit.model, v->visit.checkpoint));
    if (changed) {
        /* What other visits made from its weights too is pending: records name them as keys do. */
        AUTO_FREE char *name = NULL;
        PASS(mem_format(&name, e, "%s/%s", v->visit.known, plan_known_name(p, c)));
        json_object_set_new(out->changed, name,
                            json_sprintf("%s/%s", v->visit.model, v->visit.checkpoint));
        PASS(json_whole(e));
    }
    for (int k = 0; k < MEASURES_N; k++)
        completes = completes || (measures[k]->of_cells && v->visit.setup[k]);
    for (int64_t i = 0; i < v->visit.n_variants; i++) {
        const struct variant *one = &v->visit.variants[i];
        out->to_make[MEASURE_replicate] += !one->scored && one->replicate > 0;
        out->to_make[MEASURE_cell] += !one->scored && one->replicate == 0;
        out->n_again += !one->scored && one->replicate == 0 && view &&
                        result_state_of(results_view_find(view, one->key)) == STATE_DONE;
        out->n_read += one->method.path && !p->variants[which[i]].method->path;
        out->n_completions += one->scored && !one->complete && completes;
        plan_count_records(one->records, out);
    }
    for (int k = 0; k < MEASURES_N; k++) out->to_make[k] += v->visit.record_key[k] != NULL;
    plan_count_records(v->visit.records, out);
    return plan_visit_price(p, which, v, e);
}

enum status plan_visits_make(const struct plan *p, const struct results_view *view,
                             const struct plan_choice *choice, struct plan_visits *out,
                             struct err *e)
{
    AUTO_FREE int64_t *which = NULL;
    int64_t first = p->n_checkpoints;
    struct plan_choice of = *choice;
    *out = (struct plan_visits){.of_all = choice->n_only == 0 && choice->part.n == 0};
    NEED(out->changed = json_object(), ERR_NOMEM, "out of memory for visits");
    of.changed = out->changed;
    PASS(mem_zero(&out->visits, first + plan_more(p), sizeof *out->visits, "visits", e));
    PASS(mem_zero(&which, plan_runs(p), sizeof *which, "variants", e));
    for (int64_t i = 0; i < p->n_checkpoints; i++)
        if (plan_checkpoint_chosen(p, &p->checkpoints[i], choice))
            PASS(add_checkpoint(p, &p->checkpoints[i], view, &of, which, out, e));
    PASS(plan_tell_changed(out->changed, e));
    for (int k = 0; k < MEASURES_N; first += p->more[k++])
        if (p->more[k]) PASS(measures[k]->visits(p, view, &of, first, out, e));
    return OK;
}
