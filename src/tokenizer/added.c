#include "tokenizer/added.h"
#include "tokenizer/utf8.h"
#include "util/mem.h"

/* Children of a node are a list. Node 0 is unused, so that 0 can mean "none". */
struct added_node {
    int32_t child, sibling;
    int32_t token; /* index of the token that ends here, -1: none */
    char byte;
};

/* ---- reading ---- */

static enum status read_token(struct added *a, const json_t *o, struct err *e)
{
    const char *content, *where = "added_tokens";
    int64_t id;
    PASS(mem_grow(&a->token, a->n, &a->cap, sizeof *a->token, e));
    struct added_token *t = &a->token[a->n];
    *t = (struct added_token){0};
    NEED(json_is_object(o), ERR_FORMAT, "added_tokens: expected an object");
    PASS(component_text(o, where, "content", &content, &t->n, e));
    NEED(t->n > 0 && t->n < UINT32_MAX, ERR_FORMAT, "added_tokens: empty content");
    PASS(component_int(o, where, "id", VOCAB_MAX_ID, &id, e));
    t->id = (int32_t)id;
    PASS(component_bool(o, where, "special", false, &t->special, e));
    PASS(component_bool(o, where, "normalized", !t->special, &t->normalized, e));
    PASS(component_bool(o, where, "single_word", false, &t->single_word, e));
    PASS(component_bool(o, where, "lstrip", false, &t->lstrip, e));
    PASS(component_bool(o, where, "rstrip", false, &t->rstrip, e));
    PASS(bytes_copy(&t->content, content, t->n, "added token", e));
    if (id > a->max_id) a->max_id = id;
    a->n++;
    return OK;
}

enum status added_read(struct added *a, const json_t *value, struct err *e)
{
    a->max_id = -1;
    if (!value || json_is_null(value)) return OK;
    NEED(json_is_array(value), ERR_FORMAT, "\"added_tokens\" must be an array");
    for (size_t i = 0; i < json_array_size(value); i++)
        PASS(read_token(a, json_array_get(value, i), e));
    return OK;
}

static enum status new_node(struct added_trie *trie, char byte, int32_t sibling, int32_t *out,
                            struct err *e)
{
    if (trie->n == 0) trie->n = 1;
    PASS(mem_grow(&trie->node, trie->n, &trie->cap, sizeof *trie->node, e));
    *out = (int32_t)trie->n++;
    trie->node[*out] = (struct added_node){.byte = byte, .sibling = sibling, .token = -1};
    return OK;
}

static int32_t find_child(const struct added_trie *trie, int32_t parent, char byte)
{
    int32_t i = trie->node[parent].child;
    while (i && trie->node[i].byte != byte) i = trie->node[i].sibling;
    return i;
}

static enum status trie_add(struct added_trie *trie, const char *s, size_t n, int32_t token,
                            struct err *e)
{
    unsigned char first = (unsigned char)s[0];
    int32_t at = trie->root[first];
    if (!at) {
        PASS(new_node(trie, s[0], 0, &at, e));
        trie->root[first] = at;
    }
    for (size_t i = 1; i < n; i++) {
        int32_t child = find_child(trie, at, s[i]);
        if (!child) {
            PASS(new_node(trie, s[i], trie->node[at].child, &child, e));
            trie->node[at].child = child;
        }
        at = child;
    }
    if (trie->node[at].token < 0) trie->node[at].token = token; /* of equal ones, the first */
    return OK;
}

enum status added_link(struct added *a, struct vocab *v, const struct steps *z, struct err *e)
{
    CLEANUP(buf_free) struct buf text = {0}, spare = {0};
    for (int64_t i = 0; i < a->n; i++) {
        struct added_token *t = &a->token[i];
        const struct vocab_token there = v->token[t->id];
        const int32_t own = strmap_find(&v->names, t->content, t->n);
        NEED(own < 0 || own == t->id, ERR_FORMAT,
             "added_tokens: \"%.80s\" has id %d, but %d in the vocab", t->content, t->id, own);
        NEED(!there.s || (there.n == t->n && memcmp(there.s, t->content, t->n) == 0), ERR_FORMAT,
             "added_tokens: id %d of \"%.80s\" is taken by \"%.80s\"", t->id, t->content, there.s);
        if (t->normalized && z->n > 0) { /* searched for and, as in the library, decoded */
            PASS(normalizer_apply(z, t->content, t->n, &text, &spare, e));
            free(t->content);
            t->content = NULL;
            t->n = text.n;
            PASS(bytes_copy(&t->content, text.data, t->n, "added token", e));
        }
        v->token[t->id] = (struct vocab_token){.s = t->content, .n = (uint32_t)t->n};
        if (t->n)
            PASS(trie_add(t->normalized ? &a->normalized : &a->raw, t->content, t->n, (int32_t)i,
                          e));
    }
    return OK;
}

void added_free(struct added *a)
{
    for (int64_t i = 0; i < a->n; i++) free(a->token[i].content);
    free(a->token);
    free(a->raw.node);
    free(a->normalized.node);
}

/* ---- finding ---- */

/* The longest token that starts at s[at], -1 if none does; *to = its end. */
static int32_t longest_at(const struct added_trie *trie, const char *s, size_t n, size_t at,
                          size_t *to)
{
    int32_t found = -1;
    int32_t i = trie->root[(unsigned char)s[at]];
    while (i) {
        at++;
        if (trie->node[i].token >= 0) {
            found = trie->node[i].token;
            *to = at;
        }
        if (at == n) break;
        i = find_child(trie, i, s[at]);
    }
    return found;
}

static bool stands_alone(const char *s, size_t n, size_t from, size_t to)
{
    if (from > 0 && utf8_is_word(utf8_get(s + from - utf8_last_length(s, from)))) return false;
    return to == n || !utf8_is_word(utf8_get(s + to));
}

static size_t strip_left(const char *s, size_t from, size_t not_before)
{
    while (from > not_before) {
        size_t length = (size_t)utf8_last_length(s, from);
        if (!utf8_is_space(utf8_get(s + from - length))) break;
        from -= length;
    }
    return from;
}

/* The next token at or after cursor->at, with the spaces that it strips. */
static bool find_token(const struct added *a, const struct added_trie *trie,
                       struct added_cursor *cursor, const char *s, size_t n,
                       struct added_part *found)
{
    while (cursor->at < n) {
        size_t from = cursor->at, to = from;
        int32_t i = longest_at(trie, s, n, from, &to);
        if (i < 0) {
            cursor->at++;
            continue;
        }
        cursor->at = to;
        const struct added_token *t = &a->token[i];
        if (t->single_word && !stands_alone(s, n, from, to)) continue;
        if (t->lstrip) from = strip_left(s, from, cursor->from < from ? cursor->from : from);
        while (t->rstrip && to < n && utf8_is_space(utf8_get(s + to)))
            to += (size_t)utf8_length(s[to]);
        *found = (struct added_part){.from = from, .to = to, .id = t->id};
        return true;
    }
    return false;
}

bool added_next(const struct added *a, const struct added_trie *trie, struct added_cursor *cursor,
                const char *s, size_t n, struct added_part *part)
{
    struct added_part token;
    if (cursor->ended) return false;
    *part = (struct added_part){.from = cursor->from, .to = n, .id = -1};
    cursor->ended = trie->n == 0 || !find_token(a, trie, cursor, s, n, &token);
    if (cursor->ended) return true;
    part->to = token.from > cursor->from ? token.from : cursor->from;
    part->id = token.id;
    cursor->from = token.to;
    return true;
}
