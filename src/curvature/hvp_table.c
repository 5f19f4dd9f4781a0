/* The parameters of a subset: which, in which order, and where. */
#include "curvature/hvp_engine.h"
#include "util/mem.h"
#include "util/num.h"
#include <stdlib.h>
#include <string.h>

static const char *const subsets[HVP_SUBSETS] = {[HVP_ALL] = "all",
                                                 [HVP_MAT2D] = "mat2d",
                                                 [HVP_BLOCKS2D] = "blocks2d",
                                                 [HVP_QUANTIZED] = "quantized"};

const char *hvp_subset_name(enum hvp_subset s)
{
    return subsets[s];
}

static bool member(enum hvp_subset subset, const struct slot *t, int64_t layer)
{
    if (t->buffer) return false;
    switch (subset) {
    case HVP_MAT2D:
        return t->n_dims == 2;
    case HVP_BLOCKS2D:
        return t->n_dims == 2 && layer >= 0;
    case HVP_QUANTIZED:
        return t->kind == SLOT_WEIGHT;
    default:
        return true;
    }
}

int64_t hvp_numbers(const struct spec *s, enum hvp_subset subset)
{
    struct slot slots[SLOTS_MAX];
    int64_t numbers = 0;
    for (int64_t layer = -1; layer < s->shape.layers; layer++) {
        int n = slots_of(s, layer, slots);
        for (int i = 0; i < n; i++)
            if (member(subset, &slots[i], layer)) numbers += slot_elements(&slots[i]);
    }
    return numbers;
}

int64_t hvp_room(const struct spec *s, enum hvp_subset subset)
{
    struct slot slots[SLOTS_MAX];
    int64_t block = 0, matrix = 0, rest = 0;
    int n = slots_of(s, 0, slots);
    for (int i = 0; i < n; i++)
        if (member(subset, &slots[i], 0)) block += slot_elements(&slots[i]);
    n = slots_of(s, -1, slots);
    for (int i = 0; i < n; i++) {
        int64_t numbers = member(subset, &slots[i], -1) ? slot_elements(&slots[i]) : 0;
        if (slots[i].n_dims == 2)
            matrix = max64(matrix, numbers);
        else
            rest += numbers;
    }
    return max64(block, matrix + rest);
}

/* A line of the table before it is sorted. */
struct line {
    struct hvp_tensor tensor;
    struct hvp_place place;
};

static int by_name(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    return strcmp(x->tensor.name, y->tensor.name);
}

static enum status add_lines(struct hvp *h, enum hvp_subset subset, int64_t layer,
                             struct line *lines, struct err *e)
{
    enum status st = OK;
    struct slot slots[SLOTS_MAX];
    int n = slots_of(&h->m->spec, layer, slots);
    for (int i = 0; i < n; i++) {
        char name[NAME_MAX_LEN], *copy;
        if (!member(subset, &slots[i], layer)) continue;
        slot_name(h->m, &slots[i], layer, name);
        TRY(mem_string(&copy, name, e));
        lines[h->n_tensors++] = (struct line){.tensor = {.name = copy,
                                                         .elements = slot_elements(&slots[i]),
                                                         .n_dims = slots[i].n_dims,
                                                         .shape = {slots[i].n[0], slots[i].n[1]},
                                                         .layer = layer},
                                              .place = {slots[i], layer}};
    }
done:
    return st;
}

/* Counting sort of the tensors by layer. */
static void index_layers(struct hvp *h)
{
    int64_t layers = h->m->spec.shape.layers, at = 0;
    for (int64_t l = -1; l <= layers; l++) {
        h->layer_at[l + 1] = at;
        for (int64_t t = 0; t < h->n_tensors && l < layers; t++)
            if (h->places[t].layer == l) h->by_layer[at++] = t;
    }
}

static bool is_outer_matrix(const struct hvp *h, int64_t tensor)
{
    return h->places[tensor].layer < 0 && h->places[tensor].slot.n_dims == 2;
}

/* A layer's tensors lie one behind the other. So do those outside, but for the embedding and the
 * output matrix, which are never there together and both come first. */
