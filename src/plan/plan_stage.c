/* What a plan's visits need of what `stage` fetches, and in which order they are handed out then.
 */
#include "plan/plan_internal.h"
#include "records/holder.h"
#include "stage/ledger.h"
#include "util/fsx.h"
#include "util/mem.h"

bool plan_stages(const struct sweep *s)
{
    for (int64_t i = 0; i < s->n_models; i++)
        if (s->models[i].stage) return true;
    return false;
}

enum status plan_stage_shape(const struct sweep *s, int64_t model, char **out, struct err *e)
{
    *out = NULL;
    return s->models[model].stage ? fsx_parent(s->models[model].tokenizer, out, e) : OK;
}

/* --- jobs --- */

/* Adds the item (stager.h) of a stored row, with its "path", to those known by the paths that
 * visits name. */
static enum status add_item(const struct plan *p, int64_t model, int64_t row, const char *folder,
                            json_t *known, struct err *e)
{
    const struct model_entry *m = &p->sweep->models[model];
    CLEANUP(weights_free) struct weights w = {0};
    json_auto_t *command = NULL;
    AUTO_FREE char *path = NULL, *partial = NULL, *log = NULL;
    PASS(plan_find_weights(p, model, row, &w, e));
    PASS(ledger_path(w.path, &path, e));
    PASS(ledger_partial(path, &partial, e));
    PASS(ledger_file(folder, path, "log", &log, e));
    PASS(stage_command(m, row, partial, &command, e));
    json_object_set_new(known, w.path,
                        json_pack("{s:s, s:s++, s:s, s:b, s:O, s:s, s:s}", "path", path, "name",
                                  m->name, " ", m->rows[row].checkpoint, "model", m->name, "keep",
                                  m->keep, "command", command, "partial", partial, "log", log));
    return OK;
}

/* Adds what a visit's JSON names of the known, wherever it does so, to its reads and the items. */
static void add_reads(const json_t *known, json_t *value, json_t *items, json_t *reads)
{
    const char *key = json_string_value(value), *path;
    json_t *one, *item = key ? json_object_get(known, key) : NULL;
    size_t i;
    if (item) {
        path = json_text(item, "path", "");
        json_object_set(items, path, item);
        json_object_set(reads, path, json_object_get(item, "model"));
    }
    json_array_foreach(value, i, one) add_reads(known, one, items, reads);
    json_object_foreach(value, key, one) add_reads(known, one, items, reads);
}

/* --- order --- */

/* The place in training of what the visit is of, an average after its last member; points of
 * surfaces come last. */
static double place_in_training(const struct sweep *s, const struct plan_visit *v)
{
    const struct model_entry *m = &s->models[v->model];
    const int64_t row = v->row < m->n_rows ? trajectory_table_row(s, v->model, v->row) : -1;
    return row < 0 ? (double)v->row : (double)row + (v->row >= m->n_stored ? 0.5 : 0);
}

/* Models that take the most ranks go first, as the master runs them. */
static int by_turn(const void *a, const void *b, void *plan)
{
    const struct plan *p = plan;
    const struct plan_visit *x = a, *y = b;
    const struct plan_model *models = p->costs.models;
    const double keys[] = {(double)(models[y->model].ranks - models[x->model].ranks),
                           (double)(x->model - y->model),
                           place_in_training(p->sweep, x) - place_in_training(p->sweep, y),
                           (double)(x->files - y->files)};
    int i = 0;
    while (i < 3 && keys[i] == 0) i++;
    return (keys[i] > 0) - (keys[i] < 0);
}

/* Adds the visits to the job, with what each reads of the known, and gives them their turns. */
static void add_visits(json_t *job, const json_t *known, struct plan_visits *v)
{
    static const char *const shared[] = {"folder", "user", "life", "space"};
    for (int64_t i = 0; i < v->n; i++) {
        struct plan_visit *at = &v->visits[i];
        json_t *stage = json_object(), *reads = json_object(), *json = visit_to_json(&at->visit);
        add_reads(known, json, json_object_get(job, "items"), reads);
        json_decref(json);
        for (int k = 0; k < 4; k++)
            json_object_set(stage, shared[k], json_object_get(job, shared[k]));
        json_object_set_new(stage, "visit",
                            json_sprintf("%s: %d %s %s", json_text(job, "user", ""), (int)i,
                                         at->visit.model, at->visit.checkpoint));
        json_object_set_new(stage, "reads", reads);
        at->turn = 1 + i;
        if (json_object_size(reads)) at->stage = json_incref(stage);
        json_array_append_new(json_object_get(job, "visits"), stage);
    }
}

enum status plan_stage_job(const struct plan *p, struct plan_visits *v,
                           const struct plan_part *part, bool uses, json_t **out, struct err *e)
{
    const struct sweep *s = p->sweep;
    const struct run_options *o = &s->run;
    const double patience = 6 * 3600.0; /* a mass store may look for a tape */
    json_auto_t *self = holder_self(), *known = json_object(), *job = NULL;
    job = json_pack("{s:s+, s:o, s:O, s:I, s:I, s:f, s:f, s:b, s:b, s:{}, s:{}, s:[]}", "folder",
                    s->results, ".stage", "user",
                    json_sprintf("%s %d of %d", uses ? "run" : "stage", (int)part->k, (int)part->n),
                    "life", json_object_get(self, "token"), "space",
                    (json_int_t)(o->stage_bytes ? o->stage_bytes : INT64_MAX / 4), "tries",
                    (json_int_t)o->stage_tries, "pause", o->stage_pause, "patience", patience,
                    "commands", !uses || o->stage_commands, "uses", uses, "models", "items",
                    "visits");
    for (int64_t m = 0; m < s->n_models; m++) {
        const struct plan_model *c = &p->costs.models[m];
        /* by config.json, with some for a tokenizer and the like */
        const double bytes = c->bytes_per_weight * (double)c->sizes.spec.shape.parameters * 33 / 32;
        json_object_set_new(json_object_get(job, "models"), s->models[m].name,
                            json_integer((json_int_t)bytes));
        for (int64_t row = 0; s->models[m].stage && row < s->models[m].n_stored; row++)
            PASS(add_item(p, m, row, json_text(job, "folder", ""), known, e));
    }
    qsort_r(v->visits, (size_t)v->n, sizeof *v->visits, by_turn, (void *)(uintptr_t)p);
    add_visits(job, known, v);
    PASS(json_whole(e));
    *out = TAKE(job);
    return OK;
}
