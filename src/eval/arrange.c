#include "eval/arrange.h"
#include "util/mem.h"
#include "util/num.h"

struct place {
    int64_t length, index, padded;
};

static int longest_first(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->length != y->length) return x->length > y->length ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Where each sequence goes, and its lengths; *tokens = all of them, padding included. */
static void place_all(const struct sequences *s, const struct arrangement *a, struct place *places,
                      int64_t *tokens)
{
    for (int64_t i = 0; i < s->n; i++) {
        int64_t length = s->offset[i + 1] - s->offset[i];
        if (a->max_tokens > 0) length = min64(length, a->max_tokens);
        places[i] = (struct place){.length = length, .index = i};
    }
    if (a->by_length) qsort(places, (size_t)s->n, sizeof *places, longest_first);
    *tokens = 0;
    for (int64_t i = 0, batch = max64(a->batch, 1); i < s->n; i++) {
        int64_t first = i - i % batch;
        for (int64_t j = first; j < min64(s->n, first + batch); j++)
            places[i].padded = max64(places[i].padded, places[j].length);
        *tokens += places[i].padded;
    }
}

enum status sequences_arrange(struct sequences *s, const struct arrangement *a, struct err *e)
{
    AUTO_FREE struct place *places = NULL;
    CLEANUP(sequences_free) struct sequences to = {0};
    int64_t tokens;
    PASS(mem_alloc(&places, s->n, sizeof *places, "the order of sequences", e));
    place_all(s, a, places, &tokens);
    PASS(sequences_init(&to, s->n, tokens, s->bytes != NULL, e));
    if (a->batch > 0) PASS(mem_alloc(&to.valid, s->n, sizeof *to.valid, "lengths of sequences", e));
    for (int64_t i = 0; i < s->n; i++) {
        struct place p = places[i];
        sequences_put(&to, i, s, p.index, p.length);
        if (to.valid) to.valid[i] = p.length;
        while (to.offset[i + 1] < to.offset[i] + p.padded) to.ids[to.offset[i + 1]++] = a->pad_id;
    }
    sequences_free(s);
    *s = to;
    to = (struct sequences){0};
    return OK;
}
