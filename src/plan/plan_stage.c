/* What a plan's visits need of what `stage` fetches, and in which order they are handed out then.
 */
#include "measure/curvature.h"
#include "measure/movement.h"
#include "measure/second_order.h"
#include "measure/surface.h"
#include "plan/plan_internal.h"
#include "results/holder.h"
#include "stage/claims.h"
#include "stage/ledger.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/quantity.h"
#include <stdlib.h>
#include <string.h>

bool plan_stages(const struct sweep *s)
{
    for (int64_t i = 0; i < s->n_models; i++)
        if (s->models[i].stage) return true;
    return false;
}

bool plan_is_away(const struct plan *p, const struct plan_checkpoint *c)
{
    return p->sweep->models[c->model].stage && !weights_present(&c->weights);
}

/* --- before the plan --- */

enum status plan_stage_shape(const struct sweep *s, int64_t model, char **out, struct err *e)
{
    enum status st = OK;
    char *ledger = NULL;
    *out = NULL;
    if (!s->models[model].stage) return OK;
    TRY(ledger_folder(s->results, &ledger, e));
    TRY(ledger_shape(ledger, s->models[model].name, out, e));
done:
    free(ledger);
    return st;
}

enum status plan_stage_lacks(const struct sweep *s, int64_t *model, struct err *e)
{
    enum status st = OK;
    char *ledger = NULL, *kept = NULL;
    json_t *state = NULL;
    *model = -1;
    TRY(ledger_folder(s->results, &ledger, e));
    TRY(ledger_read(ledger, &state, e));
    for (int64_t i = 0; i < s->n_models && *model < 0; i++) {
        free(kept);
        TRY(plan_stage_shape(s, i, &kept, e));
        if (kept && (!fsx_is_dir(kept) || claims_model_bytes(state, s->models[i].name) < 0))
            *model = i;
    }
done:
    free(ledger);
    free(kept);
    json_decref(state);
    return st;
}

/* --- jobs --- */

/* The job (stager.h) without items; "known": {PATH: {"model", "row", "item": its index, if it is
 * one}} of all stored rows of models with a `stage`. The caller decrefs. */
static enum status make_job(const struct sweep *s, const char *user, bool uses, json_t **out,
                            struct err *e)
{
    enum status st = OK;
    const struct run_options *o = &s->run;
    char *ledger = NULL;
    json_t *self = holder_self(), *known = json_object();
    TRY(ledger_folder(s->results, &ledger, e));
    *out = json_pack("{s:s, s:s, s:s, s:I, s:I, s:f, s:b, s:b, s:[], s:[], s:O}", "folder", ledger,
                     "user", user, "life", json_text(self, "token", ""), "space",
                     (json_int_t)o->stage_bytes, "tries", (json_int_t)o->stage_tries, "pause",
                     o->stage_pause, "commands", !uses || o->stage_commands, "uses", uses, "items",
                     "visits", "known", known);
    ENSURE(*out, ERR_NOMEM, "out of memory for staging");
    for (int64_t i = 0; i < s->n_models; i++)
        for (int64_t row = 0; s->models[i].stage && row < s->models[i].n_stored; row++) {
            struct weights w = {0};
            st = plan_find_weights(s, i, row, &w, e);
            if (st == OK)
                json_object_set_new(
                    known, w.path,
                    json_pack("{s:I, s:I}", "model", (json_int_t)i, "row", (json_int_t)row));
            options_free(&weights_table, &w);
            TRY(st);
        }
done:
    free(ledger);
    json_decref(self);
    json_decref(known);
    return st;
}

static enum status add_item(const struct sweep *s, json_t *job, const char *known_as, json_t *known,
                            struct err *e)
{
    enum status st = OK;
    const struct model_entry *m = &s->models[claims_number(known, "model")];
    const int64_t row = claims_number(known, "row");
    json_t *command = NULL, *items = json_object_get(job, "items");
    char *path = NULL, *partial = NULL, *log = NULL;
    TRY(ledger_path(known_as, &path, e));
    TRY(ledger_beside(path, "partial", &partial, e));
    TRY(ledger_log(json_text(job, "folder", ""), path, &log, e));
    TRY(stage_command(m, row, partial, &command, e));
    json_object_set_new(known, "item", json_integer((json_int_t)json_array_size(items)));
    json_array_append_new(items,
                          json_pack("{s:s++, s:s, s:s, s:b, s:O, s:s, s:s}", "name", m->name, " ",
                                    m->rows[row].checkpoint, "model", m->name, "path", path, "keep",
                                    m->keep, "command", command, "partial", partial, "log", log));
    TRY(json_whole(e));
done:
    free(path);
    free(partial);
    free(log);
    json_decref(command);
    return st;
}

