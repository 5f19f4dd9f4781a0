/* The multiple-choice tasks of a plan, and the keys of their records. */
#include "engine/accuracies.h"
#include "engine/inputs.h"
#include "plan/plan_internal.h"
#include "task/survey.h"
#include "util/mem.h"
#include "util/num.h"
#include <stdlib.h>
#include <string.h>

void plan_accuracies_free(struct plan *p)
{
    for (int64_t i = 0; i < p->n_accuracies; i++) free(p->accuracies[i].name);
    free(p->accuracies);
}

/* Surveys the data; without them a plan that looks ahead goes on. */
static enum status survey(struct plan *p, const char *name, struct survey *out, struct err *e)
{
    const struct tasks_section *t = &p->sweep->tasks;
    const struct prompts_choice choice = {t->data, t->shots, t->limit};
    struct err own = {0};
    const enum status st = survey_task(name, &choice, p->inputs, out, &own);
    if (st == OK) return OK;
    if (!p->look_ahead || st != ERR_IO) RAISE(st, "tasks: %s", own.text);
    *out = (struct survey){0};
    plan_without(p, own.text);
    return OK;
}

static enum status add_task(struct plan *p, const char *name, struct err *e)
{
    const struct tasks_section *t = &p->sweep->tasks;
    struct plan_accuracy *to = &p->accuracies[p->n_accuracies];
    struct survey found;
    PASS(survey(p, name, &found, e));
    PASS(mem_string(&to->name, name, e));
    p->n_accuracies++;
    to->items = found.items;
    to->bytes = found.bytes;
    return plan_digest(json_pack("{s:s, s:I, s:I, s:s, s:s*}", "task", name, "shots",
                                 (json_int_t)t->shots, "limit", (json_int_t)t->limit, "data",
                                 found.hash, "log_likelihoods", t->log_likelihoods ? "all" : NULL),
                       to->key, e);
}

enum status plan_accuracies_make(struct plan *p, struct err *e)
{
    enum status st = OK;
    char *list = NULL, *rest = NULL;
    int64_t n = 1;
    if (!p->sweep->tasks.names) return OK;
    TRY(mem_string(&list, p->sweep->tasks.names, e));
    for (const char *c = list; *c; c++) n += *c == '\n';
    TRY(mem_zero(&p->accuracies, n, sizeof *p->accuracies, "tasks", e));
    for (char *name = strtok_r(list, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest))
        TRY(add_task(p, name, e));
done:
    free(list);
    return st;
}

json_t *plan_accuracies_record(const struct plan *p)
{
    json_t *list = p->n_accuracies ? json_array() : NULL;
    for (int64_t i = 0; i < p->n_accuracies; i++)
        json_array_append_new(list, json_pack("{s:s, s:s}", "name", p->accuracies[i].name, "key",
                                              p->accuracies[i].key));
    return list;
}

enum status plan_accuracies_ask(const struct plan *p, struct visit *v, struct err *e)
{
    const struct tasks_section *t = &p->sweep->tasks;
    if (!t->names) return OK;
    PASS(mem_string(&v->requests.tasks, t->names, e));
    PASS(mem_string(&v->requests.folder, t->data, e));
    v->requests.shots = t->shots;
    v->requests.limit = t->limit;
    v->log_likelihoods = t->log_likelihoods;
    return OK;
}

enum status plan_accuracies_find(const struct plan *p, const struct plan_checkpoint *c, int64_t i,
                                 bool (*missing)(const void *context, const char *key),
                                 const void *context, char **lines, struct err *e)
{
    char of[HASH_HEX], key[HASH_HEX];
    if (i < 0)
        memcpy(of, c->task_key, sizeof of);
    else
        results_cell_key(c->task_key, plan_variant_key_of(p, c->model, i), of);
    for (int64_t t = 0; t < p->n_accuracies; t++) {
        results_task_key(of, p->accuracies[t].key, key);
        if (missing(context, key)) PASS(accuracies_add(lines, p->accuracies[t].name, key, e));
    }
    return OK;
}

/* Bytes of English text in a token, as the estimates for texts assume (memory/cost_tokens.c), and
 * items that are tokenized for an estimate. */
static const double bytes_per_token = 4.5;
enum { SAMPLE = 16 };

struct cost_tokens plan_accuracy_tokens(const struct plan *p, int64_t i, const struct visit *v,
                                        struct visit_cache *cache)
{
    const struct plan_accuracy *a = &p->accuracies[i];
    const struct tasks_section *t = &p->sweep->tasks;
    struct visit asked = v ? *v : (struct visit){0}; /* shallow */
    struct visit_inputs in;
    struct err none = {0};
    asked.requests = (struct requests_options){
        .tasks = a->name,
        .folder = t->data,
        .shots = t->shots,
        .limit = t->limit ? min64(t->limit, SAMPLE) : SAMPLE,
    };
    if (v && a->items > 0 && visit_inputs_get(cache, &asked, &in, &none) == OK) {
        struct cost_tokens c = cost_tokens_count(in.evaluation);
        const double share = (double)a->items / (double)in.requests->n_items;
        c.tokens *= share;
        c.squares *= share;
        c.sequences = max64(1, (int64_t)((double)c.sequences * share));
        c.guessed = in.requests->n_items < a->items;
        return c;
    }
    err_clear(&none);
    const double tokens = a->bytes / bytes_per_token;
    return (struct cost_tokens){.tokens = tokens,
                                .squares = tokens * REQUESTS_PACK / 4,
                                .sequences = 1 + (int64_t)(tokens / REQUESTS_PACK),
                                .longest = REQUESTS_PACK,
                                .guessed = true};
}
