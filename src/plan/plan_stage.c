/* What a plan's visits need of what `stage` fetches, and in which order they are handed out then.
 */
#include "measure/curvature.h"
#include "measure/movement.h"
#include "measure/second_order.h"
#include "measure/surface.h"
#include "plan/plan_internal.h"
#include "plan/plan_parts.h"
#include "results/part_files.h"
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

bool plan_is_away(const struct plan *p, const struct plan_checkpoint *c)
{
    return p->sweep->models[c->model].stage && !weights_present(&c->weights);
}

/* --- before the plan --- */

static bool has_config(const char *folder)
{
    char *file = NULL;
    const bool there = mem_format(&file, NULL, "%s/config.json", folder) == OK && fsx_is_file(file);
    free(file);
    return there;
}

static enum status knows_shape(const struct sweep *s, int64_t model, bool *known, struct err *e)
{
    char *kept;
    PASS(plan_stage_shape(s, model, &kept, e));
    *known = has_config(kept);
    free(kept);
    return OK;
}

enum status plan_stage_lacks(const struct sweep *s, const char *ledger, int64_t *model,
                             struct err *e)
{
    enum status st = OK;
    json_t *state = NULL;
    *model = -1;
    TRY(ledger_read(ledger, &state, e));
    for (int64_t i = 0; i < s->n_models && *model < 0; i++) {
        bool known = true;
        if (!s->models[i].stage) continue;
        TRY(knows_shape(s, i, &known, e));
        const bool sized = ledger_model_bytes(state, s->models[i].name) >= 0;
        if (!known || (s->run.stage_bytes > 0 && !sized)) *model = i;
    }
done:
    json_decref(state);
    return st;
}

/* --- jobs --- */

struct job {
    const struct sweep *sweep;
    json_t *paths; /* {PATH: [model, row]} of all stored rows of models with a `stage` */
    json_t *index; /* {PATH: its number in items} */
    json_t *items, *visits;
};

static void job_free(struct job *j)
{
    json_decref(j->paths);
    json_decref(j->index);
    json_decref(j->items);
    json_decref(j->visits);
}

static enum status job_init(struct job *j, const struct sweep *s, struct err *e)
{
    *j = (struct job){s, json_object(), json_object(), json_array(), json_array()};
    NEED(j->paths && j->index && j->items && j->visits, ERR_NOMEM, "out of memory for staging");
    for (int64_t i = 0; i < s->n_models; i++)
        for (int64_t row = 0; s->models[i].stage && row < s->models[i].n_stored; row++) {
            struct weights w = {0};
            enum status st = plan_find_weights(s, i, row, &w, e);
            if (st == OK)
                json_object_set_new(j->paths, w.path,
                                    json_pack("[I, I]", (json_int_t)i, (json_int_t)row));
            options_free(&weights_table, &w);
            PASS(st);
        }
    return OK;
}

/* A checkpoint's entry among the job's items. */
static enum status add_item(struct job *j, const char *known_as, const json_t *where, struct err *e)
{
    enum status st = OK;
    char *path = NULL;
    const int64_t model = (int64_t)json_integer_value(json_array_get(where, 0));
    const int64_t row = (int64_t)json_integer_value(json_array_get(where, 1));
    const struct model_entry *m = &j->sweep->models[model];
    json_t *command = json_array();
    char **words = NULL, *name = NULL;
    int64_t n = 0;
    TRY(ledger_path(known_as, &path, e));
    TRY(mem_format(&name, e, "%s %s", m->name, m->rows[row].checkpoint));
    char *partial = NULL; /* the folder that the command fills */
    TRY(ledger_beside(path, "partial", &partial, e));
    st = stage_command(m, row, partial, &words, &n, e);
    free(partial);
    TRY(st);
    for (int64_t i = 0; i < n; i++) json_array_append_new(command, json_string(words[i]));
    json_object_set_new(j->index, known_as, json_integer((json_int_t)json_array_size(j->items)));
    json_t *item = json_pack("{s:s, s:s, s:s, s:b, s:O}", "name", name, "model", m->name, "path",
                             path, "keep", m->keep, "command", command);
    ENSURE(json_array_append_new(j->items, item) == 0, ERR_NOMEM, "out of memory for staging");
done:
    for (int64_t i = 0; words && i < n; i++) free(words[i]);
    free(words);
    free(name);
    free(path);
    json_decref(command);
    return st;
}

