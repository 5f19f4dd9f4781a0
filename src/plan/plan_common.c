/* Tokens of the evaluation texts by the sweep's common tokenizer. They depend only on a text, a
 * model's tokenizer and how sequences are cut, so they are in the plan and in no key. */
#include "engine/inputs.h"
#include "plan/plan_internal.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/mem.h"

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

enum status plan_common_record(const struct plan *p, int64_t model, struct visit_cache *cache,
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
