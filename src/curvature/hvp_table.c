/* The table of a subset's parameters: which tensors, their order, and where they are stored. */
#include "curvature/hvp_internal.h"
#include "util/mem.h"
#include "util/num.h"

const char *const hvp_subsets[HVP_SUBSETS + 1] = {[HVP_ALL] = "all",
                                                  [HVP_MAT2D] = "mat2d",
                                                  [HVP_BLOCKS2D] = "blocks2d",
                                                  [HVP_QUANTIZED] = "quantized"};

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

/* Numbers of a layer's members with so many dimensions (0: any); layer -1: outside the blocks. */
static int64_t layer_numbers(const struct spec *s, enum hvp_subset subset, int64_t layer, int dims)
{
    struct slot slots[SLOTS_MAX];
    int64_t numbers = 0;
    int n = slots_of(s, layer, slots);
    for (int i = 0; i < n; i++)
        if (member(subset, &slots[i], layer) && (dims == 0 || slots[i].n_dims == dims))
            numbers += slot_elements(&slots[i]);
    return numbers;
}

int64_t hvp_numbers(const struct spec *s, enum hvp_subset subset)
{
    return layer_numbers(s, subset, -1, 0) + s->shape.layers * layer_numbers(s, subset, 0, 0);
}

/* The embedding and the output matrix, which have the same size, are never there together. */
int64_t hvp_buffer_numbers(const struct spec *s, enum hvp_subset subset)
{
    int64_t matrices = layer_numbers(s, subset, -1, 2), rest = layer_numbers(s, subset, -1, 1);
    return max64(layer_numbers(s, subset, 0, 0), matrices / (s->shape.tied ? 1 : 2) + rest);
}

static int by_name(const void *a, const void *b)
{
    const struct hvp_entry *x = a, *y = b;
    return strcmp(x->tensor.name, y->tensor.name);
}

static enum status add_entries(struct hvp *h, enum hvp_subset subset, int64_t layer, struct err *e)
{
    struct slot slots[SLOTS_MAX];
    int n = slots_of(&h->m->spec, layer, slots);
    for (int i = 0; i < n; i++) {
        char name[NAME_MAX_LEN], *copy;
        if (!member(subset, &slots[i], layer)) continue;
        slot_name(h->m, &slots[i], layer, name);
        PASS(mem_string(&copy, name, e));
        h->entries[h->n_tensors++] =
            (struct hvp_entry){.slot = slots[i],
                               .tensor = {.name = copy,
                                          .elements = slot_elements(&slots[i]),
                                          .n_dims = slots[i].n_dims,
                                          .shape = {slots[i].n[0], slots[i].n[1]},
                                          .layer = layer}};
    }
    return OK;
}

static bool is_outer_matrix(const struct hvp_entry *t)
{
    return t->tensor.layer < 0 && t->slot.n_dims == 2;
}

/* Places the tensors of each unit one after the other in its buffer. Outside the blocks the
 * embedding and the output matrix both come first: they are never in a buffer together. */
static void place_in_buffers(struct hvp *h)
{
    int64_t matrix = 0;
    for (int64_t t = 0; t < h->n_tensors; t++)
        if (is_outer_matrix(&h->entries[t])) matrix = max64(matrix, h->entries[t].tensor.elements);
    for (int64_t l = -1; l < h->m->spec.shape.layers; l++) {
        int64_t at = l < 0 ? matrix : 0;
        for (int64_t i = h->layer_at[l + 1]; i < h->layer_at[l + 2]; i++) {
            struct hvp_entry *t = &h->entries[h->by_layer[i]];
            t->at = is_outer_matrix(t) ? 0 : at;
            if (!is_outer_matrix(t)) at += t->tensor.elements;
        }
        h->buffer = max64(h->buffer, at);
    }
}

enum status hvp_table_open(struct hvp *h, enum hvp_subset subset, struct err *e)
{
    int64_t layers = h->m->spec.shape.layers, capacity = OUTER_N + layers * SLOTS_MAX, at = 0;
    PASS(mem_alloc(&h->entries, capacity, sizeof *h->entries, "names of parameters", e));
    for (int64_t l = -1; l < layers; l++) PASS(add_entries(h, subset, l, e));
    qsort(h->entries, (size_t)h->n_tensors, sizeof *h->entries, by_name);
    PASS(mem_alloc(&h->by_layer, h->n_tensors, sizeof *h->by_layer, "places of parameters", e));
    PASS(mem_alloc(&h->layer_at, layers + 2, sizeof *h->layer_at, "places of parameters", e));
    for (int64_t t = 0; t < h->n_tensors; t++) {
        h->entries[t].tensor.offset = h->n;
        h->n += h->entries[t].tensor.elements;
    }
    for (int64_t l = -1; l <= layers; l++) { /* counting sort of the tensors by layer */
        h->layer_at[l + 1] = at;
        for (int64_t t = 0; t < h->n_tensors && l < layers; t++)
            if (h->entries[t].tensor.layer == l) h->by_layer[at++] = t;
    }
    place_in_buffers(h);
    return OK;
}

void hvp_table_close(struct hvp *h)
{
    for (int64_t t = 0; t < h->n_tensors; t++) free((char *)(uintptr_t)h->entries[t].tensor.name);
    free(h->entries);
    free(h->by_layer);
    free(h->layer_at);
}

int64_t hvp_tensor_here(const struct hvp *h, int64_t tensor, int64_t *begin, int64_t *at)
{
    const struct hvp_tensor *t = &h->entries[tensor].tensor;
    int64_t end = t->offset + t->elements;
    *at = t->offset;
    space_clip(&h->space, at, &end);
    *begin = *at + h->space.first - t->offset;
    return end - *at;
}

/* One table of pointers serves vectors that are read and sums that are written. */
static real *part(const struct hvp *h, const real *v, const struct hvp_entry *t)
{
    return (real *)(uintptr_t)(v + (h->shared ? t->at : t->tensor.offset));
}

void hvp_params(const struct hvp *h, const real *v, int64_t layer, struct diff_params *out)
{
    memset(out, 0, sizeof *out);
    for (int64_t i = h->layer_at[layer + 1]; v && i < h->layer_at[layer + 2]; i++) {
        const struct hvp_entry *t = &h->entries[h->by_layer[i]];
        *diff_param(out, &t->slot) = part(h, v, t);
    }
}

void hvp_params_outer(const struct hvp *h, const real *v, struct hvp_outer *out)
{
    memset(out, 0, sizeof *out);
    for (int64_t i = h->layer_at[0]; v && i < h->layer_at[1]; i++) {
        const struct hvp_entry *t = &h->entries[h->by_layer[i]];
        out->p[t->slot.index] = part(h, v, t);
    }
    if (h->m->spec.shape.tied) out->p[OUTER_HEAD] = out->p[OUTER_EMBED];
}
