#include "eval/arrange.h"
#include "util/mem.h"
#include "util/num.h"
#include <stdlib.h>
#include <string.h>

struct place {
    int64_t length, index;
};

static int longest_first(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->length != y->length) return x->length > y->length ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static int64_t length_of(const struct sequences *s, int64_t i)
{
    return s->offset[i + 1] - s->offset[i];
}

/* Copies sequence i of `from` to the start of sequence j of `to`. */
static void copy(struct sequences *to, int64_t j, const struct sequences *from, int64_t i)
{
    size_t n = (size_t)length_of(from, i);
    memcpy(to->ids + to->offset[j], from->ids + from->offset[i], n * sizeof *to->ids);
    if (from->bytes)
        memcpy(to->bytes + to->offset[j], from->bytes + from->offset[i], n * sizeof *to->bytes);
}

void sequences_cut(struct sequences *s, int64_t max_tokens)
{
    int64_t to = 0;
    for (int64_t i = 0; i < s->n; i++) {
        int64_t from = s->offset[i], n = min64(length_of(s, i), max_tokens);
        memmove(s->ids + to, s->ids + from, (size_t)n * sizeof *s->ids);
        if (s->bytes) memmove(s->bytes + to, s->bytes + from, (size_t)n * sizeof *s->bytes);
        s->offset[i] = to;
        to += n;
    }
    s->offset[s->n] = to;
}

/* Moves *by to *s, which is freed before. */
static void replace(struct sequences *s, struct sequences *by)
{
    sequences_free(s);
    *s = *by;
    *by = (struct sequences){0};
}

enum status sequences_sort(struct sequences *s, struct err *e)
{
    enum status st = OK;
    struct place *places = NULL;
    struct sequences sorted = {0};
    TRY(mem_alloc(&places, s->n, sizeof *places, "the order of sequences", e));
    for (int64_t i = 0; i < s->n; i++) places[i] = (struct place){length_of(s, i), i};
    qsort(places, (size_t)s->n, sizeof *places, longest_first);
    TRY(sequences_init(&sorted, s->n, s->offset[s->n], s->bytes != NULL, e));
    for (int64_t i = 0; i < s->n; i++) {
        sorted.offset[i + 1] = sorted.offset[i] + places[i].length;
        copy(&sorted, i, s, places[i].index);
    }
    replace(s, &sorted);
done:
    sequences_free(&sorted);
    free(places);
    return st;
}

/* Length of the longest sequence of the batch that sequence i belongs to. */
static int64_t batch_length(const struct sequences *s, int64_t i, int64_t batch)
{
    int64_t longest = 0, first = i - i % batch;
    for (int64_t j = first; j < min64(s->n, first + batch); j++)
        longest = max64(longest, length_of(s, j));
    return longest;
}

enum status sequences_pad(struct sequences *s, int64_t batch, int32_t id, struct err *e)
{
    enum status st = OK;
    struct sequences padded = {0};
    int64_t tokens = 0;
    for (int64_t i = 0; i < s->n; i++) tokens += batch_length(s, i, batch);
    TRY(sequences_init(&padded, s->n, tokens, s->bytes != NULL, e));
    TRY(mem_alloc(&padded.valid, s->n, sizeof *padded.valid, "lengths of sequences", e));
    for (int64_t i = 0; i < s->n; i++) {
        padded.offset[i + 1] = padded.offset[i] + batch_length(s, i, batch);
        padded.valid[i] = length_of(s, i);
        copy(&padded, i, s, i);
        for (int64_t t = padded.offset[i] + padded.valid[i]; t < padded.offset[i + 1]; t++)
            padded.ids[t] = id;
    }
    replace(s, &padded);
done:
    sequences_free(&padded);
    return st;
}
