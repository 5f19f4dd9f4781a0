#include "tokenizer/bpe.h"
#include "tokenizer/component.h"
#include "tokenizer/utf8.h"
#include "util/hash.h"
#include "util/mem.h"

enum { NO_RANK = INT32_MAX, MEMO_WORD = 28, MEMO_MAX = 4096, MEMO_MIN = 64 };
static const uint64_t MERGE_NONE = UINT64_MAX;
static const char space_mark[] = "\xE2\x96\x81"; /* ▁ */

/* A recent word, and where its ids are in the output. */
struct bpe_memo {
    uint64_t hash;
    int64_t at;
    int32_t n_ids;
    uint8_t n; /* bytes; 0: empty */
    char word[MEMO_WORD];
};

struct bpe_node {
    int32_t id, rank; /* rank of the pair with the next one; DEAD when merged away */
    int32_t prev, next;
};
enum { DEAD = -1 };

static inline uint64_t merge_slot(const struct bpe *b, uint64_t pair)
{
    uint64_t h = pair * 0x9E3779B97F4A7C15u; /* multiplicative hashing: the high bits are good */
    return (h ^ h >> 32) & b->mask;
}

static inline int32_t merge_rank(const struct bpe *b, int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    for (uint64_t i = merge_slot(b, pair);; i = (i + 1) & b->mask) {
        if (b->merge[i].pair == pair) return b->merge[i].rank;
        if (b->merge[i].pair == MERGE_NONE) return NO_RANK;
    }
}

/* ---- reading ---- */

/* The two tokens of a merge, written as "a b" or as ["a", "b"]. */
static enum status merge_halves(const json_t *v, int64_t rank, const char *half[2], size_t n[2],
                                struct err *e)
{
    const char *text = json_string_value(v);
    if (text) {
        const char *space = strchr(text, ' ');
        NEED(space && !strchr(space + 1, ' '), ERR_FORMAT,
             "model: merge %lld must be two tokens with one space between, not \"%.80s\"",
             (long long)rank, text);
        half[0] = text;
        half[1] = space + 1;
        n[0] = (size_t)(space - text);
        n[1] = strlen(half[1]);
        return OK;
    }
    NEED(json_is_array(v) && json_array_size(v) == 2 && json_is_string(json_array_get(v, 0)) &&
             json_is_string(json_array_get(v, 1)),
         ERR_FORMAT, "model: merge %lld must be a string or a pair of strings", (long long)rank);
    for (size_t i = 0; i < 2; i++) {
        half[i] = json_string_value(json_array_get(v, i));
        n[i] = json_string_length(json_array_get(v, i));
    }
    return OK;
}

static bool has_mark_inside(const char *s, size_t n)
{
    for (const char *at = s; (at = memmem(at, (size_t)(s + n - at), space_mark, 3)); at += 3)
        if (at > s && (at < s + 3 || memcmp(at - 3, space_mark, 3) != 0)) return true;
    return false;
}

static enum status read_merge(struct bpe *b, const json_t *v, int32_t rank, struct buf *joined,
                              struct err *e)
{
    const char *half[2];
    size_t n[2];
    int32_t id[2];
    PASS(merge_halves(v, rank, half, n, e));
    joined->n = 0;
    for (int i = 0; i < 2; i++) {
        id[i] = strmap_find(&b->vocab->names, half[i], n[i]);
        NEED(id[i] >= 0, ERR_FORMAT, "model: merge %d names \"%.80s\", which is not in the vocab",
             rank, half[i]);
        PASS(buf_add(joined, half[i], n[i], e));
    }
    b->merged[rank] = strmap_find(&b->vocab->names, joined->data, joined->n);
    NEED(b->merged[rank] >= 0, ERR_FORMAT,
         "model: merge %d makes \"%.80s\", which is not in the vocab", rank, joined->data);
    const uint64_t pair = (uint64_t)(uint32_t)id[0] << 32 | (uint32_t)id[1];
    uint64_t at = merge_slot(b, pair);
    while (b->merge[at].pair != MERGE_NONE && b->merge[at].pair != pair) at = (at + 1) & b->mask;
    b->merge[at] = (struct merge){.pair = pair, .rank = rank}; /* of a pair given twice, the last */
    if (has_mark_inside(joined->data, joined->n)) b->cuts_at_mark = false;
    return OK;
}