/* Adds the stored folders that w reads to a visit's items and reads. */
static enum status add_weights(const struct sweep *s, json_t *job, const struct weights *w,
                               json_t *visit, json_t *reads, struct err *e)
{
    json_t *known = w->path ? json_object_get(json_object_get(job, "known"), w->path) : NULL;
    for (int64_t i = 0; i < w->n; i++) PASS(add_weights(s, job, &w->parts[i], visit, reads, e));
    if (!known) return OK;
    if (!json_object_get(known, "item")) PASS(add_item(s, job, w->path, known, e));
    json_t *number = json_object_get(known, "item");
    const json_t *item =
        json_array_get(json_object_get(job, "items"), (size_t)json_integer_value(number));
    if (json_object_get(reads, json_text(item, "path", ""))) return OK;
    json_array_append(visit, number);
    json_object_set(reads, json_text(item, "path", ""), json_object_get(item, "model"));
    return OK;
}

/* Adds a visit that reads these items; *stage = what its ranks wait for (await_look). */
static enum status end_visit(json_t *job, json_t *items, json_t *reads, json_t **stage,
                             struct err *e)
{
    json_t *visits = json_object_get(job, "visits");
    if (json_object_size(reads))
        *stage =
            json_pack("{s:O, s:O, s:O, s:O, s:I, s:O}", "folder", json_object_get(job, "folder"),
                      "user", json_object_get(job, "user"), "life", json_object_get(job, "life"),
                      "space", json_object_get(job, "space"), "visit",
                      (json_int_t)json_array_size(visits), "reads", reads);
    json_array_append(visits, items);
    return json_whole(e);
}

enum status plan_stage_row(const struct sweep *s, int64_t model, int64_t row, const char *user,
                           bool uses, json_t **job, json_t **stage, struct err *e)
{
    enum status st = OK;
    struct weights w = {0};
    json_t *items = json_array(), *reads = json_object();
    TRY(make_job(s, user, uses, job, e));
    TRY(plan_find_weights(s, model, row, &w, e));
    TRY(add_weights(s, *job, &w, items, reads, e));
    TRY(end_visit(*job, items, reads, stage, e));
done:
    options_free(&weights_table, &w);
    json_decref(items);
    json_decref(reads);
    return st;
}

/* All that the visit and its parts read. */
static enum status add_visit(const struct sweep *s, json_t *job, struct plan_visit *planned,
                             struct err *e)
{
    enum status st = OK;
    const struct visit *v = &planned->visit;
    const struct second_order_task *second = v->task[PART_SECOND_ORDER];
    const struct curvature_task *curvature = v->task[PART_CURVATURE];
    const struct movement_task *movement = v->task[PART_MOVEMENT];
    const struct surface_task *surface = v->task[PART_SURFACE];
    json_t *items = json_array(), *reads = json_object();
    TRY(add_weights(s, job, &v->weights, items, reads, e));
    if (second) TRY(add_weights(s, job, &second->previous, items, reads, e));
    for (int64_t i = 0; curvature && i < curvature->n_before; i++)
        TRY(add_weights(s, job, &curvature->before[i].weights, items, reads, e));
    if (movement) TRY(add_weights(s, job, &movement->before, items, reads, e));
    for (int64_t i = 0; surface && i < surface->n; i++)
        TRY(add_weights(s, job, &surface->parts[i], items, reads, e));
    TRY(end_visit(job, items, reads, &planned->stage, e));
done:
    json_decref(items);
    json_decref(reads);
    return st;
}

/* --- order --- */

struct place {
    int64_t visit;
    int64_t ranks, model, row;
    bool begun;    /* it has a saved state */
    double length; /* of the model's longest visit */
    bool derived;  /* an average, after the stored checkpoint of its row */
};

static int by_turn(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->ranks != y->ranks) return x->ranks < y->ranks ? 1 : -1;
    if (x->begun != y->begun) return x->begun ? -1 : 1;
    if (x->length != y->length) return x->length < y->length ? 1 : -1;
    if (x->model != y->model) return x->model < y->model ? -1 : 1;
    if (x->row != y->row) return x->row < y->row ? -1 : 1;
    if (x->derived != y->derived) return x->derived ? 1 : -1;
    return x->visit < y->visit ? -1 : x->visit > y->visit;
}

