#include "eval/common_tokens.h"
#include "util/mem.h"

static enum status count_piece(const int32_t *ids, int64_t n, const struct tokenizer *own,
                               const struct tokenizer *common, int64_t *tokens, struct err *e)
{
    AUTO_FREE char *text = NULL;
    AUTO_FREE int32_t *made = NULL;
    size_t bytes;
    int64_t n_made;
    PASS(tokenizer_decode(own, ids, n, &text, &bytes, e));
    PASS(tokenizer_encode(common, text, bytes, false, &made, &n_made, e));
    *tokens += n_made;
    return OK;
}

static enum status count_sequence(const struct sequences *s, int64_t i, const struct tokenizer *own,
                                  const struct tokenizer *common, int64_t *tokens, struct err *e)
{
    const int64_t end = s->offset[i + 1];
    for (int64_t at = s->offset[i] + 1, n; at < end; at += n + 1) {
        for (n = 0; at + n < end && s->bytes[at + n] > 0;) n++;
        if (n > 0) PASS(count_piece(s->ids + at, n, own, common, tokens, e));
    }
    return OK;
}

enum status common_tokens_count(const struct sequences *s, const struct tokenizer *own,
                                const struct tokenizer *common, int64_t *tokens, struct err *e)
{
    int64_t all = 0;
    struct err bad = {0};
#pragma omp parallel for schedule(dynamic, 1) reduction(+ : all)
    for (int64_t i = 0; i < s->n; i++) {
        struct err mine = {0};
        if (count_sequence(s, i, own, common, &all, &mine) == OK) continue;
#pragma omp critical(common_tokens_error)
        bad = mine;
    }
    NEED(bad.code == OK, bad.code, "%s", bad.text);
    *tokens = all;
    return OK;
}
