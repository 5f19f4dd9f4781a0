#include "model/sequences.h"
#include "util/mem.h"
#include "util/num.h"
#include <stdlib.h>

enum status sequences_init(struct sequences *s, int64_t n, int64_t tokens, int with_bytes,
                           struct err *e)
{
    enum status st = OK;
    *s = (struct sequences){.n = n};
    TRY(mem_zero(&s->offset, n + 1, sizeof *s->offset, "sequence offsets", e));
    TRY(mem_zero(&s->ids, tokens, sizeof *s->ids, "token ids", e));
    if (with_bytes) TRY(mem_zero(&s->bytes, tokens, sizeof *s->bytes, "bytes of tokens", e));
done:
    if (st != OK) sequences_free(s);
    return st;
}

void sequences_free(struct sequences *s)
{
    free(s->offset);
    free(s->ids);
    free(s->bytes);
    free(s->valid);
    free(s->segments);
    free(s->first_segment);
    *s = (struct sequences){0};
}

int64_t sequences_longest(const struct sequences *s)
{
    int64_t longest = 0;
    for (int64_t i = 0; i < s->n; i++) longest = max64(longest, s->offset[i + 1] - s->offset[i]);
    return longest;
}
