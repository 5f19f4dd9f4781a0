/* What a plan's visits need of what `stage` fetches, and in which order they are handed out then.
 */
#include "plan/plan_internal.h"
#include "results/holder.h"
#include "stage/claims.h"
#include "stage/ledger.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/quantity.h"
#include <stdlib.h>
#include <string.h>

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

/* --- jobs --- */

/* The job (stager.h) without items and visits; "ledger": its state; "known": {PATH as visits name
 * it: {"model", "row"}}, all stored rows of models with a `stage`. */
static enum status make_job(const struct sweep *s, const struct plan_part *part, bool uses,
                            json_t **out, struct err *e)
{
    const struct run_options *o = &s->run;
    const double patience = 6 * 3600.0; /* a mass store may look for a tape */
    json_t *self = holder_self(), *known = json_object(), *ledger;
    *out = json_pack(
        "{s:o, s:o, s:s, s:I, s:I, s:f, s:f, s:b, s:b, s:{}, s:{}, s:o}", "folder",
        json_sprintf("%s.stage", s->results), "user",
        json_sprintf("%s %d of %d", uses ? "run" : "stage", (int)part->k, (int)part->n), "life",
        json_text(self, "token", ""), "space",
        (json_int_t)(o->stage_bytes ? o->stage_bytes : INT64_MAX / 4), "tries",
        (json_int_t)o->stage_tries, "pause", o->stage_pause, "patience", patience, "commands",
        !uses || o->stage_commands, "uses", uses, "items", "visits", "known", known);
    json_decref(self);
    NEED(*out, ERR_NOMEM, "out of memory for staging");
    PASS(ledger_read(json_text(*out, "folder", ""), &ledger, e));
    json_object_set_new(*out, "ledger", ledger);
    for (int64_t i = 0; i < s->n_models; i++)
        for (int64_t row = 0; s->models[i].stage && row < s->models[i].n_stored; row++) {
            struct weights w = {0};
            PASS(plan_find_weights(s, i, row, &w, e));
            json_object_set_new(
                known, w.path,
                json_pack("{s:I, s:I}", "model", (json_int_t)i, "row", (json_int_t)row));
            options_free(&weights_table, &w);
        }
    return OK;
}

/* Adds a known checkpoint to a visit's reads, and to the job's items. */
static enum status add_item(const struct sweep *s, const json_t *job, const char *known_as,
                            const json_t *known, json_t *reads, struct err *e)
{
    enum status st = OK;
    const struct model_entry *m = &s->models[claims_number(known, "model")];
    const int64_t row = claims_number(known, "row");
    const json_t *ledger = json_object_get(job, "ledger");
    const int64_t bytes = max64(1, claims_number(json_object_get(ledger, "models"), m->name));
    json_t *command = NULL;
    char *path = NULL, *partial = NULL, *log = NULL;
    TRY(ledger_path(known_as, &path, e));
    TRY(ledger_partial(path, &partial, e));
    TRY(ledger_file(json_text(job, "folder", ""), path, "log", &log, e));
    TRY(stage_command(m, row, partial, &command, e));
    json_object_set_new(json_object_get(job, "items"), path,
                        json_pack("{s:s++, s:s, s:I, s:b, s:O, s:s, s:s}", "name", m->name, " ",
                                  m->rows[row].checkpoint, "model", m->name, "bytes",
                                  (json_int_t)bytes, "keep", m->keep, "command", command, "partial",
                                  partial, "log", log));
    const bool own = claims_is(claims_entry(ledger, path), "own");
    json_object_set_new(reads, path, json_integer(own ? 0 : bytes));
done:
    free(path);
    free(partial);
    free(log);
    json_decref(command);
    return st;
}

/* Adds what the JSON of a visit names, wherever it does so. */
static enum status add_reads(const struct sweep *s, const json_t *job, json_t *value, json_t *reads,
                             struct err *e)
{
    const char *key = json_string_value(value);
    json_t *one, *known = key ? json_object_get(json_object_get(job, "known"), key) : NULL;
    size_t i;
    if (known) PASS(add_item(s, job, key, known, reads, e));
    json_array_foreach(value, i, one) PASS(add_reads(s, job, one, reads, e));
    json_object_foreach(value, key, one) PASS(add_reads(s, job, one, reads, e));
    return OK;
}

/* Adds a visit; takes its JSON. *stage = what its ranks wait for (stager_ask); NULL: nothing. */
static enum status add_visit(const struct sweep *s, json_t *job, json_t *visit, json_t **stage,
                             struct err *e)
{
    static const char *const shared[] = {"folder", "user", "life", "space"};
    char name[80];
    json_t *visits = json_object_get(job, "visits"), *reads = json_object();
    const enum status st = add_reads(s, job, visit, reads, e);
    snprintf(name, sizeof name, "%s: %zu", json_text(job, "user", ""), json_object_size(visits));
    if (json_object_size(reads)) *stage = json_pack("{s:s, s:O}", "visit", name, "reads", reads);
    for (size_t i = 0; *stage && i < sizeof shared / sizeof *shared; i++)
        json_object_set(*stage, shared[i], json_object_get(job, shared[i]));
    json_object_set_new(visits, name, reads);
    json_decref(visit);
    PASS(st);
    return json_whole(e);
}

enum status plan_stage_row(const struct sweep *s, int64_t model, int64_t row,
                           const struct plan_part *part, bool uses, json_t **job, json_t **stage,
                           struct err *e)
{
    enum status st = OK;
    struct weights w = {0};
    TRY(make_job(s, part, uses, job, e));
    TRY(plan_find_weights(s, model, row, &w, e));
    TRY(add_visit(s, *job, json_string(w.path), stage, e));
done:
    options_free(&weights_table, &w);
    if (st != OK) json_decref(*job);
    return st;
}

/* --- order --- */

/* The place in training of what the visit is of, an average after its last member; points of
 * surfaces come last. */
static double place_in_training(const struct sweep *s, const struct plan_visit *v)
{
    const struct model_entry *m = &s->models[v->model];
    int64_t i = v->visit.task[MEASURE_point] ? m->n_rows : 0;
    while (i < m->n_rows && strcmp(m->rows[i].checkpoint, v->visit.checkpoint) != 0) i++;
    const int64_t row = i < m->n_rows ? trajectory_table_row(s, v->model, i) : -1;
    return row < 0 ? (double)i : (double)row + (i >= m->n_stored ? 0.5 : 0);
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
    TRY(make_job(p->sweep, part, uses, out, e));
    qsort_r(v->visits, (size_t)v->n, sizeof *v->visits, by_turn, (void *)(uintptr_t)p);
    for (int64_t i = 0; i < v->n; i++) {
        struct plan_visit *visit = &v->visits[i];
        visit->turn = 1 + i;
        TRY(add_visit(p->sweep, *out, visit_to_json(&visit->visit), &visit->stage, e));
    }
    TRY(check_space(p->sweep, v, e));
done:
    if (st != OK) json_decref(*out);
    return st;
}