static enum status read_merges(struct bpe *b, const json_t *list, struct err *e)
{
    CLEANUP(buf_free) struct buf joined = {0};
    uint64_t slots = 64;
    NEED(json_is_array(list), ERR_FORMAT, "model: \"merges\" must be an array");
    b->n_merges = (int64_t)json_array_size(list);
    NEED(b->n_merges <= VOCAB_MAX_ID, ERR_FORMAT, "model: too many merges");
    while (slots < 2 * (uint64_t)b->n_merges) slots *= 2;
    b->mask = slots - 1;
    PASS(mem_alloc(&b->merge, (int64_t)slots, sizeof *b->merge, "merges", e));
    PASS(mem_alloc(&b->merged, b->n_merges, sizeof *b->merged, "merges", e));
    for (uint64_t i = 0; i < slots; i++) b->merge[i] = (struct merge){.pair = MERGE_NONE};
    for (int64_t i = 0; i < b->n_merges; i++)
        PASS(read_merge(b, json_array_get(list, (size_t)i), (int32_t)i, &joined, e));
    return OK;
}

enum status bpe_check(const json_t *model, struct err *e)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const char *type = json_text(model, "type", "BPE"); /* files of 2019 and 2020 have no type */
    NEED(strcmp(type, "BPE") == 0, ERR_USAGE, "model %s is not supported (BPE is)", type);
    for (int i = 0; i < 2; i++)
        NEED(!*json_text(model, affixes[i], ""), ERR_USAGE, "model: %s \"%s\" is not supported",
             affixes[i], json_text(model, affixes[i], ""));
    double dropout = json_number_value(json_object_get(model, "dropout"));
    NEED(dropout == 0, ERR_USAGE, "model: dropout %g is not supported: ids would be random",
         dropout);
    return OK;
}

static enum status read_unk(struct bpe *b, const json_t *model, struct err *e)
{
    const json_t *v = json_object_get(model, "unk_token");
    b->unk = -1;
    if (!v || json_is_null(v)) return OK;
    NEED(json_is_string(v), ERR_FORMAT, "model: \"unk_token\" must be a string");
    b->unk = strmap_find(&b->vocab->names, json_string_value(v), json_string_length(v));
    NEED(b->unk >= 0, ERR_FORMAT, "model: unk_token \"%.80s\" is not in the vocab",
         json_string_value(v));
    return OK;
}

/* Byte level: words are encoded as plain bytes, so the vocabulary is translated to bytes. Tokens
 * with characters outside the alphabet are left out: no word contains them. */
static enum status read_byte_words(struct bpe *b, struct err *e)
{
    struct bytelevel alphabet;
    CLEANUP(buf_free) struct buf bytes = {0};
    bool inside;
    bytelevel_init(&alphabet);
    memcpy(b->code, alphabet.code, sizeof b->code);
    PASS(strmap_init(&b->words, b->vocab->names.n, e));
    for (int64_t id = 0; id < b->vocab->n_ids; id++) {
        struct vocab_token t = b->vocab->token[id];
        if (!t.s) continue;
        bytes.n = 0;
        PASS(bytelevel_add_bytes(&alphabet, t.s, t.n, &bytes, &inside, e));
        if (inside) PASS(strmap_add(&b->words, bytes.data, bytes.n, (int32_t)id, e));
    }
    for (int i = 0; i < 256; i++) {
        char byte = (char)i;
        b->symbol[i] = strmap_find(&b->words, &byte, 1);
    }
    return OK;
}

enum status bpe_read(struct bpe *b, const json_t *model, const struct vocab *vocab, bool byte_level,
                     struct err *e)
{
    *b = (struct bpe){.vocab = vocab, .byte_level = byte_level, .unk = -1, .cuts_at_mark = true};
    PASS(component_bool(model, "model", "byte_fallback", false, &b->byte_fallback, e));
    PASS(component_bool(model, "model", "fuse_unk", false, &b->fuse_unk, e));
    PASS(component_bool(model, "model", "ignore_merges", false, &b->ignore_merges, e));
    PASS(read_unk(b, model, e));
    for (int i = 0; i < 256; i++) {
        static const char hex[] = "0123456789ABCDEF";
        char name[] = {'<', '0', 'x', hex[i >> 4], hex[i & 15], '>'};
        b->fallback[i] = strmap_find(&vocab->names, name, sizeof name);
    }
    if (byte_level) PASS(read_byte_words(b, e));
    PASS(read_merges(b, json_object_get(model, "merges"), e));
    /* Cutting is wrong where whole words are looked up, and without a token for the mark, which
     * would end a run of unknown characters. */
    if (byte_level || b->ignore_merges || strmap_find(&vocab->names, space_mark, 3) < 0)
        b->cuts_at_mark = false;
    return OK;
}