static void place_rooms(struct hvp *h)
{
    int64_t matrix = 0;
    for (int64_t t = 0; t < h->n_tensors; t++)
        if (is_outer_matrix(h, t)) matrix = max64(matrix, h->tensors[t].elements);
    for (int64_t l = -1; l < h->m->spec.shape.layers; l++) {
        int64_t at = l < 0 ? matrix : 0;
        for (int64_t i = h->layer_at[l + 1]; i < h->layer_at[l + 2]; i++) {
            int64_t t = h->by_layer[i];
            h->places[t].room = is_outer_matrix(h, t) ? 0 : at;
            if (!is_outer_matrix(h, t)) at += h->tensors[t].elements;
        }
        h->room = max64(h->room, at);
    }
}

static enum status take_lines(struct hvp *h, const struct line *lines, struct err *e)
{
    enum status st = OK;
    int64_t n = h->n_tensors;
    TRY(mem_alloc(&h->tensors, n, sizeof *h->tensors, "names of parameters", e));
    TRY(mem_alloc(&h->places, n, sizeof *h->places, "places of parameters", e));
    TRY(mem_alloc(&h->by_layer, n, sizeof *h->by_layer, "places of parameters", e));
    TRY(mem_alloc(&h->layer_at, h->m->spec.shape.layers + 2, sizeof *h->layer_at,
                  "places of parameters", e));
    for (int64_t t = 0; t < n; t++) {
        h->tensors[t] = lines[t].tensor;
        h->places[t] = lines[t].place;
        h->tensors[t].offset = h->n;
        h->n += lines[t].tensor.elements;
    }
    index_layers(h);
    place_rooms(h);
done:
    if (st != OK) {
        free(h->tensors);
        h->tensors = NULL;
    }
    return st;
}

enum status hvp_table_open(struct hvp *h, enum hvp_subset subset, struct err *e)
{
    enum status st = OK;
    struct line *lines = NULL;
    int64_t layers = h->m->spec.shape.layers;
    TRY(mem_alloc(&lines, OUTER_N + layers * SLOTS_MAX, sizeof *lines, "names of parameters", e));
    for (int64_t l = -1; l < layers; l++) TRY(add_lines(h, subset, l, lines, e));
    qsort(lines, (size_t)h->n_tensors, sizeof *lines, by_name);
    TRY(take_lines(h, lines, e));
done:
    for (int64_t t = 0; st != OK && lines && t < h->n_tensors; t++)
        free((char *)(uintptr_t)lines[t].tensor.name);
    free(lines);
    return st;
}

void hvp_table_close(struct hvp *h)
{
    for (int64_t t = 0; h->tensors && t < h->n_tensors; t++)
        free((char *)(uintptr_t)h->tensors[t].name);
    free(h->tensors);
    free(h->places);
    free(h->by_layer);
    free(h->layer_at);
}

/* One table of pointers serves vectors that are read and sums that are written. */
static real *part(const struct hvp *h, const real *v, int64_t tensor)
{
    int64_t at = h->shared ? h->places[tensor].room : h->tensors[tensor].offset;
    return (real *)(uintptr_t)(v + at);
}

void hvp_params(const struct hvp *h, const real *v, int64_t layer, struct diff_params *out)
{
    memset(out, 0, sizeof *out);
    for (int64_t i = h->layer_at[layer + 1]; v && i < h->layer_at[layer + 2]; i++)
        *diff_param(out, &h->places[h->by_layer[i]].slot) = part(h, v, h->by_layer[i]);
}

void hvp_params_outer(const struct hvp *h, const real *v, struct hvp_outer *out)
{
    memset(out, 0, sizeof *out);
    for (int64_t i = h->layer_at[0]; v && i < h->layer_at[1]; i++)
        out->p[h->places[h->by_layer[i]].slot.index] = part(h, v, h->by_layer[i]);
    if (h->m->spec.shape.tied) out->p[OUTER_HEAD] = out->p[OUTER_EMBED];
}
