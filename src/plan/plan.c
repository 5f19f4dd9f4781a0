#include "plan/plan.h"
#include "engine/inputs.h"
#include "eval/dataset.h"
#include "model/rotated.h"
#include "plan/plan_internal.h"
#include "quant/quant.h"
#include "util/mem.h"
#include "util/num.h"
#include <stdio.h>

/* Increase it when the meaning of a key changes, so that older results are not reused. */
enum { KEY_SCHEMA = 1 };

static void lengths_free(struct plan *p)
{
    for (int64_t i = 0; p->lengths && i < p->sweep->n_models; i++) {
        free(p->lengths[i].known);
        for (int64_t k = 0; p->lengths[i].rows && k < p->sweep->models[i].n_stored; k++)
            free(p->lengths[i].rows[k]);
        free(p->lengths[i].rows);
        free(p->lengths[i].variant_keys);
        free(p->lengths[i].texts);
    }
    mem_drop(&p->lengths);
}

void plan_free(struct plan *p)
{
    for (int64_t i = 0; i < p->n_checkpoints; i++) {
        weights_free(&p->checkpoints[i].weights);
        free(p->checkpoints[i].recipe);
        free(p->checkpoints[i].known);
        json_decref(p->checkpoints[i].former);
    }
    free(p->checkpoints);
    free(p->variants);
    for (int64_t i = 0; i < p->n_records; i++) free(p->records[i].label);
    free(p->records);
    for (int i = 0; i < MEASURES_N; i++) {
        visit_setup_free(i, p->setup[i]);
        if (p->own[i]) measures[i]->plan_free(p->own[i]);
    }
    json_decref(p->lists);
    json_decref(p->former);
    plan_reuse_free(p);
    plan_costs_free(&p->costs);
    lengths_free(p);
    plan_past_free(&p->past);
    json_decref(p->back);
    json_decref(p->inputs);
    json_decref(p->tokenizers);
    json_decref(p->specials);
    texts_free(&p->missing);
    *p = (struct plan){0};
}

