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
    int32_t *merged; /* (n_merges) what the merge of this rank makes */
    int64_t n_merges;
    int32_t symbol[256];   /* byte level: id of the byte's character, -1 without one */
    int32_t fallback[256]; /* ids of <0x00> ... <0xFF>, -1 without one */
    int16_t code[256];     /* byte level: the byte's character */
    int32_t unk;           /* -1: unknown characters are dropped */
    bool byte_level, byte_fallback, fuse_unk, ignore_merges;
    bool cuts_at_mark; /* no merge joins something to a ▁ behind it: words may be cut there */
};

/* Is this "model" of a tokenizer.json one that bpe_read understands? ERR_USAGE names the model or
 * the option that is not supported. */
MUST_USE enum status bpe_check(const json_t *model, struct err *e);

/* Reads a checked model but for its vocab, which was read before and must outlive b. ERR_FORMAT: a
 * merge that names an unknown token, a wrong type. ERR_NOMEM. */
MUST_USE enum status bpe_read(struct bpe *b, const json_t *model, const struct vocab *vocab,
                              bool byte_level, struct err *e);
void bpe_free(struct bpe *b);

/* One thread's scratch memory and its memory of recent words, which points into the ids that it
 * has written: the array may grow but not shrink between calls. */
struct bpe_run {
    struct ids symbols;
    struct bpe_node *node;
    uint64_t *heap;
    int64_t node_cap;
    struct bpe_memo *memo;
    uint64_t memo_mask;
};

/* bytes: about how much text is to come; decides the size of the memory of words. ERR_NOMEM. */
MUST_USE enum status bpe_run_init(struct bpe_run *run, size_t bytes, struct err *e);
void bpe_run_free(struct bpe_run *run);

/* out += the ids of one word: plain bytes for byte level, otherwise well-formed UTF-8. ERR_NOMEM.
 */
MUST_USE enum status bpe_encode(const struct bpe *b, struct bpe_run *run, const char *s, size_t n,
                                struct ids *out, struct err *e);

/* The two ways to merge the n symbols in place, leftmost lowest rank first; both return how many
 * are left. The scan takes O(n^2) and is the faster one for short words; the heap takes O(n log n)
 * and ERR_NOMEM. */
int64_t bpe_merge_scan(const struct bpe *b, int32_t *symbols, int64_t n);
MUST_USE enum status bpe_merge_heap(const struct bpe *b, struct bpe_run *run, int32_t *symbols,
                                    int64_t *n, struct err *e);
enum { BPE_SCAN_MAX = 32 }; /* symbols that the scan is used for */
