#include "model/sequences.h"
#include "util/mem.h"
#include "util/num.h"

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

void sequences_put(struct sequences *s, int64_t k, const struct sequences *from, int64_t i,
                   int64_t length)
{
    const int64_t at = s->offset[k], first = from->offset[i];
    const size_t bytes = (size_t)length * sizeof *s->ids;
    s->offset[k + 1] = at + length;
    memcpy(s->ids + at, from->ids + first, bytes);
    if (s->bytes && from->bytes) memcpy(s->bytes + at, from->bytes + first, bytes);
}

int64_t sequences_longest(const struct sequences *s)
{
    int64_t longest = 0;
    for (int64_t i = 0; i < s->n; i++) longest = max64(longest, s->offset[i + 1] - s->offset[i]);
    return longest;
}

/* Appends the sequences of the tasks to all->n ones of texts, for which there is room. */
static enum status add_segments(const struct sequences *more, int64_t texts, struct sequences *all,
                                struct err *e)
{
    const int64_t base = all->offset[texts], segments = more->first_segment[more->n];
    memcpy(all->ids + base, more->ids, (size_t)more->offset[more->n] * sizeof *more->ids);
    PASS(mem_alloc(&all->segments, segments, sizeof *all->segments, "segments", e));
    PASS(mem_zero(&all->first_segment, all->n + 1, sizeof *all->first_segment, "segments", e));
    memcpy(all->segments, more->segments, (size_t)segments * sizeof *all->segments);
    for (int64_t i = 0; i <= more->n; i++) {
        all->offset[texts + i] = base + more->offset[i];
        all->first_segment[texts + i] = more->first_segment[i];
        if (all->valid && i < more->n)
            all->valid[texts + i] = more->offset[i + 1] - more->offset[i];
    }
    return OK;
}

enum status sequences_join(const struct sequences *parts, int64_t n, const struct sequences *more,
                           struct sequences *out, int64_t *first, struct err *e)
{
    int64_t sequences = 0, tokens = 0, at = 0;
    int with_bytes = 1;
    bool padded = false;
    for (int64_t i = 0; i < n; i++) {
        sequences += parts[i].n;
        tokens += parts[i].offset[parts[i].n];
        with_bytes = with_bytes && parts[i].bytes;
        padded = padded || parts[i].valid;
    }
    const int64_t texts = sequences;
    if (more) {
        sequences += more->n;
        tokens += more->offset[more->n];
    }
    PASS(sequences_init(out, sequences, tokens, with_bytes, e));
    if (padded) PASS(mem_alloc(&out->valid, sequences, sizeof *out->valid, "lengths", e));
    for (int64_t i = 0; i < n; i++) {
        const struct sequences *p = &parts[i];
        int64_t base = out->offset[at], size = p->offset[p->n];
        memcpy(out->ids + base, p->ids, (size_t)size * sizeof *p->ids);
        if (with_bytes) memcpy(out->bytes + base, p->bytes, (size_t)size * sizeof *p->bytes);
        for (int64_t j = 0; j < p->n; j++) {
            out->offset[at + j + 1] = base + p->offset[j + 1];
            if (padded)
                out->valid[at + j] = p->valid ? p->valid[j] : p->offset[j + 1] - p->offset[j];
        }
        at += p->n;
        first[i + 1] = at;
    }
    return more ? add_segments(more, texts, out, e) : OK;
}