/* Adds the stored folders that w reads to a visit: its items, and their paths. */
static enum status add_weights(struct job *j, const struct weights *w, json_t *items, json_t *paths,
                               struct err *e)
{
    const json_t *where = w->path ? json_object_get(j->paths, w->path) : NULL;
    for (int64_t i = 0; i < w->n; i++) PASS(add_weights(j, &w->parts[i], items, paths, e));
    if (!where) return OK;
    if (!json_object_get(j->index, w->path)) PASS(add_item(j, w->path, where, e));
    json_t *number = json_object_get(j->index, w->path), *one;
    size_t k;
    json_array_foreach(items, k, one) if (json_equal(one, number)) return OK;
    json_array_append(items, number);
    const json_t *item = json_array_get(j->items, (size_t)json_integer_value(number));
    json_array_append(paths, json_object_get(item, "path"));
    return OK;
}

/* All that the visit and its parts read. */
static enum status add_sources(struct job *j, const struct visit *v, json_t *items, json_t *paths,
                               struct err *e)
{
    const struct second_order_task *second = v->task[PART_SECOND_ORDER];
    const struct curvature_task *curvature = v->task[PART_CURVATURE];
    const struct movement_task *movement = v->task[PART_MOVEMENT];
    const struct surface_task *surface = v->task[PART_SURFACE];
    PASS(add_weights(j, &v->weights, items, paths, e));
    if (second) PASS(add_weights(j, &second->previous, items, paths, e));
    for (int64_t i = 0; curvature && i < curvature->n_before; i++)
        PASS(add_weights(j, &curvature->before[i].weights, items, paths, e));
    if (movement) PASS(add_weights(j, &movement->before, items, paths, e));
    for (int64_t i = 0; surface && i < surface->n; i++)
        PASS(add_weights(j, &surface->parts[i], items, paths, e));
    return OK;
}

/* The job's form for the stager. */
static enum status write_job(const struct job *j, const char *ledger, const char *user, bool uses,
                             json_t **out, struct err *e)
{
    const struct run_options *o = &j->sweep->run;
    *out = json_pack("{s:s, s:s, s:I, s:I, s:f, s:b, s:b, s:O, s:O}", "folder", ledger, "user",
                     user, "space", (json_int_t)o->stage_bytes, "tries", (json_int_t)o->stage_tries,
                     "pause", o->stage_pause, "commands", !uses || o->stage_commands, "uses", uses,
                     "items", j->items, "visits", j->visits);
    NEED(*out, ERR_NOMEM, "out of memory for staging");
    return OK;
}

