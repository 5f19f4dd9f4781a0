/* The plan as a record of the journal. */
#include "engine/inputs.h"
#include "math/linalg.h"
#include "plan/plan_internal.h"
#include "records/steps_table.h"
#include "util/clock.h"
#include "util/num.h"
#include "util/version.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum status checkpoint_record(const struct plan *p, const struct plan_checkpoint *c,
                                     const json_t *columns, json_t *list, struct err *e)
{
    char *recipe;
    const struct model_entry *m = &p->sweep->models[c->model];
    const struct trajectory_row *row = &m->rows[c->row];
    const char *known = plan_known_name(p, c);
    const char *average = row->average ? m->averages[row->average - 1].name : NULL;
    PASS(plan_shown_recipe(p, c, &recipe, e));
    json_t *one = json_pack(
        "{s:s, s:I, s:o, s:o, s:s, s:s, s:s, s:s*, s:s, s:O*, s:o*, s:s*, s:s*}", "name",
        row->checkpoint, "step", (json_int_t)row->step, "tokens", json_number_new(row->tokens),
        "learning_rate", json_number_new(row->learning_rate), "phase", row->phase, "kind",
        row->average ? "average" : "stored", "recipe", recipe, "average", average, "key", c->key,
        "former", c->former, "columns", plan_columns_of(columns, p->sweep, c->model, c->row),
        "known", strcmp(known, row->checkpoint) ? known : NULL, "known_recipe",
        strcmp(recipe, c->recipe) ? c->recipe : NULL);
    free(recipe);
    for (int k = 0; k < MEASURES_N; k++)
        if (c->keys[k][0] && measures[k]->plan_key)
            json_object_set_new(one, measures[k]->plan_key, json_string(c->keys[k]));
    json_array_append_new(list, one);
    return plan_note_files(p, c, one, e);
}

/* NULL: there are none. */
static json_t *digests_record(char (*digests)[HASH_HEX], int64_t n)
{
    json_t *list = digests ? json_array() : NULL;
    for (int64_t i = 0; list && i < n; i++) json_array_append_new(list, json_string(digests[i]));
    return list;
}

/* [first, ..., end - 1]; NULL: that is nothing. */
static json_t *numbers_record(int64_t first, int64_t end)
{
    json_t *list = first < end ? json_array() : NULL;
    for (int64_t i = first; i < end; i++) json_array_append_new(list, json_integer((json_int_t)i));
    return list;
}

static enum status models_record(const struct plan *p, const json_t *columns, json_t *models,
                                 struct err *e)
{
    CLEANUP(visit_cache_free) struct visit_cache cache = {0};
    for (int64_t i = 0; i < p->sweep->n_models; i++) {
        const struct plan_lengths *l = &p->lengths[i];
        json_t *list = json_array(), *common = NULL;
        enum status st = plan_common_record(p, i, &cache, &common, e);
        const char *name = p->sweep->models[i].name, *known = plan_known_model(p, i);
        json_array_append_new(
            models,
            json_pack("{s:s, s:s*, s:I, s:s*, s:o, s:o, s:o*, s:o*}", "name", name, "known",
                      strcmp(name, known) ? known : NULL, "positions", (json_int_t)l->positions,
                      "branch_of", p->sweep->models[i].branch_of, "checkpoints", list, "texts",
                      digests_record(l->texts, p->sweep->n_evaluations), "variant_keys",
                      digests_record(l->variant_keys, p->n_variants), "common_tokens", common));
        PASS(st);
        json_t *training = NULL;
        PASS(steps_curve_read(p->sweep->models[i].trajectory, &training, e));
        if (training) json_object_set_new(json_array_get(models, (size_t)i), "training", training);
        for (int64_t k = 0; k < p->n_checkpoints; k++)
            if (p->checkpoints[k].model == i)
                PASS(checkpoint_record(p, &p->checkpoints[k], columns, list, e));
    }
    return OK;
}

/* NULL: it quantizes nothing. */
static json_t *grid_bits(const struct activation_grid *g)
{
    return activation_quantizes(g) ? json_integer((json_int_t)g->bits) : NULL;
}

/* The blocks of the longest model; while a shape is not known, at least those of the newest plan
 * that had any. NULL: none are known, or no measure has an axis of them. */
