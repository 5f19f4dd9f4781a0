/* What a sweep file says once for several entries, written out. */
#include "config/sweep_internal.h"
#include "util/mem.h"

/* --- widths of methods --- */

static bool is_none(const struct node *width)
{
    return strcmp(width->text, "16") == 0;
}

static bool is_one_of(const char *key, const char *const *names)
{
    while (*names && strcmp(*names, key) != 0) names++;
    return *names != NULL;
}

static enum status fail_at(const struct node *n, struct err *e, const char *text)
{
    char place[NODE_PLACE];
    node_place_text(&n->place, place);
    RAISE(ERR_USAGE, "%smethods: %s: %s", place, n->key, text);
}

/* The lists of widths, and what each gives. */
enum { W, A, KV, LISTS };
static const struct {
    const char *key, *gives[3];
} lists[LISTS] = {{"W", {"bits"}}, {"A", {"activations"}}, {"KV", {"keys", "values"}}};

/* A list of scalars, and nothing beside it of what it gives; of mappings, no bits. */
static enum status check_list(const struct node *entry, int k, struct err *e)
{
    const struct node *list = node_find(entry, lists[k].key);
    if (!list) return OK;
    bool good = list->kind == NODE_LIST && list->n > 0;
    for (int64_t i = 0; good && i < list->n; i++) good = list->items[i]->kind == NODE_SCALAR;
    if (!good) return fail_at(list, e, "expected a list of widths, [16, 4]");
    for (const char *const *key = lists[k].gives; *key; key++) {
        const struct node *n = node_find(entry, *key);
        if (n && n->kind == NODE_MAP) n = node_find(n, "bits");
        if (n && n->kind != NODE_NULL) return fail_at(n, e, "the widths of W, A and KV give it");
    }
    return OK;
}

/* map (owned) gets a copy of the value under the key. */
static enum status add_copy(struct node *map, const char *key, const struct node *value,
                            struct err *e)
{
    CLEANUP(node_free_at) struct node *copy = NULL;
    PASS(node_copy(value, &copy, e));
    mem_drop(&copy->key);
    PASS(mem_string(&copy->key, key, e));
    return node_append(map, TAKE(copy), e);
}

/* entry gets the grid `key`, of so many bits and with the other keys of `written` (NULL: none). */
static enum status add_grid(struct node *entry, const char *key, const struct node *written,
                            const struct node *width, struct err *e)
{
    CLEANUP(node_free_at) struct node *grid = NULL;
    if (is_none(width)) return OK;
    PASS(node_new(NODE_MAP, &width->place, &grid, e));
    PASS(mem_string(&grid->key, key, e));
    grid->key_place = width->place;
    PASS(add_copy(grid, "bits", width, e));
    for (int64_t i = 0; written && i < written->n; i++)
        PASS(add_copy(grid, written->items[i]->key, written->items[i], e));
    return node_append(entry, TAKE(grid), e);
}

/* Whether a list that there is has that key, or gives it. */
static bool is_spread(const char *key, const struct node *const width[LISTS])
{
    bool is = false;
    for (int k = 0; k < LISTS; k++)
        is = is || (width[k] && (strcmp(key, lists[k].key) == 0 || is_one_of(key, lists[k].gives)));
    return is;
}

/* One combination; a width is NULL where there is no list of it. W: 16, or all others. */
static enum status add_entry(struct node *to, const struct node *from,
                             const struct node *const width[LISTS], struct err *e)
{
    static const char *const of_model[] = {"activations", "keys",          "values",
                                           "rotation",    "rotation_seed", NULL};
    CLEANUP(node_free_at) struct node *entry = NULL, *none = NULL, *bits = NULL;
    const bool plain = width[W] && is_none(width[W]);
    PASS(node_new(NODE_MAP, &from->place, &entry, e));
    for (int64_t i = 0; i < from->n; i++) {
        const struct node *n = from->items[i];
        if (!is_spread(n->key, width) && (!plain || is_one_of(n->key, of_model)))
            PASS(add_copy(entry, n->key, n, e));
    }
    if (plain) {
        PASS(node_new_scalar("none", false, &width[W]->place, &none, e));
        PASS(add_copy(entry, "method", none, e));
    } else if (width[W]) {
        PASS(node_new(NODE_LIST, &width[W]->place, &bits, e));
        const struct node *all = node_find(from, "W");
        for (int64_t i = 0; i < all->n; i++)
            if (!is_none(all->items[i])) PASS(add_copy(bits, "", all->items[i], e));
        PASS(add_copy(entry, "bits", bits, e));
    }
    for (int k = A; k < LISTS; k++)
        for (const char *const *key = lists[k].gives; width[k] && *key; key++)
            PASS(add_grid(entry, *key, node_find(from, *key), width[k], e));
    return node_append(to, TAKE(entry), e);
}

static enum status spread_entry(struct node *to, const struct node *m, struct err *e)
{
    const int64_t before = to->n;
    const struct node *list[LISTS], *width[LISTS] = {NULL};
    int64_t n[LISTS];
    struct node *copy;
    bool any = false, quantized = false; /* the widths of W but 16 are one entry */
    for (int k = 0; k < LISTS; k++) {
        PASS(check_list(m, k, e));
        list[k] = node_find(m, lists[k].key);
        n[k] = list[k] ? list[k]->n : 1;
        any = any || list[k];
    }
    if (!any) {
        PASS(node_copy(m, &copy, e));
        return node_append(to, copy, e);
    }
    for (int64_t w = 0; w < n[W]; w++) {
        width[W] = list[W] ? list[W]->items[w] : NULL;
        const bool weights = width[W] && !is_none(width[W]);
        if (weights && quantized) continue;
        quantized = quantized || weights;
        for (int64_t i = 0; i < n[A] * n[KV]; i++) {
            width[A] = list[A] ? list[A]->items[i / n[KV]] : NULL;
            width[KV] = list[KV] ? list[KV]->items[i % n[KV]] : NULL;
            const bool grids =
                (width[A] && !is_none(width[A])) || (width[KV] && !is_none(width[KV]));
            if (!width[W] || weights || grids) PASS(add_entry(to, m, width, e));
        }
    }
    if (to->n == before)
        return fail_at(list[W], e,
                       "16 bits are not quantized; expected another width of W, A or KV");
    if (to->n > before + 1 && node_find(m, "name"))
        return fail_at(node_find(m, "name"), e, "the lists of widths give several methods");
    return OK;
}

enum status sweep_spread(struct node *root, struct err *e)
{
    const struct node *stage = node_find(root, "stage"), *models = node_find(root, "models");
    for (int64_t i = 0; stage && models && models->kind == NODE_LIST && i < models->n; i++) {
        struct node *m = models->items[i], *copy;
        if (m->kind != NODE_MAP || node_find(m, "stage")) continue;
        PASS(node_copy(stage, &copy, e));
        PASS(node_append(m, copy, e));
    }
    struct node *methods = node_find(root, "methods");
    CLEANUP(node_free_at) struct node *all = NULL;
    bool any = false;
    for (int64_t i = 0; methods && methods->kind == NODE_LIST && i < methods->n; i++)
        any = any || node_find(methods->items[i], "W") || node_find(methods->items[i], "A") ||
              node_find(methods->items[i], "KV");
    if (!any) return OK;
    PASS(node_new(NODE_LIST, &methods->place, &all, e));
    for (int64_t i = 0; i < methods->n; i++) PASS(spread_entry(all, methods->items[i], e));
    const struct node before = *methods;
    methods->items = all->items;
    methods->n = all->n;
    methods->capacity = all->capacity;
    all->items = before.items;
    all->n = before.n;
    return OK;
}
