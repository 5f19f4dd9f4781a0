/* The plan as a record of the journal. */
#include "config/trajectory.h"
#include "cube/cube.h"
#include "engine/inputs.h"
#include "math/linalg.h"
#include "plan/plan_internal.h"
#include "records/steps_table.h"
#include "util/clock.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/version.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- tokens of the evaluation texts by the sweep's common tokenizer, which are in no key --- */

enum status plan_common_check(struct plan *p, struct err *e)
{
    AUTO_FREE char *path = NULL;
    char hash[HASH_HEX];
    if (!p->sweep->count_tokens) return OK;
    PASS(visit_common_tokenizer(p->sweep->count_tokens, &path, e));
    PASS(hash_file(path, hash, e));
    json_object_set_new(p->inputs, path, json_string(hash));
    return OK;
}

const struct plan_checkpoint *plan_a_checkpoint(const struct plan *p, int64_t model)
{
    const struct plan_checkpoint *first = NULL;
    for (int64_t i = 0; i < p->n_checkpoints; i++) {
        const struct plan_checkpoint *c = &p->checkpoints[i];
        if (c->model != model) continue;
        if (weights_present(&c->weights)) return c;
        if (!first) first = c;
    }
    return first;
}

static enum status common_record(const struct plan *p, int64_t model, struct visit_cache *cache,
                                 json_t **out, struct err *e)
{
    enum status st = OK;
    const struct sweep *s = p->sweep;
    const struct plan_checkpoint *c = plan_a_checkpoint(p, model);
    struct visit v = {.weights = c->weights, /* shallow */
                      .tokenizer = s->models[model].tokenizer};
    *out = NULL;
    if (!s->count_tokens) return OK;
    *out = json_object();
    TRY(plan_visit_inputs(p, c, &v, e));
    for (int64_t i = 0; i < s->n_evaluations; i++) {
        const struct data_options d = plan_data(p, model, &s->evaluations[i]);
        struct err why = {0};
        int64_t tokens = 0;
        if (d.ids) continue;
        const enum status counted =
            visit_common_tokens(cache, &v, &d, s->count_tokens, &tokens, &why);
        ENSURE(counted != ERR_NOMEM, counted, "%s", why.text);
        if (counted != OK) /* a visit says what is wrong; the next run tries again */
            log_warn("%s: the common tokens of %s are not counted: %s", s->models[model].name,
                     d.name, why.text);
        else
            json_object_set_new(*out, d.name, json_integer((json_int_t)tokens));
    }
done:
    json_decref(v.inputs);
    return st;
}

/* --- columns of trajectory tables that the program does not know: variables of the cube --- */

/* The model's column of that name; NULL: it has none. */
static const struct trajectory_column *column_of(const struct model_entry *m, const char *name)
{
    for (int64_t i = 0; i < m->n_columns; i++)
        if (strcmp(m->columns[i].name, name) == 0) return &m->columns[i];
    return NULL;
}

enum status plan_columns_check(const struct sweep *s, struct err *e)
{
    for (int64_t i = 0; i < s->n_models; i++)
        for (int64_t j = 0; j < s->models[i].n_columns; j++) {
            const struct trajectory_column *c = &s->models[i].columns[j];
            NEED(!cube_reserves(c->name), ERR_USAGE,
                 "%s:%lld: field %lld: %s: the cube has a variable of this name already: give the "
                 "column another one",
                 s->models[i].trajectory, (long long)c->line, (long long)c->field, c->name);
        }
    return OK;
}

/* Whether all that stands in the columns of that name are numbers. */
static bool is_number(const struct sweep *s, const char *name)
{
    for (int64_t i = 0; i < s->n_models; i++) {
        const struct trajectory_column *c = column_of(&s->models[i], name);
        double value;
        for (int64_t j = 0; c && j < c->n; j++)
            if (c->values[j][0] && !trajectory_number(c->values[j], &value)) return false;
    }
    return true;
}

static json_t *columns_record(const struct sweep *s)
{
    json_t *list = NULL;
    for (int64_t i = 0; i < s->n_models; i++)
        for (int64_t j = 0; j < s->models[i].n_columns; j++) {
            const char *name = s->models[i].columns[j].name;
            bool known = false;
            for (int64_t k = 0; k < i; k++) known = known || column_of(&s->models[k], name);
            if (known) continue;
            if (!list) list = json_array();
            json_array_append_new(
                list, json_pack("{s:s, s:b}", "name", name, "number", is_number(s, name)));
        }
    return list;
}

static json_t *columns_of(const json_t *columns, const struct sweep *s, int64_t model, int64_t row)
{
    const struct model_entry *m = &s->models[model];
    const int64_t of = trajectory_table_row(s, model, row);
    size_t i;
    const json_t *column;
    json_t *values = columns ? json_array() : NULL;
    json_array_foreach(columns, i, column) {
        const struct trajectory_column *c = column_of(m, json_text(column, "name", ""));
        const char *text = c && of >= 0 ? c->values[of] : "";
        double value;
        if (!text[0])
            json_array_append_new(values, json_null());
        else if (json_flag(column, "number") && trajectory_number(text, &value))
            json_array_append_new(values, json_real(value));
        else
            json_array_append_new(values, json_string(text));
    }
    return values;
}

/* --- the record --- */

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
        "former", c->former, "columns", columns_of(columns, p->sweep, c->model, c->row), "known",
        strcmp(known, row->checkpoint) ? known : NULL, "known_recipe",
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
        enum status st = common_record(p, i, &cache, &common, e);
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
    json_t *columns = columns_record(s);
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
