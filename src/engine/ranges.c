/* Cuts sequences into ranges of whole sequences that fit a number of tokens. */
#include "engine/visit_internal.h"
#include "util/mem.h"
#include <stdlib.h>

/* The end of the range that starts with sequence `first`. */
static int64_t range_end(const struct sequences *s, int64_t first, int64_t tokens)
{
    int64_t end = first + 1;
    while (end < s->n && s->offset[end + 1] - s->offset[first] <= tokens) end++;
    return end;
}

enum status ranges_cut(const struct sequences *s, int64_t tokens, struct ranges *out, struct err *e)
{
    enum status st = OK;
    struct ranges r = {0};
    for (int64_t i = 0; i < s->n; i = range_end(s, i, tokens)) r.n++;
    TRY(mem_zero(&r.range, r.n, sizeof *r.range, "ranges of sequences", e));
    TRY(mem_zero(&r.offsets, s->n + r.n, sizeof *r.offsets, "ranges of sequences", e));
    int64_t *at = r.offsets, first = 0;
    for (int64_t k = 0; k < r.n; k++) {
        int64_t end = range_end(s, first, tokens), row = s->offset[first];
        r.range[k] = (struct range){
            .row = row,
            .tokens = s->offset[end] - row,
            .first = first,
            .view = {.n = end - first,
                     .offset = at,
                     .ids = s->ids ? s->ids + row : NULL,
                     .bytes = s->bytes ? s->bytes + row : NULL,
                     .valid = s->valid ? s->valid + first : NULL,
                     .segments = s->segments,
                     .first_segment = s->segments ? s->first_segment + first : NULL}};
        for (int64_t i = first; i <= end; i++) *at++ = s->offset[i] - row;
        if (r.range[k].tokens > r.tokens) r.tokens = r.range[k].tokens;
        first = end;
    }
    *out = r;
    r = (struct ranges){0};
done:
    ranges_free(&r);
    return st;
}

void ranges_expect(const struct ranges *r, int64_t i, const struct states *s)
{
    if (i < r->n) states_expect(s, r->range[i].row, r->range[i].tokens);
}

void ranges_free(struct ranges *r)
{
    free(r->range);
    free(r->offsets);
    *r = (struct ranges){0};
}
