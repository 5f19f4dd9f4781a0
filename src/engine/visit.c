/* The description of a visit and its JSON form, in which it is sent to a worker. */
#include "engine/visit.h"
#include "engine/stamp.h"
#include "engine/visit_internal.h"
#include "records/saved.h"
#include "util/lru.h"
#include "util/mem.h"

static const struct option requests_fields[] = {
    OPTION(requests_options, tasks, TEXTS, ""),
    OPTION(requests_options, folder, TEXT, ""),
    OPTION(requests_options, shots, INT, "", .fallback = "0", OPTION_ANY_INT),
    OPTION(requests_options, limit, INT, "", .fallback = "0", OPTION_ANY_INT),
    OPTION(requests_options, apart, BOOL, ""),
};

static bool no_requests(const void *requests)
{
    return !((const struct requests_options *)requests)->tasks;
}

static const struct option_table requests_table = {OPTION_ROWS(requests_fields, requests_options),
                                                   .absent = no_requests};

static const struct option fields[] = {
    OPTION(visit, model, TEXT, "", .required = true),
    OPTION(visit, checkpoint, TEXT, "", .required = true),
    OPTION(visit, known, TEXT, ""),
    OPTION(visit, weights, GROUP, "", .required = true, .table = &weights_table),
    OPTION(visit, tokenizer, TEXT, ""),
    OPTION(visit, key, TEXT, "", .required = true),
    OPTION(visit, run, GROUP, "", .required = true, .table = &run_table),
    OPTION(visit, variants, LIST, "", OPTION_ENTRIES(visit, n_variants, &variant_table)),
    OPTION(visit, calibration, GROUP, "", .table = &data_table),
    OPTION(visit, seed, INT, "", .fallback = "0", OPTION_ANY_INT),
    OPTION(visit, evaluations, LIST, "", OPTION_ENTRIES(visit, n_evaluations, &data_table)),
    OPTION(visit, texts, TEXTS, ""),
    OPTION(visit, drawn, LIST, "", OPTION_ENTRIES(visit, n_drawn, &data_table)),
    OPTION(visit, drawn_texts, TEXTS, ""),
    OPTION(visit, requests, GROUP, "", .table = &requests_table),
    OPTION(visit, log_likelihoods, BOOL, ""),
    OPTION(visit, records, TEXTS, ""),
    OPTION(visit, cells_only, BOOL, ""),
    OPTION(visit, scored, BOOL, ""),
};
static const struct option_table visit_table = {OPTION_ROWS(fields, visit)};

void visit_setup_free(int i, void *setup)
{
    if (setup) options_free(measures[i]->setup, setup);
    free(setup);
}

void visit_drop_setup(struct visit *v, int i)
{
    visit_setup_free(i, v->setup[i]);
    free(v->record_key[i]);
    v->setup[i] = NULL;
    v->record_key[i] = NULL;
}

void visit_free(struct visit *v)
{
    for (int i = 0; i < MEASURES_N; i++) visit_drop_setup(v, i);
    json_decref(v->inputs);
    options_free(&visit_table, v);
}

void visit_cache_free(struct visit_cache *c)
{
    lru_trim(&c->inputs, 0);
    lru_trim(&c->surfaces, 0);
    saved_forget(&c->ended, false);
}

void visit_states_remove(struct visit_cache *c)
{
    saved_forget(&c->ended, true);
}

bool visit_has_batch(const struct visit *v, int i)
{
    return v->record_key[i] != NULL;
}

int64_t visit_batches(const struct visit *v)
{
    int64_t n = 1 + v->n_variants;
    for (int i = 0; i < MEASURES_N; i++) n += visit_has_batch(v, i);
    return n;
}

static bool among(const int64_t *batches, int64_t n, int64_t batch)
{
    while (n > 0 && batches[n - 1] != batch) n--;
    return n > 0;
}

void visit_keep_batches(struct visit *v, const int64_t *batches, int64_t n)
{
    int64_t n_variants = 0, batch = 1;
    if (!among(batches, n, 0)) {
        v->cells_only = true;
        free(v->records);
        v->records = NULL;
    }
    for (int64_t i = 0; i < v->n_variants; i++) {
        if (among(batches, n, batch++))
            v->variants[n_variants++] = v->variants[i];
        else
            options_free(&variant_table, &v->variants[i]);
    }
    v->n_variants = n_variants;
    for (int i = 0; i < MEASURES_N; i++) {
        if (visit_has_batch(v, i) && !among(batches, n, batch++)) visit_drop_setup(v, i);
    }
}

void visit_stamp(const struct visit *v, int i, char out[HASH_HEX])
{
    char *tokenizer = NULL;
    hash_text("", out);
    stamp_weights(out, &v->weights);
    if (!v->tokenizer && visit_tokenizer(weights_folder(&v->weights), &tokenizer, NULL) != OK)
        tokenizer = NULL;
    if (v->tokenizer || tokenizer) stamp_file(out, v->tokenizer ? v->tokenizer : tokenizer);
    if (measures[i]->inputs) measures[i]->inputs(v, out);
    free(tokenizer);
}

bool visit_text_key(const struct visit *v, int64_t i, char out[HASH_HEX])
{
    if (!v->texts) return false;
    memcpy(out, v->texts + i * HASH_HEX, HASH_HEX - 1);
    out[HASH_HEX - 1] = '\0';
    return true;
}

void visit_text_stamp(const struct visit *v, int64_t i, char out[HASH_HEX])
{
    struct visit one = *v; /* shallow */
    one.n_evaluations = 1;
    one.evaluations += i;
    visit_stamp(&one, MEASURE_cell, out);
}

/* The setups are in the object "setups", by the names of their measures, as are "keys". */
json_t *visit_to_json(const struct visit *v)
{
    json_t *setups = json_object(), *keys = json_object(), *json;
    for (int i = 0; i < MEASURES_N; i++)
        if (v->setup[i])
            json_object_set_new(setups, measures[i]->name,
                                options_to_json(measures[i]->setup, v->setup[i]));
    for (int i = 0; i < MEASURES_N; i++)
        if (v->record_key[i])
            json_object_set_new(keys, measures[i]->name, json_string(v->record_key[i]));
    json = json_pack("{s:o, s:o, s:o, s:O*}", "visit", options_to_json(&visit_table, v), "setups",
                     setups, "keys", keys, "inputs", v->inputs);
    return json;
}

enum status visit_from_json(const json_t *json, struct visit *out, struct err *e)
{
    enum status st = OK;
    struct visit v = {0};
    const json_t *setups = json_object_get(json, "setups"), *keys = json_object_get(json, "keys");
    TRY(options_from_json(&visit_table, json_object_get(json, "visit"), &v, e));
    for (int i = 0; i < MEASURES_N; i++) {
        const struct option_table *t = measures[i]->setup;
        const json_t *setup = json_object_get(setups, measures[i]->name);
        const char *key = json_text(keys, measures[i]->name, NULL);
        if (key) TRY(mem_string(&v.record_key[i], key, e));
        if (!setup) continue;
        TRY(mem_zero(&v.setup[i], 1, t->size, "a setup", e));
        TRY(options_from_json(t, setup, v.setup[i], e));
    }
    v.inputs = json_incref(json_object_get(json, "inputs"));
    *out = v;
    v = (struct visit){0};
done:
    if (st != OK) err_prefix(e, "visit");
    visit_free(&v);
    return st;
}
