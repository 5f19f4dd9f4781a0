/* Where the weights of a plan's checkpoints come from: folders, and averages of folders. */
#include "checkpoint/checkpoint.h"
#include "plan/plan_internal.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <stdio.h>

static enum status replace(const char *text, const char *what, const char *with, char **out,
                           struct err *e)
{
    const char *at = strstr(text, what);
    if (!at) return mem_string(out, text, e);
    return mem_format(out, e, "%.*s%s%s", (int)(at - text), text, with, at + strlen(what));
}

enum status plan_path_of(const char *path, const char *checkpoint, char **out, struct err *e)
{
    return replace(path, "{checkpoint}", checkpoint, out, e);
}

static enum status find_stored(const struct model_entry *m, int64_t row, const char *name,
                               struct weights *out, struct err *e)
{
    PASS(mem_string(&out->name, name, e));
    return plan_path_of(m->path, m->rows[row].checkpoint, &out->path, e);
}

/* The same with its config.json. */
static enum status find_known(const struct plan *p, int64_t model, int64_t row, const char *name,
                              struct weights *out, struct err *e)
{
    char now[HASH_HEX], known[HASH_HEX];
    PASS(find_stored(&p->sweep->models[model], row, name, out, e));
    PASS(plan_config(p, model, row, out->path, now, known, e));
    if (strcmp(now, known) == 0) return OK;
    PASS(mem_string(&out->config, now, e));
    return mem_string(&out->known, known, e);
}

static enum status find_weights(const struct plan *p, int64_t model, int64_t row, bool shown,
                                struct weights *out, struct err *e)
{
    const struct model_entry *m = &p->sweep->models[model];
    const struct trajectory_row *r = &m->rows[row];
    if (!r->average) return find_known(p, model, row, plan_known_row(p, model, row), out, e);
    const struct average_entry *a = &m->averages[r->average - 1];
    out->kind = average_is_greedy(a) ? WEIGHTS_GREEDY : WEIGHTS_AVERAGE;
    out->f32 = a->dtype == AVERAGE_F32;
    out->evaluated = a->evaluated;
    PASS(mem_zero(&out->parts, r->n_members, sizeof *out->parts, "members of an average", e));
    for (; out->n < r->n_members; out->n++) {
        /* Members that are another model's are called MODEL/CHECKPOINT. */
        const struct average_member *one = &r->members[out->n];
        const struct model_entry *its = &p->sweep->models[one->model];
        const char *of = shown ? its->name : plan_known_model(p, one->model);
        const char *name =
            shown ? its->rows[one->row].checkpoint : plan_known_row(p, one->model, one->row);
        AUTO_FREE char *full = NULL;
        if (one->model != model) PASS(mem_format(&full, e, "%s/%s", of, name));
        out->parts[out->n].coefficient = one->weight;
        PASS(find_known(p, one->model, one->row, full ? full : name, &out->parts[out->n], e));
    }
    return OK;
}

enum status plan_find_weights(const struct plan *p, int64_t model, int64_t row, struct weights *out,
                              struct err *e)
{
    return find_weights(p, model, row, false, out, e);
}

enum status plan_shown_recipe(const struct plan *p, const struct plan_checkpoint *c, char **out,
                              struct err *e)
{
    CLEANUP(weights_free) struct weights w = {0};
    if (!c->recipe[0]) return mem_string(out, "", e);
    PASS(find_weights(p, c->model, c->row, true, &w, e));
    if (c->weights.identity) PASS(mem_string(&w.identity, c->weights.identity, e));
    return weights_recipe(&w, out, e);
}

enum status plan_stored_path(const struct plan *p, const struct plan_checkpoint *c,
                             const struct method_entry *m, char **out, struct err *e)
{
    AUTO_FREE char *of_model = NULL, *named = NULL;
    char step[32];
    snprintf(step, sizeof step, "%lld", (long long)p->sweep->models[c->model].rows[c->row].step);
    PASS(replace(m->path, "{model}", p->sweep->models[c->model].name, &of_model, e));
    PASS(plan_path_of(of_model, plan_name_of(p, c), &named, e));
    return replace(named, "{step}", step, out, e);
}