static json_t *blocks_record(const struct plan *p)
{
    int64_t most = 0;
    bool asked = false, known = true;
    for (int k = 0; k < MEASURES_N; k++)
        asked = asked || (measures[k]->inner == &axis_block && plan_asks(p, k));
    for (int64_t i = 0; i < p->costs.n; i++) {
        known = known && p->costs.models[i].known;
        if (p->costs.models[i].known) most = max64(most, p->costs.models[i].sizes.shape.layers);
    }
    for (size_t k = json_array_size(p->past.plans); !known && k-- > 0;) {
        const json_t *had = json_object_get(json_array_get(p->past.plans, k), axis_block.plan);
        most = max64(most, (int64_t)json_array_size(had));
        known = had != NULL;
    }
    return asked ? numbers_record(0, most) : NULL;
}

static enum status axes_record(const struct plan *p, json_t **out, struct err *e)
{
    const struct sweep *s = p->sweep;
    json_t *models = json_array(), *bits = json_array(), *quantizers = json_array(),
           *datasets = json_array(), *variants = json_array();
    int64_t most = 1; /* replicates of a method */
    for (int64_t i = 0; i < p->n_bits; i++)
        json_array_append_new(bits, json_integer((json_int_t)p->bits[i]));
    for (int64_t i = 0; i < s->n_methods; i++)
        json_array_append_new(quantizers, json_string(s->methods[i].name));
    for (int64_t i = 0; i < s->n_evaluations; i++)
        json_array_append_new(datasets, json_string(s->evaluations[i].name));
    for (int64_t i = 0; i < p->n_variants; i++) {
        const struct plan_variant *v = &p->variants[i];
        most = max64(most, v->replicates);
        json_t *replicates = v->replicates > 1 ? json_integer((json_int_t)v->replicates) : NULL;
        json_array_append_new(
            variants, json_pack("{s:I, s:s, s:s, s:b, s:o*, s:o*, s:o*, s:o*}", "bits",
                                (json_int_t)v->bits, "quantizer", v->method->name, "key", v->key,
                                "applicable", v->applicable, "replicates", replicates,
                                "activation_bits", grid_bits(&v->method->grids.inputs), "key_bits",
                                grid_bits(&v->method->grids.keys), "value_bits",
                                grid_bits(&v->method->grids.values)));
    }
    json_t *columns = plan_columns_record(s);
    *out = json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o*, s:o*}", "type", "plan", "name",
                     s->name, "models", models, "bits", bits, "quantizers", quantizers, "datasets",
                     datasets, "variants", variants, "replicates", numbers_record(1, most),
                     "columns", columns);
    NEED(*out, ERR_NOMEM, "out of memory for the plan");
    if (p->seed >= 0) {
        json_object_set_new(*out, "seed", json_integer((json_int_t)p->seed));
        json_object_set_new(*out, "known_seed", json_integer((json_int_t)p->known_seed));
    }
    json_object_update(*out, p->lists);
    json_t *blocks = blocks_record(p);
    if (blocks) json_object_set_new(*out, axis_block.plan, blocks);
    return models_record(p, columns, models, e);
}

enum status plan_record(const struct plan *p, const char *command, json_t **out, struct err *e)
{
    char host[256] = "", utc[21], mpi[MPI_MAX_LIBRARY_VERSION_STRING];
    int n;
    json_t *libraries;
    PASS(axes_record(p, out, e));
    json_t *record = *out;
    gethostname(host, sizeof host - 1);
    clock_utc(utc);
    MPI_Get_library_version(mpi, &n);
    libraries = json_pack("{s:s, s:s, s:s}", "blas", linalg_blas_name(), "mpi", mpi, "jansson",
                          JANSSON_VERSION);
    json_object_set_new(record, "version", json_string(version_release));
    json_object_set_new(record, "git", json_string(version_commit));
    json_object_set_new(record, "libraries", libraries);
    json_object_set_new(record, "host", json_string(host));
    json_object_set_new(record, "command", json_string(command));
    json_object_set_new(record, "utc", json_string(utc));
    json_object_set_new(record, "config", sweep_to_json(p->sweep));
    json_object_set_new(record, "inputs", plan_inputs(p));
    json_object_set_new(record, "meanings", plan_meanings(p));
    if (p->back)
        json_object_set_new(record, "provenance", json_pack("{s:O}", "weights_read", p->back));
    if (json_object_size(p->past.read)) json_object_set(record, "read", p->past.read);
    if (json_object_size(p->past.grown)) json_object_set(record, "grown", p->past.grown);
    if (json_object_size(p->former)) json_object_set(record, "former_keys", p->former);
    return OK;
}

enum status plan_inventory(const struct plan *p, const struct results_view *view,
                           struct inventory *out, struct err *e)
{
    json_auto_t *record = NULL;
    PASS(axes_record(p, &record, e));
    return inventory_open(record, view, out, e);
}