enum status plan_stage_row(const struct sweep *s, int64_t model, int64_t row, const char *ledger,
                           const char *user, bool uses, json_t **out, struct err *e)
{
    enum status st = OK;
    struct job j = {0};
    struct weights w = {0};
    TRY(job_init(&j, s, e));
    TRY(plan_find_weights(s, model, row, &w, e));
    TRY(add_item(&j, w.path, json_object_get(j.paths, w.path), e));
    json_array_append_new(j.visits, json_pack("[i]", 0));
    TRY(write_job(&j, ledger, user, uses, out, e));
done:
    options_free(&weights_table, &w);
    job_free(&j);
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

/* What the visit reads must fit. */
static enum status check_space(const struct job *j, const json_t *items, const json_t *state,
                               const struct visit *v, struct err *e)
{
    const int64_t space = j->sweep->run.stage_bytes;
    char asked[QUANTITY], there[QUANTITY];
    int64_t sum = 0;
    json_t *one;
    size_t k;
    json_array_foreach(items, k, one)
    {
        const json_t *item = json_array_get(j->items, (size_t)json_integer_value(one));
        const int64_t bytes = ledger_model_bytes(state, json_text(item, "model", ""));
        if (bytes > 0) sum += bytes;
    }
    quantity_prefix((double)sum, asked);
    quantity_prefix((double)space, there);
    NEED(space == 0 || sum <= space, ERR_USAGE,
         "run.stage_space: %sB (%lld bytes), but the visit of %s %s reads %lld checkpoint%s at "
         "once, "
         "which take %sB (%lld bytes)",
         there, (long long)space, v->model, v->checkpoint, (long long)json_array_size(items),
         quantity_plural((int64_t)json_array_size(items)), asked, (long long)sum);
    return OK;
}

static enum status add_visit(struct job *j, struct plan_visit *v, const char *ledger,
                             const char *user, const json_t *state, struct err *e)
{
    enum status st = OK;
    json_t *items = json_array(), *paths = json_array();
    TRY(add_sources(j, &v->visit, items, paths, e));
    TRY(check_space(j, items, state, &v->visit, e));
    json_array_append(j->visits, items);
    if (json_array_size(paths) > 0)
        v->stage = json_pack("{s:s, s:O}", "folder", ledger, "paths", paths);
    if (v->stage && j->sweep->run.stage_bytes > 0) {
        json_object_set_new(v->stage, "user", json_string(user));
        json_object_set_new(v->stage, "visit", json_integer((json_int_t)v->turn - 1));
    }
done:
    json_decref(items);
    json_decref(paths);
    return st;
}

enum status plan_stage_job(const struct plan *p, struct plan_visits *v, const int64_t *ranks,
                           const char *ledger, const char *user, bool uses, json_t **out,
                           struct err *e)
{
    enum status st = OK;
    struct job j = {0};
    struct place *order = NULL;
    json_t *state = NULL;
    TRY(ledger_read(ledger, &state, e));
    TRY(job_init(&j, p->sweep, e));
    TRY(find_turns(p->sweep, v, ranks, &order, e));
    for (int64_t i = 0; i < v->n; i++) {
        v->visits[order[i].visit].turn = 1 + i;
        TRY(add_visit(&j, &v->visits[order[i].visit], ledger, user, state, e));
    }
    TRY(write_job(&j, ledger, user, uses, out, e));
done:
    free(order);
    json_decref(state);
    job_free(&j);
    return st;
}

/* --- parts that have not started --- */

void plan_stage_user(const char *prefix, const struct plan_part *part, char user[64])
{
    if (part->n == 0)
        snprintf(user, 64, "%sall", prefix);
    else
        snprintf(user, 64, "%spart-%lld-of-%lld", prefix, (long long)part->k, (long long)part->n);
}

/* *out = the paths of all that the part's missing visits read. */
static enum status list_needs(const struct plan *p, const struct plan_part *part,
                              const struct results_view *view, json_t *out, struct err *e)
{
    enum status st = OK;
    struct job j = {0};
    struct plan_visits visits = {0};
    json_t *items = json_array();
    TRY(job_init(&j, p->sweep, e));
    TRY(plan_visits_make(p, view, &(struct plan_choice){.part = *part}, &visits, e));
    for (int64_t i = 0; i < visits.n; i++)
        TRY(add_sources(&j, &visits.visits[i].visit, items, out, e));
done:
    json_decref(items);
    plan_visits_free(&visits);
    job_free(&j);
    return st;
}

static enum status add_other(const struct plan *p, const struct plan_part *part,
                             const struct results_view *view, json_t *others, struct err *e)
{
    enum status st = OK;
    char user[64], *results = NULL, *journal = NULL, *path = NULL;
    json_t *needs = json_array();
    TRY(parts_path(p->sweep->results, part->k, part->n, &results, e));
    TRY(journal_path(results, &journal, e));
    if (fsx_is_file(journal)) goto done;
    TRY(ledger_path(journal, &path, e));
    TRY(list_needs(p, part, view, needs, e));
    plan_stage_user("", part, user);
    if (json_array_size(needs))
        json_array_append_new(
            others, json_pack("{s:s, s:s, s:O}", "user", user, "journal", path, "needs", needs));
done:
    json_decref(needs);
    free(path);
    free(journal);
    free(results);
    return st;
}

enum status plan_stage_others(const struct plan *p, const struct plan_part *part,
                              const struct results_view *view, json_t *job, struct err *e)
{
    enum status st = OK;
    struct plan_part *all = NULL;
    json_t *others = json_array();
    if (part->n) TRY(plan_parts_make(p, part->n, false, &all, e));
    for (int64_t i = 0; i < part->n; i++)
        if (all[i].k != part->k) TRY(add_other(p, &all[i], view, others, e));
    ENSURE(json_object_set(job, "others", others) == 0, ERR_NOMEM, "out of memory for staging");
done:
    json_decref(others);
    free(all);
    return st;
}
