/* The description of a visit, and its form as text for the way to its worker. */
#include "visit/visit.h"
#include "measure/surface.h"
#include "util/mem.h"
#include "visit/visit_internal.h"
#include <stdlib.h>

void visit_free(struct visit *v)
{
    free(v->model);
    free(v->checkpoint);
    weights_free(&v->weights);
    free(v->tokenizer);
    free(v->key);
    for (int64_t i = 0; i < v->n_variants; i++) variant_free(&v->variants[i]);
    free(v->variants);
    options_free(&data_table, &v->calibration);
    for (int64_t i = 0; i < v->n_evaluations; i++) options_free(&data_table, &v->evaluations[i]);
    free(v->evaluations);
    options_free(&run_table, &v->run);
    for (int i = 0; i < PART_N; i++)
        if (v->task[i]) visit_part(i)->task_free(v->task[i]);
    *v = (struct visit){0};
}

void visit_cache_free(struct visit_cache *c)
{
    visit_inputs_forget(c);
    surface_forget(c);
}

bool visit_has_piece(const struct visit *v, int i)
{
    return v->task[i] && !visit_part(i)->of_cells && visit_part(i)->of_model;
}

int64_t visit_pieces(const struct visit *v)
{
    int64_t n = 1 + v->n_variants;
    for (int i = 0; i < PART_N; i++) n += visit_has_piece(v, i);
    return n;
}

static bool among(const int64_t *pieces, int64_t n, int64_t piece)
{
    while (n > 0 && pieces[n - 1] != piece) n--;
    return n > 0;
}

void visit_keep_pieces(struct visit *v, const int64_t *pieces, int64_t n)
{
    int64_t kept = 0, piece = 1;
    if (!among(pieces, n, 0)) v->cells_only = true;
    for (int64_t i = 0; i < v->n_variants; i++) {
        if (among(pieces, n, piece++))
            v->variants[kept++] = v->variants[i];
        else
            variant_free(&v->variants[i]);
    }
    v->n_variants = kept;
    for (int i = 0; i < PART_N; i++) {
        if (!visit_has_piece(v, i) || among(pieces, n, piece++)) continue;
        visit_part(i)->task_free(v->task[i]);
        v->task[i] = NULL;
    }
}

json_t *visit_to_json(const struct visit *v)
{
    json_t *variants = json_array(), *evaluations = json_array();
    for (int64_t i = 0; i < v->n_variants; i++)
        json_array_append_new(variants, variant_to_json(&v->variants[i]));
    for (int64_t i = 0; i < v->n_evaluations; i++)
        json_array_append_new(evaluations, data_options_to_json(&v->evaluations[i]));
    json_t *json =
        json_pack("{s:s, s:s, s:o, s:s?, s:s, s:o, s:o, s:o, s:o, s:b}", "model", v->model,
                  "checkpoint", v->checkpoint, "weights", weights_to_json(&v->weights), "tokenizer",
                  v->tokenizer, "key", v->key, "run", options_to_json(&run_table, &v->run),
                  "variants", variants, "evaluations", evaluations, "calibration",
                  data_options_to_json(&v->calibration), "cells_only", v->cells_only);
    for (int i = 0; json && i < PART_N; i++)
        if (v->task[i])
            json_object_set_new(json, visit_part(i)->name, visit_part(i)->task_to_json(v->task[i]));
    return json;
}

static enum status take_string(const json_t *json, const char *key, char **out, struct err *e)
{
    const char *text = json_string_value(json_object_get(json, key));
    NEED(text, ERR_FORMAT, "visit: %s is missing", key);
    return mem_string(out, text, e);
}

enum status visit_from_json(const json_t *json, struct visit *out, struct err *e)
{
    enum status st = OK;
    struct visit v = {0};
    const json_t *variants = json_object_get(json, "variants");
    const json_t *evaluations = json_object_get(json, "evaluations");
    TRY(take_string(json, "model", &v.model, e));
    TRY(take_string(json, "checkpoint", &v.checkpoint, e));
    TRY(weights_from_json(json_object_get(json, "weights"), &v.weights, e));
    TRY(take_string(json, "key", &v.key, e));
    TRY(options_from_json(&run_table, json_object_get(json, "run"), &v.run, e));
    if (json_is_string(json_object_get(json, "tokenizer")))
        TRY(take_string(json, "tokenizer", &v.tokenizer, e));
    v.n_variants = (int64_t)json_array_size(variants);
    TRY(mem_zero(&v.variants, v.n_variants, sizeof *v.variants, "variants", e));
    for (int64_t i = 0; i < v.n_variants; i++)
        TRY(variant_from_json(json_array_get(variants, (size_t)i), &v.variants[i], e));
    v.n_evaluations = (int64_t)json_array_size(evaluations);
    TRY(mem_zero(&v.evaluations, v.n_evaluations, sizeof *v.evaluations, "datasets", e));
    for (int64_t i = 0; i < v.n_evaluations; i++)
        TRY(data_options_from_json(json_array_get(evaluations, (size_t)i), &v.evaluations[i], e));
    TRY(data_options_from_json(json_object_get(json, "calibration"), &v.calibration, e));
    v.cells_only = json_is_true(json_object_get(json, "cells_only"));
    for (int i = 0; i < PART_N; i++) {
        const json_t *task = json_object_get(json, visit_part(i)->name);
        if (task) TRY(visit_part(i)->task_from_json(task, &v.task[i], e));
    }
    *out = v;
    v = (struct visit){0};
done:
    visit_free(&v);
    return st;
}
