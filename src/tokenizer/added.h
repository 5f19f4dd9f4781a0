/* added: the added tokens of a tokenizer.json, which are found before the text is cut into words.
 */
#pragma once
#include "tokenizer/normalize.h"
#include "tokenizer/vocab.h"

struct added_token {
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
    char
        *content; /* owned, followed by a NUL; added_link normalises it where `normalized` is set */
    size_t n;     /* its bytes */
};

struct added {
    struct added_token *token;
    int64_t n, cap;
    int64_t max_id; /* -1: no tokens */
    /* Tries for the longest match: of the tokens that are looked for in the raw text, and of those
     * that are looked for in the normalised text. */
    struct added_trie {
        struct added_node *node;
        int64_t n, cap;
        int32_t root[256]; /* first byte to node, 0: none */
    } raw, normalized;
};

/* Reads "added_tokens"; value may be NULL or null. Zero-initialise a; added_free whatever is
 * returned. ERR_FORMAT, ERR_NOMEM. */
MUST_USE enum status added_read(struct added *a, const json_t *value, struct err *e);

/* Enters the tokens into v->token, which borrows their contents, and builds the tries. ERR_FORMAT:
 * an id that another token has, or a name that the vocabulary has with another id; ERR_NOMEM. */
MUST_USE enum status added_link(struct added *a, struct vocab *v, const struct steps *z,
                                struct err *e);
void added_free(struct added *a);

/* Bytes [from, to) of a text, which may be none, and the added token that follows (-1: the end). */
struct added_part {
    size_t from, to;
    int32_t id;
};

struct added_cursor {
    size_t from; /* end of the last token */
    size_t at;   /* where the search continues */
    bool ended;
};
/* *part = the next part of s (n bytes); false after the last. Start with a zeroed cursor. */
bool added_next(const struct added *a, const struct added_trie *trie, struct added_cursor *cursor,
                const char *s, size_t n, struct added_part *part);