enum status plan_digest(json_t *json, char key[HASH_HEX], struct err *e)
{
    json_auto_t *taken = json;
    AUTO_FREE char *text = taken ? json_dump_whole(taken, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    NEED(text, ERR_NOMEM, "out of memory for a key");
    hash_text(text, key);
    return OK;
}

/* --- inputs --- */

struct data_options plan_data(const struct plan *p, int64_t model, const struct data_options *d)
{
    struct data_options resolved = *d;
    resolved.length = data_options_length(d, model < 0 ? 0 : p->lengths[model].positions);
    return resolved;
}

enum status plan_without(struct plan *p, const char *why, struct err *e)
{
    return texts_add(&p->missing, why, e);
}

enum status plan_data_identity(struct plan *p, int64_t model, const struct data_options *d,
                               json_t **out, struct err *e)
{
    char hash[HASH_HEX];
    struct err own = {0};
    const struct data_options resolved = plan_data(p, model, d);
    const char *name = d->text ? d->text : d->ids;
    const json_t *known = json_object_get(p->inputs, name);
    if (known) {
        snprintf(hash, HASH_HEX, "%s", json_string_value(known));
    } else {
        const enum status st = dataset_hash(d, hash, &own);
        if (st != OK && (!p->look_ahead || st != ERR_IO)) RAISE(st, "%s", own.text);
        if (st != OK) { /* a draft has that of earlier plans */
            snprintf(hash, HASH_HEX, "%s", plan_past_input(p, name));
            PASS(plan_without(p, own.text, e));
        }
        json_object_set_new(p->inputs, name, json_string(hash));
    }
    return plan_grown(p, model, &resolved, hash, out, e);
}

enum status plan_calibration_identity(struct plan *p, int64_t model, json_t **out, struct err *e)
{
    const struct data_options *d = &p->sweep->calibration;
    *out = NULL;
    return d->text || d->ids ? plan_data_identity(p, model, d, out, e) : OK;
}

/* --- variants --- */

static void collect_bits(struct plan *p)
{
    bool seen[QUANT_BITS_FULL + 1] = {false};
    for (int64_t i = 0; i < p->sweep->n_methods; i++)
        for (int64_t j = 0; j < p->sweep->methods[i].n_bits; j++)
            seen[p->sweep->methods[i].bits[j]] = true;
    for (int64_t b = QUANT_BITS_LEAST; b <= QUANT_BITS_FULL; b++)
        if (seen[b]) p->bits[p->n_bits++] = b;
}

static bool asks_for(const struct method_entry *m, int64_t bits)
{
    for (int64_t i = 0; i < m->n_bits; i++)
        if (m->bits[i] == bits) return true;
    return false;
}

/* The options that concern the method, so that a changed block_size does not change the keys of
 * rtn. */
static json_t *concerning(const struct method_entry *m, const struct quant_method *method)
{
    json_auto_t *all = options_to_key(&method_table, m);
    json_t *kept = json_object();
    const char *key;
    json_t *value;
    json_object_foreach(all, key, value) {
        if (quant_concerns(method, key)) json_object_set(kept, key, value);
    }
    return kept;
}

enum status plan_variant_key(const struct plan *p, const struct method_entry *m, int64_t bits,
                             const json_t *calibration, char key[HASH_HEX], struct err *e)
{
    const struct quant_method *method = quant_find(m->method);
    /* Older results have outliers by scores of the variant's own inputs. */
    const bool scores = quant_needs_of(method, &m->options).scores != 0;
    return plan_digest(
        json_pack("{s:s, s:I, s:o, s:O?, s:I, s:s*, s:o*, s:s*}", "method", m->method, "bits",
                  (json_int_t)bits, "options", concerning(m, method), "calibration",
                  quant_calibrates(method, &m->options) ? (json_t *)(uintptr_t)calibration : NULL,
                  "seed", (json_int_t)p->known_seed, "stored", m->path ? m->name : NULL, "grids",
                  method_grids_to_json(m), "scores", scores ? "full precision" : NULL),
        key, e);
}

/* The option, if any, that makes the method need a calibration text. */
static const char *calibrating(const struct method_entry *m)
{
    struct quant_options own = m->options;
    const bool fixed = m->grids.inputs.granularity == GRANULARITY_STATIC;
    own.learns = false;
    if (!quant_calibrates(quant_find(m->method), &own)) return " with rotation_steps";
    own.input_statistics = 0;
    if (!quant_calibrates(quant_find(m->method), &own))
        return fixed ? " with activations.granularity: static" : " with activations.outliers";
    own.outlier_columns = 0;
    if (!quant_calibrates(quant_find(m->method), &own)) return " with outlier_columns";
    own.lqer_rank = 0;
    return quant_calibrates(quant_find(m->method), &own) ? "" : " with lqer_rank";
}

static enum status make_variants(struct plan *p, const json_t *calibration, struct err *e)
{
    const struct sweep *s = p->sweep;
    PASS(mem_zero(&p->variants, s->n_methods * p->n_bits, sizeof *p->variants, "variants", e));
    for (int64_t i = 0; i < s->n_methods; i++) {
        const struct method_entry *m = &s->methods[i];
        const struct quant_method *method = quant_find(m->method);
        NEED(!quant_calibrates(method, &m->options) || calibration, ERR_USAGE,
             "calibration: missing; method %s%s needs calibration text", m->method, calibrating(m));
        int64_t low, high;
        quant_widths(method, &m->options, &low, &high);
        for (int64_t b = 0; b < p->n_bits; b++) {
            struct plan_variant *v = &p->variants[p->n_variants++];
            *v = (struct plan_variant){.method = m, .quantizer = i, .bits = p->bits[b]};
            v->applicable = asks_for(m, v->bits) && v->bits >= low && v->bits <= high;
            v->replicates = v->applicable ? max64(m->replicates, 1) : 1;
            PASS(plan_variant_key(p, m, v->bits, calibration, v->key, e));
        }
    }
    return OK;
}

/* Of models whose calibration is shorter than that of the others, since `length: auto` follows
 * their positions (docs/decisions/0019-default-length.md). */
static enum status make_lengths_keys(struct plan *p, struct err *e)
{
    const struct data_options *d = &p->sweep->calibration;
    for (int64_t m = 0; m < p->sweep->n_models; m++) {
        struct plan_lengths *l = &p->lengths[m];
        json_auto_t *calibration = NULL;
        if (data_options_length(d, l->positions) == data_options_length(d, 0)) continue;
        PASS(plan_calibration_identity(p, m, &calibration, e));
        PASS(mem_zero(&l->variant_keys, p->n_variants, sizeof *l->variant_keys, "keys", e));
        for (int64_t i = 0; i < p->n_variants; i++)
            PASS(plan_variant_key(p, p->variants[i].method, p->variants[i].bits, calibration,
                                  l->variant_keys[i], e));
    }
    return OK;
}

void plan_cell_key(const struct plan *p, const struct plan_checkpoint *c, int64_t i,
                   char key[HASH_HEX])
{
    const struct plan_lengths *l = &p->lengths[c->model];
    results_cell_key(c->key, l->variant_keys ? l->variant_keys[i] : p->variants[i].key, key);
}

/* --- checkpoints --- */

json_t *plan_inputs(const struct plan *p)
{
    json_t *all = json_copy(p->inputs);
    json_object_update(all, p->tokenizers);
    return all;
}

enum status plan_visit_inputs(const struct plan *p, const struct plan_checkpoint *c,
                              struct visit *v, struct err *e)
{
    v->inputs = json_copy(p->inputs);
    if (c->tokenizer_now[0])
        json_object_set_new(v->inputs, INPUT_TOKENIZER, json_string(c->tokenizer_now));
    if (c->special[0]) json_object_set_new(v->inputs, INPUT_SPECIAL, json_string(c->special));
    return json_whole(e);
}

const char *plan_activations(const struct sweep *s)
{
    return s->run.activations == ACTIVATIONS_BF16 ? "bf16" : NULL;
}

const char *plan_products(const struct sweep *s)
{
    const bool coarse = s->run.products == PRODUCTS_BF16X2 || s->run.products == PRODUCTS_BF16;
    return coarse ? products_words[s->run.products] : NULL;
}

const char *plan_rounding(const struct sweep *s)
{
    return s->run.rounding == ROUNDING_BF16 ? "bf16" : NULL;
}

enum status plan_add_record(struct plan *p, int of_cell, int of_checkpoint, const char *label,
                            json_t *own, struct err *e)
{
    int64_t capacity = p->n_records;
    struct plan_record_of one = {.of_cell = of_cell, .of_checkpoint = of_checkpoint};
    PASS(plan_digest(own, one.key, e));
    PASS(mem_grow(&p->records, p->n_records, &capacity, sizeof *p->records, e));
    PASS(mem_string(&one.label, label, e));
    p->records[p->n_records++] = one;
    return OK;
}

enum status plan_check_weights(const struct sweep *s, const char *what, struct err *e)
{
    for (int64_t i = 0; i < s->n_methods; i++)
        PASS(method_entry_check_weights(&s->methods[i], what, e));
    return OK;
}

/* Records of cells that a measure asks for by itself. */
static enum status add_of_cells(struct plan *p, int k, struct err *e)
{
    json_t *own = NULL, *digests = json_object_get(p->lists, PLAN_OF_CELLS);
    PASS(measures[k]->cell_key(p->sweep, &own, e));
    if (!own) return OK;
    const enum status st =
        measures[k]->linear ? plan_check_weights(p->sweep, measures[k]->name, e) : OK;
    if (st != OK) json_decref(own);
    PASS(st);
    json_object_set_new(own, "measure", json_string(measures[k]->name));
    PASS(plan_add_record(p, k, -1, measures[k]->name, own, e));
    if (!digests) json_object_set_new(p->lists, PLAN_OF_CELLS, digests = json_object());
    json_object_set_new(digests, measures[k]->name, json_string(p->records[p->n_records - 1].key));
    return OK;
}

/* Those that no config.json gives, as earlier plans knew them. */
static enum status find_positions(struct plan *p, struct err *e)
{
    for (int64_t i = 0; i < p->sweep->n_models; i++) {
        const struct model_entry *m = &p->sweep->models[i];
        if (p->lengths[i].positions <= 0) p->lengths[i].positions = plan_past_positions(p, m->name);
        NEED(!m->stage || p->lengths[i].positions > 0, ERR_USAGE,
             "%s: no config.json beside %s; cells are planned before `stage` fetches a checkpoint",
             m->name, m->tokenizer);
    }
    return OK;
}

static enum status make_checkpoints(struct plan *p, struct err *e)
{
    int64_t n = 0;
    for (int64_t i = 0; i < p->sweep->n_models; i++) n += p->sweep->models[i].n_rows;
    PASS(mem_zero(&p->checkpoints, n, sizeof *p->checkpoints, "checkpoints", e));
    for (int64_t i = 0; i < p->sweep->n_models; i++)
        for (int64_t j = 0; j < p->sweep->models[i].n_rows; j++) {
            struct plan_checkpoint *c = &p->checkpoints[p->n_checkpoints++];
            *c = (struct plan_checkpoint){.model = i, .row = j};
            PASS(plan_find_weights(p, i, j, &c->weights, e));
        }
    PASS(plan_shapes_find(p, e));
    PASS(find_positions(p, e));
    for (int64_t i = 0; i < p->n_checkpoints; i++)
        PASS(plan_find_tokenizer(p, &p->checkpoints[i], e));
    return OK;
}

/* What keys say of averages, whose members may be chosen by a text. */
static enum status make_recipes(struct plan *p, struct err *e)
{
    for (struct plan_checkpoint *c = p->checkpoints; c < p->checkpoints + p->n_checkpoints; c++) {
        PASS(plan_find_heldout(p, c, e));
        PASS(weights_recipe(&c->weights, &c->recipe, e));
        PASS(plan_name_average(p, c, e));
    }
    return OK;
}

enum status plan_key(const struct plan *p, const struct plan_checkpoint *c, json_t *evaluations,
                     char key[HASH_HEX], struct err *e)
{
    return plan_digest(json_pack("{s:i, s:s, s:s, s:s, s:o*, s:s*, s:s*, s:s*, s:s*}", "schema",
                                 KEY_SCHEMA, "model", plan_known_model(p, c->model), "checkpoint",
                                 plan_known_name(p, c), "tokenizer", c->tokenizer, "evaluations",
                                 evaluations, "activations", plan_activations(p->sweep), "products",
                                 plan_products(p->sweep), "rounding", plan_rounding(p->sweep),
                                 "recipe", c->recipe[0] ? c->recipe : NULL),
                       key, e);
}

static enum status make_keys(struct plan *p, struct err *e)
{
    for (int64_t i = 0; i < p->sweep->n_models; i++) PASS(plan_texts_make(p, i, e));
    for (int64_t i = 0; i < p->n_checkpoints; i++) {
        struct plan_checkpoint *c = &p->checkpoints[i];
        PASS(plan_key(p, c, NULL, c->key, e));
        for (int k = 0; k < MEASURES_N; k++) {
            /* The key of the record that measure k makes of c, or the digest of the settings of
             * what it completes records with, if the sweep asks for one. */
            json_t *own = NULL;
            char was[HASH_HEX] = "";
            if (measures[k]->key) PASS(plan_record_own(p, c, k, &own, e));
            if (!own) continue;
            json_auto_t *former = json_copy(own);
            PASS(plan_digest(own, c->keys[k], e));
            if (measures[k]->of_cells || !measures[k]->former) continue;
            if (!measures[k]->former(p->sweep, former)) continue;
            PASS(plan_digest(json_incref(former), was, e));
            json_object_set_new(p->former, c->keys[k], json_string(was));
        }
    }
    return OK;
}

static enum status make_setups(struct plan *p, struct err *e)
{
    for (int64_t i = 0; i < p->n_checkpoints; i++)
        for (int k = 0; k < MEASURES_N; k++)
            if (measures[k]->make_setup && !p->setup[k] && p->checkpoints[i].keys[k][0])
                PASS(plan_setup_make(p, &p->checkpoints[i], k, &p->setup[k], e));
    return OK;
}

static enum status check_grid(const struct method_entry *m, const struct model_sizes *sizes,
                              struct err *e)
{
    const long long outliers = m->options.outlier_columns;
    PASS(model_check_grids(&sizes->shape, &m->grids, e));
    PASS(model_check_rotation(&sizes->spec, method_entry_places(m), e));
    for (int stage = 0; stage < STAGE_N; stage++)
        NEED(outliers < sizes->cols[stage], ERR_USAGE,
             "outlier_columns: %lld of %lld columns: expected fewer", outliers,
             (long long)sizes->cols[stage]);
    return OK;
}

/* Grids and rotations fit the models, as far as these can be read. */
static enum status check_grids(const struct plan *p, struct err *e)
{
    for (int64_t i = 0; i < p->costs.n; i++)
        for (int64_t k = 0; p->costs.models[i].known && k < p->sweep->n_methods; k++) {
            const struct method_entry *m = &p->sweep->methods[k];
            const enum status st = check_grid(m, &p->costs.models[i].sizes, e);
            if (st != OK) err_prefix(e, "methods: %s, model %s", m->name, p->sweep->models[i].name);
            PASS(st);
        }
    return OK;
}

enum status plan_make(const struct sweep *s, bool look_ahead, struct plan *out, struct err *e)
{
    enum status st = OK;
    struct plan p = {.sweep = s,
                     .results = s->results,
                     .inputs = json_object(),
                     .tokenizers = json_object(),
                     .specials = json_object(),
                     .lists = json_object(),
                     .former = json_object(),
                     .look_ahead = look_ahead};
    json_t *calibration = NULL;
    TRY(plan_columns_check(s, e));
    TRY(plan_past_open(s->results, &p.past, e));
    plan_past_seed(&p);
    TRY(mem_zero(&p.lengths, s->n_models, sizeof *p.lengths, "models", e));
    TRY(plan_names_make(&p, e));
    TRY(plan_rows_make(&p, e));
    TRY(make_checkpoints(&p, e));
    TRY(plan_common_check(&p, e));
    TRY(plan_calibration_identity(&p, -1, &calibration, e));
    collect_bits(&p);
    TRY(make_variants(&p, calibration, e));
    TRY(make_lengths_keys(&p, e));
    TRY(make_recipes(&p, e));
    TRY(check_grids(&p, e));
    for (int k = 0; k < MEASURES_N; k++) {
        if (measures[k]->plan) TRY(measures[k]->plan(&p, e));
        if (measures[k]->cell_key) TRY(add_of_cells(&p, k, e));
    }
    TRY(make_keys(&p, e));
    TRY(make_setups(&p, e));
    TRY(plan_costs_make(&p, e));
    for (int64_t i = 0; i < s->n_methods; i++) TRY(plan_stored_check(&p, &s->methods[i], e));
    *out = p;
    p = (struct plan){0};
done:
    if (st == ERR_IO && e)
        sweep_add_place(p.sweep, e->text, sizeof e->text, sizeof e->text / 2,
                        "; correct the key, or put the file there");
    json_decref(calibration);
    plan_free(&p);
    return st;
}