void bpe_free(struct bpe *b)
{
    strmap_free(&b->words);
    free(b->merge);
    free(b->merged);
}

/* ---- merging ---- */

static void sift_down(uint64_t *heap, int64_t n, int64_t i)
{
    uint64_t moving = heap[i];
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= moving) break;
        heap[i] = heap[child];
    }
    heap[i] = moving;
}

/* Entries are ordered by rank, then by place. One is stale when the rank of its node has changed.
 */
static inline uint64_t heap_entry(int32_t rank, int32_t place)
{
    return (uint64_t)(uint32_t)rank << 32 | (uint32_t)place;
}

static int64_t fill_heap(const struct bpe *b, struct bpe_run *run, const int32_t *symbols,
                         int64_t n)
{
    int64_t queued = 0;
    for (int64_t i = 0; i < n; i++) {
        bool last = i + 1 == n;
        int32_t rank = last ? NO_RANK : merge_rank(b, symbols[i], symbols[i + 1]);
        run->node[i] = (struct bpe_node){.id = symbols[i],
                                         .rank = rank,
                                         .prev = (int32_t)i - 1,
                                         .next = last ? -1 : (int32_t)i + 1};
        if (rank != NO_RANK) run->heap[queued++] = heap_entry(rank, (int32_t)i);
    }
    for (int64_t i = queued / 2 - 1; i >= 0; i--) sift_down(run->heap, queued, i);
    return queued;
}

/* Recomputes the rank of node i's pair, and queues it. */
static void update_rank(const struct bpe *b, struct bpe_run *run, int32_t i, int64_t *queued)
{
    struct bpe_node *at = &run->node[i];
    at->rank = at->next < 0 ? NO_RANK : merge_rank(b, at->id, run->node[at->next].id);
    if (at->rank == NO_RANK) return;
    uint64_t *heap = run->heap, entry = heap_entry(at->rank, i);
    int64_t k = (*queued)++;
    for (; k > 0 && heap[(k - 1) / 2] > entry; k = (k - 1) / 2) heap[k] = heap[(k - 1) / 2];
    heap[k] = entry;
}

enum status bpe_merge(const struct bpe *b, struct bpe_run *run, int32_t *symbols, int64_t *n,
                      struct err *e)
{
    if (*n == 0) return OK;
    PASS(mem_grow(&run->node, *n, &run->node_cap, sizeof *run->node, e));
    /* Every merge removes one entry and adds at most two: never more than 2 n. */
    PASS(mem_grow(&run->heap, 2 * *n, &run->heap_cap, sizeof *run->heap, e));
    int64_t queued = fill_heap(b, run, symbols, *n);
    while (queued > 0) {
        int32_t i = (int32_t)(uint32_t)run->heap[0], rank = (int32_t)(run->heap[0] >> 32);
        run->heap[0] = run->heap[--queued];
        if (queued > 0) sift_down(run->heap, queued, 0);
        struct bpe_node *at = &run->node[i];
        if (at->rank != rank) continue;
        struct bpe_node *gone = &run->node[at->next];
        at->id = b->merged[rank];
        at->next = gone->next;
        gone->rank = DEAD;
        if (at->next >= 0) run->node[at->next].prev = i;
        update_rank(b, run, i, &queued);
        if (at->prev >= 0) update_rank(b, run, at->prev, &queued);
    }
    int64_t kept = 0;
    for (int32_t i = 0; i >= 0; i = run->node[i].next) symbols[kept++] = run->node[i].id;
    *n = kept;
    return OK;
}

/* ---- words ---- */

enum status bpe_run_init(struct bpe_run *run, size_t bytes, struct err *e)
{
    uint64_t slots = MEMO_MIN;
    while (slots < MEMO_MAX && slots < bytes / 16) slots *= 2;
    *run = (struct bpe_run){.memo_mask = slots - 1};
    return mem_zero(&run->memo, (int64_t)slots, sizeof *run->memo, "word memory", e);
}

void bpe_run_free(struct bpe_run *run)
{
    free(run->symbols.id);
    free(run->node);
    free(run->heap);
    free(run->memo);
}

