#include "eval/collect.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>

void collector_init(struct collector *c, const struct data_options *options)
{
    *c = (struct collector){.options = options};
}

void collector_free(struct collector *c)
{
    free(c->ids.id);
    free(c->part.id);
    free(c->offset);
    *c = (struct collector){0};
}

enum status collector_add_sequence(struct collector *c, const int32_t *ids, int64_t n,
                                   struct err *e)
{
    enum status st = OK;
    const struct data_options *d = c->options;
    if (c->full) goto done;
    if (c->skipped < d->skip) {
        c->skipped++;
        goto done;
    }
    if (d->tokens > 0 && c->ids.n + n > d->tokens) {
        c->full = true;
        goto done;
    }
    TRY(mem_grow(&c->offset, c->n, &c->capacity, sizeof *c->offset, e));
    c->offset[c->n] = c->ids.n;
    TRY(ids_add(&c->ids, ids, n, e));
    c->n++;
    c->full = c->n == d->samples || (d->tokens > 0 && c->ids.n == d->tokens);
done:
    return st;
}

static enum status add_packed(struct collector *c, const int32_t *ids, int64_t n, struct err *e)
{
    enum status st = OK;
    int64_t length = c->options->length;
    while (n > 0 && !c->full) {
        int64_t missing = length - c->part.n, take = n < missing ? n : missing;
        TRY(ids_add(&c->part, ids, take, e));
        ids += take;
        n -= take;
        if (c->part.n < length) continue;
        TRY(collector_add_sequence(c, c->part.id, length, e));
        c->part.n = 0;
    }
done:
    return st;
}

enum status collector_add(struct collector *c, const int32_t *ids, int64_t n, struct err *e)
{
    c->all += n;
    if (c->options->layout == LAYOUT_PACKED) return add_packed(c, ids, n, e);
    if (n < 2) return OK; /* nothing to predict */
    return collector_add_sequence(c, ids, n < c->options->length ? n : c->options->length, e);
}

enum status collector_finish(const struct collector *c, const struct tokenizer *t,
                             struct sequences *out, struct err *e)
{
    enum status st = OK;
    TRY(sequences_init(out, c->n, c->ids.n, t != NULL, e));
    if (c->n) memcpy(out->offset, c->offset, (size_t)c->n * sizeof *out->offset);
    out->offset[c->n] = c->ids.n;
    if (c->ids.n) memcpy(out->ids, c->ids.id, (size_t)c->ids.n * sizeof *out->ids);
    for (int64_t i = 0; t && i < c->ids.n; i++) out->bytes[i] = tokenizer_id_bytes(t, out->ids[i]);
done:
    return st;
}
