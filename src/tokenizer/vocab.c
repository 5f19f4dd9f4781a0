#include "tokenizer/vocab.h"
#include "util/hash.h"
#include "util/mem.h"

enum status strmap_init(struct strmap *m, int64_t n, struct err *e)
{
    uint64_t slots = 64;
    while (slots < 2 * (uint64_t)n) slots *= 2; /* at most half full: short probes */
    *m = (struct strmap){.mask = slots - 1};
    PASS(mem_alloc(&m->slot, (int64_t)slots, sizeof *m->slot, "token table", e));
    for (uint64_t i = 0; i < slots; i++) m->slot[i] = (struct strmap_slot){.id = -1};
    return OK;
}

void strmap_free(struct strmap *m)
{
    free(m->slot);
    buf_free(&m->text);
}

int32_t strmap_find(const struct strmap *m, const char *s, size_t n)
{
    uint32_t hash = (uint32_t)hash_u64(s, n);
    for (uint64_t i = hash & m->mask;; i = (i + 1) & m->mask) {
        const struct strmap_slot *slot = &m->slot[i];
        if (slot->id < 0) return -1;
        if (slot->hash == hash && slot->n == n && memcmp(m->text.data + slot->at, s, n) == 0)
            return slot->id;
    }
}

enum status strmap_add(struct strmap *m, const char *s, size_t n, int32_t id, struct err *e)
{
    NEED(m->text.n + n < UINT32_MAX, ERR_FORMAT, "the vocabulary exceeds 4 GB of text");
    uint32_t hash = (uint32_t)hash_u64(s, n);
    uint64_t i = hash & m->mask;
    while (m->slot[i].id >= 0) i = (i + 1) & m->mask;
    struct strmap_slot slot = {.hash = hash, .n = (uint32_t)n, .at = (uint32_t)m->text.n, .id = id};
    PASS(buf_add(&m->text, s, n, e));
    m->slot[i] = slot;
    m->n++;
    return OK;
}

enum status vocab_read(struct vocab *v, const json_t *object, int64_t max_added, struct err *e)
{
    const char *name;
    json_t *value;
    int64_t largest = max_added;
    NEED(json_is_object(object), ERR_FORMAT, "model: \"vocab\" must be an object of ids");
    NEED(json_object_size(object) > 0, ERR_FORMAT, "model: \"vocab\" is empty");
    json_object_foreach((json_t *)object, name, value) {
        const int64_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        NEED(id >= 0 && id <= VOCAB_MAX_ID, ERR_FORMAT,
             "model: id of \"%.80s\" must be an integer in 0..%d", name, VOCAB_MAX_ID);
        if (id > largest) largest = id;
    }
    v->n_ids = largest + 1;
    PASS(mem_zero(&v->token, v->n_ids, sizeof *v->token, "vocabulary", e));
    PASS(strmap_init(&v->names, (int64_t)json_object_size(object), e));
    json_object_foreach((json_t *)object, name, value) {
        int32_t id = (int32_t)json_integer_value(value);
        NEED(!v->token[id].s, ERR_FORMAT,
             "model: id %d is given twice, the second time to \"%.80s\"", id, name);
        v->token[id] = (struct vocab_token){.s = name, .n = (uint32_t)strlen(name)};
        PASS(strmap_add(&v->names, name, strlen(name), id, e));
    }
    /* The text does not move any more: point into it instead of into the document. */
    for (uint64_t i = 0; i <= v->names.mask; i++)
        if (v->names.slot[i].id >= 0)
            v->token[v->names.slot[i].id].s = v->names.text.data + v->names.slot[i].at;
    return OK;
}

void vocab_free(struct vocab *v)
{
    strmap_free(&v->names);
    free(v->token);
}
