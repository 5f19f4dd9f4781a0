#include "eval/collect.h"
#include "util/mem.h"
#include "util/num.h"

void collector_free(struct collector *c)
{
    free(c->before.id);
    free(c->behind.id);
    free(c->ids.id);
    free(c->part.id);
    free(c->offset);
}

static enum status add_marked(struct ids *to, const int32_t *ids, int64_t n, struct err *e)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t marked = ~ids[i];
        PASS(ids_add(to, &marked, 1, e));
    }
    return OK;
}

enum status collector_frame(struct collector *c, const struct tokenizer *t, struct err *e)
{
    const struct data_options *d = c->options;
    const int32_t *before, *behind;
    int64_t n_before, n_behind;
    tokenizer_special(t, &before, &n_before, &behind, &n_behind);
    if (d->special_tokens) {
        PASS(add_marked(&c->before, before, n_before, e));
        PASS(add_marked(&c->behind, behind, n_behind, e));
    }
    if (d->separator && d->layout == LAYOUT_PACKED) {
        int32_t id = tokenizer_find(t, d->separator);
        if (strcmp(d->separator, "eos") == 0) {
            enum status st = tokenizer_eos(t, &id, e);
            if (st != OK) err_prefix(e, "separator eos");
            PASS(st);
        }
        NEED(id >= 0, ERR_USAGE,
             "separator: the tokenizer has no token %s; expected one as tokenizer.json writes it, "
             "or eos",
             d->separator);
        PASS(add_marked(&c->behind, &id, 1, e));
        c->separators = 1;
    }
    return OK;
}

enum status collector_add_sequence(struct collector *c, const int32_t *ids, int64_t n,
                                   struct err *e)
{
    const struct data_options *d = c->options;
    if (c->full) return OK;
    if (c->skipped < d->skip) {
        c->skipped++;
        return OK;
    }
    c->full = d->tokens > 0 && c->ids.n + n > d->tokens;
    if (c->full) return OK;
    PASS(mem_grow(&c->offset, c->n, &c->capacity, sizeof *c->offset, e));
    c->offset[c->n] = c->ids.n;
    PASS(ids_add(&c->ids, ids, n, e));
    c->n++;
    c->full = c->n == d->samples || (d->tokens > 0 && c->ids.n == d->tokens);
    return OK;
}

/* Fills blocks of `length` tokens. A block becomes a sequence when `follow` more tokens come after
 * it; the next block begins with those. */
static enum status add_packed(struct collector *c, const int32_t *ids, int64_t n, struct err *e)
{
    int64_t length = c->options->length, enough = length + c->options->follow;
    if (data_options_even(c->options)) return ids_add(&c->part, ids, n, e);
    while (n > 0 && !c->full) {
        int64_t take = min64(n, enough - c->part.n);
        PASS(ids_add(&c->part, ids, take, e));
        ids += take;
        n -= take;
        if (c->part.n < enough) continue;
        PASS(collector_add_sequence(c, c->part.id, length, e));
        c->part.n -= length;
        memmove(c->part.id, c->part.id + length, (size_t)c->part.n * sizeof *c->part.id);
    }
    return OK;
}

enum status collector_end(struct collector *c, struct err *e)
{
    const int64_t all = c->part.n, length = c->options->length;
    if (!data_options_even(c->options)) return OK;
    const int64_t n = (all + length - 1) / length;
    for (int64_t i = 0, from = 0, to; i < n; i++, from = to) {
        to = all / n * (i + 1) + all % n * (i + 1) / n;
        PASS(collector_add_sequence(c, c->part.id + from, to - from, e));
    }
    return OK;
}

enum status collector_add(struct collector *c, const int32_t *ids, int64_t n, struct err *e)
{
    const struct data_options *d = c->options;
    int64_t all = c->before.n + n + c->behind.n, whole = all - c->separators;
    /* A sequence of one token has nothing to predict. */
    if (whole < d->min_length || (d->layout == LAYOUT_DOCUMENT && whole < 2)) {
        c->dropped++;
        return OK;
    }
    c->all += all;
    if (d->layout == LAYOUT_DOCUMENT) {
        c->part.n = 0;
        PASS(ids_add(&c->part, c->before.id, c->before.n, e));
        PASS(ids_add(&c->part, ids, n, e));
        PASS(ids_add(&c->part, c->behind.id, c->behind.n, e));
        const int64_t length = d->length > 0 ? min64(d->length, c->part.n) : c->part.n;
        return collector_add_sequence(c, c->part.id, length, e);
    }
    PASS(add_packed(c, c->before.id, c->before.n, e));
    PASS(add_packed(c, ids, n, e));
    return add_packed(c, c->behind.id, c->behind.n, e);
}

enum status collector_finish(const struct collector *c, const struct tokenizer *t,
                             struct sequences *out, struct err *e)
{
    PASS(sequences_init(out, c->n, c->ids.n, t != NULL, e));
    if (c->n) memcpy(out->offset, c->offset, (size_t)c->n * sizeof *out->offset);
    out->offset[c->n] = c->ids.n;
    for (int64_t i = 0; i < c->ids.n; i++) {
        int32_t id = c->ids.id[i];
        out->ids[i] = id < 0 ? ~id : id;
        if (t) out->bytes[i] = id < 0 ? 0 : tokenizer_id_bytes(t, id);
    }
    return OK;
}
