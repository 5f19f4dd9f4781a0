/* bpe: byte-pair encoding of single words. */
#pragma once
#include "tokenizer/bytelevel.h"
#include "tokenizer/vocab.h"

struct bpe {
    const struct vocab *vocab; /* borrowed */
    struct strmap words;       /* byte level: the tokens as plain bytes; otherwise unused */
    struct merge {
        uint64_t pair; /* left << 32 | right; MERGE_NONE: empty slot */
        int32_t rank;
    } * merge;
    uint64_t mask;
    int32_t *merged; // (n_merges) id that the merge of each rank makes
    int64_t n_merges;
    int32_t symbol[256];   /* byte level: id of the byte's character, -1 without one */
    int32_t fallback[256]; /* ids of <0x00> ... <0xFF>, -1 without one */
    int16_t code[256];     /* byte level: the byte's character */
    int32_t unk;           /* -1: unknown characters are dropped */
    bool byte_level, byte_fallback, fuse_unk, ignore_merges;
    bool
        cuts_at_mark; /* no merge joins a symbol to a following ▁, so that words can be cut there */
};

/* Checks that bpe_read supports this "model" of a tokenizer.json. ERR_USAGE names the model or the
 * option that is not supported. */
MUST_USE enum status bpe_check(const json_t *model, struct err *e);

/* Reads a checked model, except its vocab, which is given and must outlive b. byte_level: words are
 * encoded as bytes. Free b with bpe_free whatever is returned. ERR_FORMAT: a merge of an unknown
 * token, a wrong type; ERR_NOMEM. */
MUST_USE enum status bpe_read(struct bpe *b, const json_t *model, const struct vocab *vocab,
                              bool byte_level, struct err *e);
void bpe_free(struct bpe *b);

/* Scratch memory of one thread, with a cache of recent words, which points into the ids that the
 * thread has written: that array may grow but not shrink between calls. */
struct bpe_run {
    struct ids symbols;
    struct bpe_node *node;
    uint64_t *heap;
    int64_t node_cap, heap_cap;
    struct bpe_memo *memo;
    uint64_t memo_mask;
};

/* bytes: about how long the text is, for the size of the cache. ERR_NOMEM. */
MUST_USE enum status bpe_run_init(struct bpe_run *run, size_t bytes, struct err *e);
void bpe_run_free(struct bpe_run *run);

/* Appends the ids of one word to out. s: plain bytes for byte level, otherwise well-formed UTF-8.
 * ERR_NOMEM. */
MUST_USE enum status bpe_encode(const struct bpe *b, struct bpe_run *run, const char *s, size_t n,
                                struct ids *out, struct err *e);

/* Merges the *n symbols of a word in place, the pair of lowest rank first, of equal ranks the
 * leftmost; *n = how many are left. O(n log n). ERR_NOMEM. */
MUST_USE enum status bpe_merge(const struct bpe *b, struct bpe_run *run, int32_t *symbols,
                               int64_t *n, struct err *e);
