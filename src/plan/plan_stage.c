/* What a plan's visits need of what `stage` fetches, and in which order they are handed out then.
 */
#include "plan/plan_internal.h"
#include "records/holder.h"
#include "stage/claims.h"
#include "stage/ledger.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/quantity.h"
#include <stdlib.h>

bool plan_stages(const struct sweep *s)
{
    for (int64_t i = 0; i < s->n_models; i++)
        if (s->models[i].stage) return true;
    return false;
}

enum status plan_stage_shape(const struct sweep *s, int64_t model, char **out, struct err *e)
{
    enum status st = OK;
    char *ledger = NULL;
    *out = NULL;
    if (!s->models[model].stage) return OK;
    TRY(mem_format(&ledger, e, "%s.stage", s->results));
    TRY(ledger_file(ledger, s->models[model].name, "shape", out, e));
done:
    free(ledger);
    return st;
}

static int64_t largest_of(const json_t *ledger, const struct model_entry *m)
{
    return claims_number(json_object_get(ledger, "models"), m->name);
}

enum status plan_stage_known(const struct sweep *s, int64_t model, bool *known, struct err *e)
{
    enum status st = OK;
    char *shape = NULL, *folder = NULL;
    json_t *ledger = NULL;
    TRY(plan_stage_shape(s, model, &shape, e));
    TRY(mem_format(&folder, e, "%s.stage", s->results));
    if (shape) TRY(ledger_read(folder, &ledger, e));
    *known = !shape || (fsx_is_dir(shape) && largest_of(ledger, &s->models[model]) > 0);
done:
    free(shape);
    free(folder);
    json_decref(ledger);
    return st;
}

/* --- jobs --- */

/* Adds the item (stager.h) of a stored row, with its "path", to those known by the paths that
 * visits name. ledger: its state. */
static enum status add_item(const struct sweep *s, int64_t model, int64_t row, const char *folder,
                            const json_t *ledger, json_t *known, struct err *e)
{
    enum status st = OK;
    const struct model_entry *m = &s->models[model];
    struct weights w = {0};
    json_t *command = NULL;
    char *path = NULL, *partial = NULL, *log = NULL;
    TRY(plan_find_weights(s, model, row, &w, e));
    TRY(ledger_path(w.path, &path, e));
    TRY(ledger_partial(path, &partial, e));
    TRY(ledger_file(folder, path, "log", &log, e));
    TRY(stage_command(m, row, partial, &command, e));
    const bool own = claims_is(claims_entry(ledger, path), "own");
    json_object_set_new(known, w.path,
                        json_pack("{s:s, s:s++, s:s, s:I, s:b, s:O, s:s, s:s}", "path", path,
                                  "name", m->name, " ", m->rows[row].checkpoint, "model", m->name,
                                  "bytes", (json_int_t)(own ? 0 : max64(1, largest_of(ledger, m))),
                                  "keep", m->keep, "command", command, "partial", partial, "log",
                                  log));
done:
    options_free(&weights_table, &w);
    free(path);
    free(partial);
    free(log);
    json_decref(command);
    return st;
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
        json_object_set(reads, path, json_object_get(item, "bytes"));
    }
    json_array_foreach(value, i, one) add_reads(known, one, items, reads);
    json_object_foreach(value, key, one) add_reads(known, one, items, reads);
}

