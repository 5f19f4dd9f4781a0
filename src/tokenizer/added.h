/* added: the added tokens of a tokenizer.json, found in the text before anything is cut. */
#pragma once
#include "tokenizer/normalize.h"
#include "tokenizer/vocab.h"
#include <stdbool.h>

struct added_token {
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
    char *content; /* owned, a NUL behind it; of normalised ones, added_link normalises it */
    size_t n;
};

struct added {
    struct added_token *token;
    int64_t n, cap;
    int64_t max_id; /* -1 without tokens */
    /* Longest-match automata over the tokens looked for in the raw text, and over the normalised
     * contents of those looked for in the normalised text. */
    struct added_trie {
        struct added_node *node;
        int64_t n, cap;
        int32_t root[256]; /* first byte to node, 0: none */
    } raw, normalized;
};

/* Reads added_tokens; value may be NULL or null. ERR_FORMAT, ERR_NOMEM. */
MUST_USE enum status added_read(struct added *a, const json_t *value, struct err *e);

/* Enters the tokens into v->token and builds the automata. ERR_FORMAT: an id that the vocabulary or
 * another added token has under a different name, or a name with a different id. ERR_NOMEM. */
MUST_USE enum status added_link(struct added *a, struct vocab *v, const struct normalizer *z,
                                struct err *e);
void added_free(struct added *a);

/* A stretch of the text: an added token, or (id < 0) text between them. */
struct added_part {
    size_t from, to;
    int32_t id;
};

/* Walks the parts of s in order. Start with a zeroed walk; false at the end. */
struct added_walk {
    size_t from;            /* the next text begins here */
    size_t at;              /* where the search goes on */
    struct added_part held; /* the token behind the text handed out last */
    bool holds;
};
bool added_next(const struct added *a, const struct added_trie *trie, struct added_walk *walk,
                const char *s, size_t n, struct added_part *part);
