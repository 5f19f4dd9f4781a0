/* vocab: the vocabulary of a tokenizer: strings by id, and ids by string. */
#pragma once
#include "tokenizer/buf.h"
#include "util/json.h"

enum { VOCAB_MAX_ID = (1 << 21) - 1 }; /* a file with a larger id is damaged */

/* A hash table from strings to ids, with open addressing. */
struct strmap {
    struct strmap_slot {
        uint32_t hash, n; /* n: bytes of the string */
        uint32_t at;      /* its place in text */
        int32_t id;       /* -1: empty slot */
    } * slot;
    uint64_t mask; /* slots - 1, a power of two minus one */
    int64_t n;
    struct buf text; /* all strings, one after the other */
};

/* Makes an empty table for at most n strings; strmap_free frees it. ERR_NOMEM. */
MUST_USE enum status strmap_init(struct strmap *m, int64_t n, struct err *e);
void strmap_free(struct strmap *m);

/* The id of a string of n bytes; -1 when it is not in the table. */
int32_t strmap_find(const struct strmap *m, const char *s, size_t n);

/* Adds a string that is not in the table; at most as many as strmap_init got. ERR_FORMAT: more
 * than 4 GB of text; ERR_NOMEM. */
MUST_USE enum status strmap_add(struct strmap *m, const char *s, size_t n, int32_t id,
                                struct err *e);

struct vocab {
    struct strmap names; /* tokens of the model, as written in the file */
    int64_t n_ids;       /* largest id + 1, added tokens included */
    struct vocab_token {
        const char *s; /* NULL: no token has this id */
        uint32_t n;
    } * token; /* (n_ids), borrowed from names.text or from the added tokens */
};

/* Reads model.vocab. max_added: largest id of the added tokens, for which v->token gets entries too
 * (-1: none). Zero-initialise v; vocab_free whatever is returned. ERR_FORMAT: not an object, an id
 * that is not an integer in 0..VOCAB_MAX_ID, two tokens with one id; ERR_NOMEM. */
MUST_USE enum status vocab_read(struct vocab *v, const json_t *object, int64_t max_added,
                                struct err *e);
void vocab_free(struct vocab *v);
