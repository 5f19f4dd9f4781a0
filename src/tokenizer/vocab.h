/* vocab: the strings of a tokenizer by id, and ids by string. */
#pragma once
#include "tokenizer/buf.h"
#include "util/json.h"
#include <stdbool.h>

enum { VOCAB_MAX_ID = (1 << 21) - 1 }; /* a larger id is a damaged file, not a model */

/* A hash table from strings to ids, open addressing. The strings lie in `text`. */
struct strmap {
    struct strmap_slot {
        uint32_t hash, n; /* n: bytes of the string */
        uint32_t at;      /* its place in text */
        int32_t id;       /* -1: empty slot */
    } * slot;
    uint64_t mask; /* slots - 1, a power of two minus one */
    int64_t n;
    struct buf text;
};

/* Room for n strings without growing. ERR_NOMEM. */
MUST_USE enum status strmap_init(struct strmap *m, int64_t n, struct err *e);
void strmap_free(struct strmap *m);

/* The id of a string, -1 when absent. */
int32_t strmap_find(const struct strmap *m, const char *s, size_t n);

/* Adds a string that is not there yet; the caller stays within init's n. ERR_NOMEM. */
MUST_USE enum status strmap_add(struct strmap *m, const char *s, size_t n, int32_t id,
                                struct err *e);

struct vocab {
    struct strmap names; /* the model's own tokens, as written in the file */
    int64_t n_ids;       /* largest id + 1, added tokens included */
    struct vocab_token {
        const char *s; /* NULL: no token has this id */
        uint32_t n;
    } * token; /* (n_ids), borrowed from names.text or from the added tokens */
};

/* Reads model.vocab; room is left for ids up to max_added (-1: no added tokens). ERR_FORMAT: no
 * object, an id that is no integer in 0..VOCAB_MAX_ID, two tokens with one id. */
MUST_USE enum status vocab_read(struct vocab *v, const json_t *object, int64_t max_added,
                                struct err *e);
void vocab_free(struct vocab *v);