/* *out = the job (stager.h) of a list of visits, as JSON, which is taken. */
static enum status make_job(const struct sweep *s, const struct plan_part *part, bool uses,
                            json_t *list, json_t **out, struct err *e)
{
    enum status st = OK;
    const struct run_options *o = &s->run;
    const double patience = 6 * 3600.0; /* a mass store may look for a tape */
    json_t *self = holder_self(), *known = json_object(), *items = json_object(),
           *visits = json_array(), *ledger = NULL, *one;
    const char *folder;
    size_t i;
    *out =
        json_pack("{s:s+, s:o, s:O, s:I}", "folder", s->results, ".stage", "user",
                  json_sprintf("%s %d of %d", uses ? "run" : "stage", (int)part->k, (int)part->n),
                  "life", json_object_get(self, "token"), "space",
                  (json_int_t)(o->stage_bytes ? o->stage_bytes : INT64_MAX / 4));
    folder = json_text(*out, "folder", "");
    TRY(ledger_read(folder, &ledger, e));
    for (int64_t m = 0; m < s->n_models; m++)
        for (int64_t row = 0; s->models[m].stage && row < s->models[m].n_stored; row++)
            TRY(add_item(s, m, row, folder, ledger, known, e));
    json_array_foreach(list, i, one)
    {
        json_t *visit = json_copy(*out), *reads = json_object();
        add_reads(known, one, items, reads);
        json_object_set_new(visit, "visit",
                            json_sprintf("%s: %d", json_text(visit, "user", ""), (int)i));
        json_object_set_new(visit, "reads", reads);
        json_array_append_new(visits, visit);
    }
    json_object_update_new(*out,
                           json_pack("{s:I, s:f, s:f, s:b, s:b, s:O, s:O}", "tries",
                                     (json_int_t)o->stage_tries, "pause", o->stage_pause,
                                     "patience", patience, "commands", !uses || o->stage_commands,
                                     "uses", uses, "items", items, "visits", visits));
    TRY(json_whole(e));
done:
    json_decref(list);
    json_decref(self);
    json_decref(known);
    json_decref(items);
    json_decref(visits);
    json_decref(ledger);
    return st;
}

enum status plan_stage_row(const struct sweep *s, int64_t model, int64_t row,
                           const struct plan_part *part, bool uses, json_t **job, struct err *e)
{
    enum status st = OK;
    struct weights w = {0};
    TRY(plan_find_weights(s, model, row, &w, e));
    TRY(make_job(s, part, uses, json_pack("[s]", w.path), job, e));
done:
    options_free(&weights_table, &w);
    return st;
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

/* What any visit reads must fit; the error says how much would do. */
static enum status check_space(const struct sweep *s, const struct plan_visits *v, struct err *e)
{
    char asked[QUANTITY];
    int64_t most = s->run.stage_bytes ? s->run.stage_bytes : INT64_MAX;
    const struct plan_visit *at = NULL;
    json_t *expected;
    const char *path;
    for (int64_t i = 0; i < v->n; i++) {
        int64_t sum = 0;
        json_object_foreach(json_object_get(v->visits[i].stage, "reads"), path, expected) sum +=
            json_integer_value(expected);
        if (sum > most) at = &v->visits[i];
        most = max64(most, sum);
    }
    if (!at) return OK;
    quantity_prefix((double)most, asked);
    RAISE(ERR_USAGE,
          "run.stage_space: %s, but the visit of %s %s reads %zu checkpoints at once, which take "
          "%sB (%lld bytes); so much would do for all visits",
          s->run.stage_space, at->visit.model, at->visit.checkpoint,
          json_object_size(json_object_get(at->stage, "reads")), asked, (long long)most);
}

enum status plan_stage_job(const struct plan *p, struct plan_visits *v,
                           const struct plan_part *part, bool uses, json_t **out, struct err *e)
{
    enum status st = OK;
    json_t *list = json_array();
    qsort_r(v->visits, (size_t)v->n, sizeof *v->visits, by_turn, (void *)(uintptr_t)p);
    for (int64_t i = 0; i < v->n; i++)
        json_array_append_new(list, visit_to_json(&v->visits[i].visit));
    TRY(make_job(p->sweep, part, uses, list, out, e));
    for (int64_t i = 0; i < v->n; i++) {
        json_t *stage = json_array_get(json_object_get(*out, "visits"), (size_t)i);
        v->visits[i].turn = 1 + i;
        if (json_object_size(json_object_get(stage, "reads")))
            v->visits[i].stage = json_incref(stage);
    }
    TRY(check_space(p->sweep, v, e));
done:
    if (st != OK) json_decref(*out);
    return st;
}
