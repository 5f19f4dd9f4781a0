/* Tokens counted instead of guessed, where the text and its tokenizer are there. */
#include "group/inputs.h"
#include "plan/plan.h"
#include <stdlib.h>

/* A text of more is not read for a plan's sake: some seconds of tokenizing. */
static const double most_counted = 4e6;

static struct cost_tokens tokens_of(const struct sequences *s)
{
    struct cost_tokens t = {.tokens = (double)s->offset[s->n], .sequences = s->n};
    for (int64_t i = 0; i < s->n; i++) {
        int64_t length = s->offset[i + 1] - s->offset[i];
        t.squares += (double)length * (double)length;
        if (length > t.longest) t.longest = length;
    }
    return t;
}

struct cost_tokens plan_tokens(const struct plan *p, struct visit_cache *cache,
                               const struct data_options *d)
{
    struct cost_tokens t = cost_tokens_of(d);
    for (int64_t i = 0; t.guessed && t.tokens <= most_counted && i < p->n_checkpoints; i++) {
        const struct plan_checkpoint *c = &p->checkpoints[i];
        const struct sequences *found;
        struct err none = {0};
        const struct visit v = {.weights = c->weights, /* shallow */
                                .tokenizer = p->sweep->models[c->model].tokenizer};
        if (!weights_present(&c->weights)) continue;
        /* What is wrong with the text or the tokenizer is the visit's to say. */
        if (visit_sequences_get(cache, &v, d, &found, &none) == OK) t = tokens_of(found);
        err_clear(&none);
        break;
    }
    return t;
}
