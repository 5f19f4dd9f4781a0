#include "task/encode.h"
#include "util/mem.h"

enum status encoder_init(struct encoder *x, const struct tokenizer *t, struct err *e)
{
    const int32_t *before, *behind;
    int64_t n_before, n_behind;
    tokenizer_special(t, &before, &n_before, &behind, &n_behind);
    *x = (struct encoder){.tokenizer = t, .prefix = n_before ? before[0] : -1};
    if (n_before > 0) return OK;
    struct err none = {0};
    enum status st = tokenizer_eos(t, &x->prefix, &none);
    if (st == ERR_USAGE) x->prefix = -1; /* an empty context is rare */
    if (st != OK && st != ERR_USAGE) RAISE(st, "%s", none.text);
    return OK;
}

/* Removes the first `drop` of *n ids. */
static void drop_ids(int32_t *ids, int64_t *n, int64_t drop)
{
    drop = drop < *n ? drop : *n;
    *n -= drop;
    memmove(ids, ids + drop, (size_t)*n * sizeof *ids);
}

/* The tokens of a text and those that the post-processor adds, unless it begins with the first of
 * them. */
static enum status encode(const struct encoder *x, struct text t, int32_t **ids, int64_t *n,
                          struct err *e)
{
    const int32_t *before, *behind;
    int64_t n_before, n_behind;
    PASS(tokenizer_encode(x->tokenizer, t.at, t.n, true, ids, n, e));
    tokenizer_special(x->tokenizer, &before, &n_before, &behind, &n_behind);
    if (n_before == 0 || *n == n_before + n_behind || (*ids)[n_before] != before[0]) return OK;
    *n -= n_behind;
    drop_ids(*ids, n, n_before);
    return OK;
}

enum status encode_context(const struct encoder *x, struct text context, int32_t **ids, int64_t *n,
                           struct err *e)
{
    if (context.n > 0) return encode(x, pytext_rstrip(context), ids, n, e);
    NEED(x->prefix >= 0, ERR_USAGE,
         "the context is empty, and the tokenizer names no token for the start or end of a text");
    PASS(mem_alloc(ids, 1, sizeof **ids, "token ids", e));
    (*ids)[0] = x->prefix;
    *n = 1;
    return OK;
}

enum status encode_continuation(const struct encoder *x, struct text context, int64_t n_context,
                                struct text continuation, int32_t **ids, int64_t *n, struct err *e)
{
    CLEANUP(buf_free) struct buf both = {0};
    AUTO_FREE int32_t *made = NULL;
    *ids = NULL;
    NEED(n_context > 0, ERR_FORMAT, "the context is only white space");
    if (context.n == 0) {
        PASS(tokenizer_encode(x->tokenizer, continuation.at, continuation.n, false, &made, n, e));
        drop_ids(made, n, *n > 0 && made[0] == x->prefix);
    } else {
        PASS(buf_add(&both, context.at, context.n, e));
        PASS(buf_add(&both, continuation.at, continuation.n, e));
        PASS(encode(x, text_in(&both), &made, n, e));
        drop_ids(made, n, n_context);
    }
    NEED(*n > 0, ERR_FORMAT, "a choice adds no token to the context");
    *ids = TAKE(made);
    return OK;
}