enum status plan_stored_check(const struct plan *p, const struct method_entry *m, struct err *e)
{
    json_auto_t *models = json_object();
    for (int64_t i = 0; m->path && i < p->n_checkpoints; i++) {
        const char *model = p->sweep->models[p->checkpoints[i].model].name;
        AUTO_FREE char *path = NULL;
        PASS(plan_stored_path(p, &p->checkpoints[i], m, &path, e));
        const char *other = json_text(models, path, model);
        NEED(strcmp(other, model) == 0, ERR_USAGE,
             "methods: %s: %s would be measured for model %s and for model %s; put {model} into "
             "its path",
             m->name, path, other, model);
        NEED(json_object_set_new(models, path, json_string(model)) == 0, ERR_NOMEM,
             "out of memory for paths");
    }
    return OK;
}

/* Whether a row's checkpoint is whole, or will be fetched (struct sweep_so_far). */
static bool row_is_whole(const struct model_entry *m, int64_t row, bool texts)
{
    CLEANUP(weights_free) struct weights w = {0};
    CLEANUP(checkpoint_close_at) struct checkpoint *c = NULL;
    if (m->stage) return true;
    if (find_stored(m, row, m->rows[row].checkpoint, &w, NULL) != OK ||
        checkpoint_open(w.path, &c, NULL) != OK)
        return false;
    return !texts || m->tokenizer || !fsx_is_dir(w.path) || fsx_has("%s/tokenizer.json", w.path);
}

enum status plan_read_so_far(const char *path, const char *const *set, int64_t n, struct sweep *out,
                             struct err *e)
{
    struct sweep_so_far how = {.whole = row_is_whole};
    return sweep_read_so_far(path, set, n, &how, out, e);
}

bool plan_stored_changed(const struct plan *p, const char *path, const json_t *record)
{
    const char *was = json_text(json_object_get(record, "provenance"), "quantized_hash", "");
    CLEANUP(checkpoint_close_at) struct checkpoint *c = NULL;
    return (fsx_is_file(path) || fsx_is_dir(path)) && checkpoint_open(path, &c, NULL) == OK &&
           strcmp(checkpoint_hash(c), was) != 0 && !plan_hash_alike(p, c, was);
}

const char *plan_name_of(const struct plan *p, const struct plan_checkpoint *c)
{
    return p->sweep->models[c->model].rows[c->row].checkpoint;
}

bool plan_weights_changed(const struct plan_checkpoint *c, const json_t *record, const char *field)
{
    const char *recorded = json_text(json_object_get(record, "provenance"), field, "");
    char now[HASH_HEX];
    return recorded[0] && weights_present(&c->weights) &&
           weights_hash(&c->weights, now, NULL) == OK && strcmp(now, recorded) != 0;
}

const struct plan_checkpoint *plan_before(const struct plan *p, const struct plan_checkpoint *c)
{
    return trajectory_follows(&p->sweep->models[c->model], c->row) ? c - 1 : NULL;
}

enum status plan_weights_back(struct plan *p, struct results_view *view, struct err *e)
{
    json_auto_t *back = json_object(),
                *plan = json_pack("{s:{s:O}}", "provenance", "weights_read", back);
    for (int64_t i = 0; i < p->n_checkpoints; i++) {
        const struct plan_checkpoint *c = &p->checkpoints[i];
        char now[HASH_HEX];
        if (c->weights.kind != WEIGHTS_STORED || !weights_present(&c->weights) ||
            !plan_weights_changed(c, results_view_find(view, c->key), "weights_hash") ||
            weights_hash(&c->weights, now, NULL) != OK)
            continue;
        AUTO_FREE char *name = NULL;
        PASS(mem_format(&name, e, "%s/%s", plan_known_model(p, c->model), plan_known_name(p, c)));
        const json_t *other = results_view_other(view, c->key, now),
                     *provenance = json_object_get(other, "provenance");
        json_t *digest = json_object_get(json_object_get(provenance, "weights_read"), name);
        if (digest) json_object_set(back, name, digest);
    }
    PASS(json_whole(e));
    if (json_object_size(back)) results_view_choose(view, plan);
    json_decref(p->back);
    p->back = json_object_size(back) ? json_incref(back) : NULL;
    return OK;
}
