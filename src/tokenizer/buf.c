#include "tokenizer/buf.h"
#include "util/mem.h"

enum status buf_reserve(struct buf *b, size_t more, struct err *e)
{
    if (b->data && more < b->cap - b->n) return OK;
    size_t want = b->cap ? b->cap : 64;
    while (want - b->n <= more) {
        NEED(want < SIZE_MAX / 4, ERR_NOMEM, "cannot allocate %zu bytes of text", more);
        want *= 2;
    }
    char *p = realloc(b->data, want);
    NEED(p, ERR_NOMEM, "cannot allocate %zu bytes of text", want);
    b->data = p;
    b->cap = want;
    b->data[b->n] = 0;
    return OK;
}

enum status buf_add(struct buf *b, const char *text, size_t n, struct err *e)
{
    PASS(buf_reserve(b, n, e));
    if (n) memcpy(b->data + b->n, text, n);
    b->n += n;
    b->data[b->n] = 0;
    return OK;
}

enum status buf_add_replaced(struct buf *b, const char *text, size_t n, const char *from,
                             size_t n_from, const char *to, size_t n_to, struct err *e)
{
    if (n == 0) return OK;
    const char *end = text + n, *hit;
    while ((hit = memmem(text, (size_t)(end - text), from, n_from))) {
        PASS(buf_add(b, text, (size_t)(hit - text), e));
        PASS(buf_add(b, to, n_to, e));
        text = hit + n_from;
    }
    return buf_add(b, text, (size_t)(end - text), e);
}

void buf_free(struct buf *b)
{
    free(b->data);
    *b = (struct buf){0};
}

enum status bytes_copy(char **out, const char *bytes, size_t n, const char *what, struct err *e)
{
    PASS(mem_alloc(out, (int64_t)n + 1, 1, what, e));
    memcpy(*out, bytes, n);
    (*out)[n] = 0;
    return OK;
}

enum status ids_reserve(struct ids *ids, int64_t more, struct err *e)
{
    if (more <= ids->cap - ids->n) return OK;
    return mem_grow(&ids->id, ids->n + more, &ids->cap, sizeof *ids->id, e);
}

enum status ids_add(struct ids *ids, const int32_t *id, int64_t n, struct err *e)
{
    PASS(ids_reserve(ids, n, e));
    if (n) memcpy(ids->id + ids->n, id, (size_t)n * sizeof *id);
    ids->n += n;
    return OK;
}