static double length_of(const struct plan_visit *v)
{
    double sum = v->cost;
    for (int64_t i = 0; i < v->n_pieces; i++) sum += v->pieces[i];
    return sum;
}

/* The place in training of the last checkpoint that the visit is of; points of surfaces come last.
 */
static void find_place(const struct sweep *s, const struct plan_visit *v, struct place *out)
{
    const struct model_entry *m = &s->models[v->model];
    out->row = INT64_MAX;
    for (int64_t i = 0; i < m->n_rows && !v->visit.task[PART_SURFACE]; i++) {
        if (strcmp(m->rows[i].checkpoint, v->visit.checkpoint) != 0) continue;
        const int64_t row = trajectory_table_row(s, v->model, i);
        out->row = row < 0 ? i : row;
        out->derived = i >= m->n_stored;
        return;
    }
}

static enum status find_turns(const struct sweep *s, const struct plan_visits *v,
                              const int64_t *ranks, struct place **out, struct err *e)
{
    enum status st = OK;
    double *longest = NULL;
    TRY(mem_zero(out, v->n, sizeof **out, "visits", e));
    TRY(mem_zero(&longest, s->n_models, sizeof *longest, "models", e));
    for (int64_t i = 0; i < v->n; i++) {
        const double length = length_of(&v->visits[i]);
        if (length > longest[v->visits[i].model]) longest[v->visits[i].model] = length;
    }
    for (int64_t i = 0; i < v->n; i++) {
        const int64_t model = v->visits[i].model;
        (*out)[i] = (struct place){.visit = i,
                                   .ranks = ranks[model],
                                   .begun = v->visits[i].saved > 0,
                                   .model = model,
                                   .length = longest[model]};
        find_place(s, &v->visits[i], &(*out)[i]);
    }
    qsort(*out, (size_t)v->n, sizeof **out, by_turn);
done:
    free(longest);
    return st;
}

/* --- space --- */

/* What any visit reads must fit; the error says how much would do. */
static enum status check_space(const struct sweep *s, const json_t *job,
                               const struct plan_visits *v, struct err *e)
{
    char asked[QUANTITY], there[QUANTITY];
    const struct plan_visit *largest = NULL;
    int64_t most = 0;
    json_t *state, *model;
    const char *path;
    PASS(ledger_read(json_text(job, "folder", ""), &state, e));
    for (int64_t i = 0; i < v->n; i++) {
        int64_t sum = 0;
        json_object_foreach(json_object_get(v->visits[i].stage, "reads"), path, model)
        {
            const int64_t bytes = claims_model_bytes(state, json_string_value(model));
            if (!claims_is(claims_entry(state, path), "own") && bytes > 0) sum += bytes;
        }
        if (sum > most) largest = &v->visits[i];
        if (sum > most) most = sum;
    }
    json_decref(state);
    if (s->run.stage_bytes == 0 || most <= s->run.stage_bytes) return OK;
    const size_t n = json_object_size(json_object_get(largest->stage, "reads"));
    quantity_prefix((double)most, asked);
    quantity_prefix((double)s->run.stage_bytes, there);
    RAISE(ERR_USAGE,
          "run.stage_space: %sB (%lld bytes), but the visit of %s %s reads %zu checkpoint%s at "
          "once, which take %sB (%lld bytes); so much would do for all visits",
          there, (long long)s->run.stage_bytes, largest->visit.model, largest->visit.checkpoint, n,
          quantity_plural((int64_t)n), asked, (long long)most);
}

void plan_stage_user(const char *prefix, const struct plan_part *part, char user[64])
{
    if (part->n == 0)
        snprintf(user, 64, "%sall", prefix);
    else
        snprintf(user, 64, "%spart-%lld-of-%lld", prefix, (long long)part->k, (long long)part->n);
}

enum status plan_stage_job(const struct plan *p, struct plan_visits *v, const int64_t *ranks,
                           const char *user, bool uses, json_t **out, struct err *e)
{
    enum status st = OK;
    struct place *order = NULL;
    *out = NULL;
    TRY(make_job(p->sweep, user, uses, out, e));
    TRY(find_turns(p->sweep, v, ranks, &order, e));
    for (int64_t i = 0; i < v->n; i++) {
        struct plan_visit *visit = &v->visits[order[i].visit];
        visit->turn = 1 + i;
        TRY(add_visit(p->sweep, *out, visit, e));
    }
    st = check_space(p->sweep, *out, v, e);
done:
    free(order);
    if (st != OK) json_decref(*out);
    return st;
}
