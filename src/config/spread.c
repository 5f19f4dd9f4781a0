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

/* A list of scalars, and none of the keys beside it, or in their mappings no bits. */
static enum status check_list(const struct node *entry, const char *key, const char *const *beside,
                              struct err *e)
{
    const struct node *list = node_find(entry, key);
    if (!list) return OK;
    bool good = list->kind == NODE_LIST && list->n > 0;
    for (int64_t i = 0; good && i < list->n; i++) good = list->items[i]->kind == NODE_SCALAR;
    if (!good) return fail_at(list, e, "expected a list of widths, [16, 4]");
    for (; *beside; beside++) {
        const struct node *n = node_find(entry, *beside);
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
    enum status st = node_append(map, copy, e);
    copy = NULL;
    return st;
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
    enum status st = node_append(entry, grid, e);
    grid = NULL;
    return st;
}

/* One combination; a width is NULL where there is no list of it. W: 16, or all others. */
static enum status add_entry(struct node *to, const struct node *from, const struct node *W,
                             const struct node *A, const struct node *KV, struct err *e)
{
    static const char *const widths[] = {"W", "A", "KV", NULL}, *const of_model[] = {
                                                                    "activations",   "keys",
                                                                    "values",        "rotation",
                                                                    "rotation_seed", NULL};
    CLEANUP(node_free_at) struct node *entry = NULL, *none = NULL, *bits = NULL;
    const bool plain = W && is_none(W);
    PASS(node_new(NODE_MAP, &from->place, &entry, e));
    for (int64_t i = 0; i < from->n; i++) {
        const struct node *n = from->items[i];
        const bool grid = (A && strcmp(n->key, "activations") == 0) ||
                          (KV && (strcmp(n->key, "keys") == 0 || strcmp(n->key, "values") == 0));
        if (is_one_of(n->key, widths) || grid || (plain && !is_one_of(n->key, of_model))) continue;
        PASS(add_copy(entry, n->key, n, e));
    }
    if (plain) {
        PASS(node_new_scalar("none", false, &W->place, &none, e));
        PASS(add_copy(entry, "method", none, e));
    } else if (W) {
        PASS(node_new(NODE_LIST, &W->place, &bits, e));
        const struct node *all = node_find(from, "W");
        for (int64_t i = 0; i < all->n; i++)
            if (!is_none(all->items[i])) PASS(add_copy(bits, "", all->items[i], e));
        PASS(add_copy(entry, "bits", bits, e));
    }
    if (A) PASS(add_grid(entry, "activations", node_find(from, "activations"), A, e));
    if (KV) PASS(add_grid(entry, "keys", node_find(from, "keys"), KV, e));
    if (KV) PASS(add_grid(entry, "values", node_find(from, "values"), KV, e));
    enum status st = node_append(to, entry, e);
    entry = NULL;
    return st;
}

/* The i-th width of a list; NULL: there is no list. */
static const struct node *width_of(const struct node *list, int64_t i)
{
    return list ? list->items[i] : NULL;
}

static int64_t count(const struct node *list)
{
    return list ? list->n : 1;
}

static enum status spread_entry(struct node *to, const struct node *m, struct err *e)
{
    static const char *const of_weights[] = {"bits", NULL},
                             *const of_inputs[] = {"activations", NULL},
                             *const of_cache[] = {"keys", "values", NULL};
    const int64_t before = to->n;
    const struct node *W = node_find(m, "W"), *A = node_find(m, "A"), *KV = node_find(m, "KV");
    struct node *copy;
    if (!W && !A && !KV) {
        PASS(node_copy(m, &copy, e));
        return node_append(to, copy, e);
    }
    PASS(check_list(m, "W", of_weights, e));
    PASS(check_list(m, "A", of_inputs, e));
    PASS(check_list(m, "KV", of_cache, e));
    bool quantized = false; /* the widths of W but 16 are one entry */
    for (int64_t w = 0; w < count(W); w++) {
        if (W && !is_none(width_of(W, w)) && quantized) continue;
        quantized = quantized || (W && !is_none(width_of(W, w)));
        for (int64_t a = 0; a < count(A); a++)
            for (int64_t k = 0; k < count(KV); k++) {
                const struct node *own[] = {width_of(W, w), width_of(A, a), width_of(KV, k)};
                const bool grids = (own[1] && !is_none(own[1])) || (own[2] && !is_none(own[2]));
                if (own[0] && is_none(own[0]) && !grids) continue;
                PASS(add_entry(to, m, own[0], own[1], own[2], e));
            }
    }
    if (to->n == before)
        return fail_at(W, e, "16 bits are not quantized; expected another width of W, A or KV");
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
