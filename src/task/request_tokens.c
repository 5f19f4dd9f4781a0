#include "task/request_tokens.h"
#include "util/mem.h"

void item_tokens_free(struct item_tokens *x)
{
    for (int64_t i = 0; i < x->n; i++) {
        free(x->pairs[i].context);
        free(x->pairs[i].continuation);
    }
    free(x->pairs);
    *x = (struct item_tokens){0};
}

/* Choice c of the item; `blank` is scratch for its text behind a blank. */
static enum status encode_choice(const struct encoder *x, const struct item *item, int64_t c,
                                 struct buf *blank, struct item_tokens *out, struct err *e)
{
    struct pair *p = &out->pairs[c];
    const struct text context = text_in(item_context(item, c)),
                      choice = text_in(&item->choice[c].text);
    if (c == 0 || item->apart)
        PASS(encode_context(x, context, &p->context, &p->n_context, e));
    else
        p->n_context = out->pairs[0].n_context;
    blank->n = 0;
    PASS(buf_add(blank, " ", 1, e));
    PASS(buf_add(blank, choice.at, choice.n, e));
    p->chars = pytext_length(choice);
    return encode_continuation(x, context, p->n_context, text_in(blank), &p->continuation,
                               &p->n_continuation, e);
}

static enum status encode_item(const struct prompts *p, int64_t i, const struct encoder *x,
                               int64_t positions, struct item_tokens *out, struct err *e)
{
    enum status st = OK;
    CLEANUP(item_free) struct item item = {0};
    CLEANUP(buf_free) struct buf blank = {0};
    PASS(prompts_item(p, i, &item, e));
    PASS(mem_zero(&out->pairs, item.n, sizeof *out->pairs, "choices", e));
    out->gold = item.gold;
    for (; out->n < item.n && st == OK; out->n++) {
        st = encode_choice(x, &item, out->n, &blank, out, e);
        const int64_t tokens = out->pairs[out->n].n_continuation;
        if (st == OK && tokens > positions)
            st = err_set(e, ERR_FORMAT, __FILE__, __LINE__,
                         "a choice of %lld tokens, the model has %lld positions", (long long)tokens,
                         (long long)positions);
    }
    if (st != OK) line_blame(&p->items, i, e);
    return st;
}

enum status item_tokens_make(const struct prompts *p, const struct encoder *x, int64_t positions,
                             struct item_tokens **out, struct err *e)
{
    const int64_t n = p->items.n;
    int64_t first_bad = n;
    struct err bad = {0};
    PASS(mem_zero(out, n, sizeof **out, "tokens of items", e));
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < n; i++) {
        struct err mine = {0};
        if (encode_item(p, i, x, positions, &(*out)[i], &mine) != OK)
            err_first(&bad, &first_bad, i, &mine);
    }
    if (first_bad == n) return OK;
    for (int64_t i = 0; i < n; i++) item_tokens_free(&(*out)[i]);
    mem_drop(out);
    RAISE(bad.code, "%s", bad.text);
}