/* Writes the symbols of a word before any merge. A run of unknown characters is written (as unk)
 * only before the next known one or at the end; fallback bytes come before it, as in the library.
 */
struct symbol_writer {
    const struct bpe *b;
    struct ids *out; /* reserved: two symbols per byte of the word */
    bool unk_pending;
};

static void put_symbol(struct symbol_writer *w, int32_t id)
{
    if (w->unk_pending) w->out->id[w->out->n++] = w->b->unk;
    w->unk_pending = false;
    w->out->id[w->out->n++] = id;
}

static void put_unknown(struct symbol_writer *w, const char *s, int n)
{
    bool bytes = w->b->byte_fallback;
    for (int i = 0; i < n && bytes; i++) bytes = w->b->fallback[(unsigned char)s[i]] >= 0;
    if (bytes) {
        for (int i = 0; i < n; i++) w->out->id[w->out->n++] = w->b->fallback[(unsigned char)s[i]];
        return;
    }
    if (w->b->unk < 0) return;
    if (w->unk_pending && !w->b->fuse_unk) w->out->id[w->out->n++] = w->b->unk;
    w->unk_pending = true;
}

static enum status first_symbols(const struct bpe *b, struct ids *out, const char *s, size_t n,
                                 struct err *e)
{
    struct symbol_writer w = {.b = b, .out = out};
    out->n = 0;
    PASS(
        ids_reserve(out, 2 * (int64_t)n + 1, e)); /* byte level: a byte's character has two bytes */
    for (size_t i = 0; i < n;) {
        char character[4];
        unsigned char byte = (unsigned char)s[i];
        int length = b->byte_level ? 1 : utf8_length(s[i]);
        int32_t id =
            b->byte_level ? b->symbol[byte] : strmap_find(&b->vocab->names, s + i, (size_t)length);
        if (id >= 0)
            put_symbol(&w, id);
        else if (b->byte_level)
            put_unknown(&w, character, utf8_put(b->code[byte], character));
        else
            put_unknown(&w, s + i, length);
        i += (size_t)length;
    }
    if (w.unk_pending) out->id[out->n++] = b->unk;
    return OK;
}

static enum status encode_new(const struct bpe *b, struct bpe_run *run, const char *s, size_t n,
                              struct ids *out, struct err *e)
{
    if (b->ignore_merges) {
        int32_t id = strmap_find(b->byte_level ? &b->words : &b->vocab->names, s, n);
        if (id >= 0) return ids_add(out, &id, 1, e);
    }
    PASS(first_symbols(b, &run->symbols, s, n, e));
    PASS(bpe_merge(b, run, run->symbols.id, &run->symbols.n, e));
    return ids_add(out, run->symbols.id, run->symbols.n, e);
}

static enum status encode_word(const struct bpe *b, struct bpe_run *run, const char *s, size_t n,
                               struct ids *out, struct err *e)
{
    if (n > MEMO_WORD) return encode_new(b, run, s, n, out, e);
    uint64_t hash = hash_u64(s, n);
    struct bpe_memo *memo = &run->memo[hash & run->memo_mask];
    if (memo->hash == hash && memo->n == n && memcmp(memo->word, s, n) == 0) {
        PASS(ids_reserve(out, memo->n_ids, e));
        memcpy(out->id + out->n, out->id + memo->at, (size_t)memo->n_ids * sizeof *out->id);
        out->n += memo->n_ids;
        return OK;
    }
    int64_t at = out->n;
    PASS(encode_new(b, run, s, n, out, e));
    *memo =
        (struct bpe_memo){.hash = hash, .at = at, .n_ids = (int32_t)(out->n - at), .n = (uint8_t)n};
    memcpy(memo->word, s, n);
    return OK;
}

enum status bpe_encode(const struct bpe *b, struct bpe_run *run, const char *s, size_t n,
                       struct ids *out, struct err *e)
{
    if (!b->cuts_at_mark) return encode_word(b, run, s, n, out, e);
    size_t from = 0;
    while (from < n) { /* cut before every mark that follows something else */
        size_t to = from;
        while (n - to >= 3 && memcmp(s + to, space_mark, 3) == 0) to += 3;
        const char *mark = memmem(s + to, n - to, space_mark, 3);
        to = mark ? (size_t)(mark - s) : n;
        PASS(encode_word(b, run, s + from, to - from, out, e));
        from = to;
    }
    return OK;
}
