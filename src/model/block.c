/* Loads the weights of one block. */
#include "activation/bitnet.h"
#include "math/kern_bf16.h"
#include "model/model_internal.h"
#include "util/mem.h"
#include <math.h>

enum { ALIGN_FLOATS = 16 };

static int64_t padded(int64_t n)
{
    return (n + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
}

int64_t block_floats(const struct slot *slots, int n)
{
    int64_t size = 0;
    for (int i = 0; i < n; i++) size += padded(slot_elements(&slots[i]));
    return size;
}

double softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

/* The learned scalars after softplus, rounded to f32 as in transformers (Huang and Schlag 2024). */
void model_block_complete(struct block *b)
{
    struct block_extra *x = b->extra;
    const float *const *p = x->p;
    if (!p[EXTRA_ALPHA_P]) return;
    x->xielu.beta = p[EXTRA_BETA] ? *p[EXTRA_BETA] : 0.5f;
    x->xielu.eps = p[EXTRA_EPS] ? *p[EXTRA_EPS] : -1e-6f;
    x->xielu.a = (float)softplus(*p[EXTRA_ALPHA_P]);
    x->xielu.b = x->xielu.beta + (float)softplus(*p[EXTRA_ALPHA_N]);
}

static float round_one(double x)
{
    float rounded = (float)x;
    kern_bf16_round(&rounded, &rounded, 1);
    return rounded;
}

struct xielu block_xielu_bf16(const struct block *b)
{
    const float *const *p = b->extra->p;
    struct xielu c = b->extra->xielu;
    c.beta = round_one(c.beta);
    c.eps = round_one(c.eps);
    c.a = round_one(softplus(round_one(*p[EXTRA_ALPHA_P])));
    c.b = round_one(c.beta + round_one(softplus(round_one(*p[EXTRA_ALPHA_N]))));
    return c;
}

static enum status place(const struct model *m, int64_t layer, const struct slot *t,
                         struct block *b, const float *at, struct err *e)
{
    struct linear *l = b->linear + (t->kind == SLOT_EXTRA ? 0 : t->index);
    char name[NAME_MAX_LEN];
    if (t->kind == SLOT_WEIGHT) {
        slot_name(m, t, layer, name);
        PASS(mem_string(&l->name, name, e));
        l->stage = t->stage;
        l->rows = t->n[0];
        l->cols = t->n[1];
        l->w = at;
        b->n_linears = t->index + 1;
    } else if (t->kind == SLOT_BIAS) {
        l->bias = at;
    } else {
        b->extra->p[t->index] = at;
    }
    return OK;
}

int64_t model_block_floats(const struct model *m)
{
    struct slot slots[SLOTS_MAX];
    int n = slots_of(&m->spec, 0, slots);
    return block_floats(slots, n);
}

/* Whether this part reads the slot: slots go in their order to the part with the fewest elements.
 */
static bool part_reads(const struct slot *slots, int n, int slot, struct model_part part)
{
    int64_t load[SLOTS_MAX] = {0};
    int reader = 0, parts = part.parts < SLOTS_MAX ? part.parts : SLOTS_MAX;
    for (int i = 0; i <= slot && i < n; i++) {
        reader = 0;
        for (int k = 1; k < parts; k++)
            if (load[k] < load[reader]) reader = k;
        load[reader] += slot_elements(&slots[i]);
    }
    return reader == part.part;
}

enum status model_block_read(const struct model *m, int64_t layer, struct model_part part,
                             float *storage, struct block *out, struct err *e)
{
    CLEANUP(model_block_free)
    struct block b = {.layer = layer, .storage = storage, .borrowed = true};
    struct slot slots[SLOTS_MAX];
    const bool ternary = m->spec.linears == BITNET_ONLINE && !m->straight_through;
    int n = slots_of(&m->spec, 0, slots);
    int64_t at = 0;
    PASS(mem_zero(&b.extra, 1, sizeof *b.extra, "block", e));
    for (int i = 0; i < n; i++) {
        char name[NAME_MAX_LEN];
        slot_name(m, &slots[i], layer, name);
        if (slots[i].buffer && !checkpoint_find(m->checkpoint, name)) continue;
        const int64_t elements = slot_elements(&slots[i]);
        float *dst = storage + at;
        const bool reads = part_reads(slots, n, i, part);
        if (reads) PASS(slot_read(m, &slots[i], layer, dst, e));
        if (reads && ternary && slots[i].kind == SLOT_WEIGHT) {
            bitnet_weights(dst, elements, dst);
            if (m->rounded) kern_bf16_round(dst, dst, elements);
        }
        PASS(place(m, layer, &slots[i], &b, dst, e));
        at += padded(elements);
    }
    *out = b;
    memset(&b, 0, sizeof b);
    return OK;
}

enum status model_block_load(const struct model *m, int64_t layer, struct block *out, struct err *e)
{
    AUTO_FREE float *storage = NULL;
    PASS(mem_alloc(&storage, model_block_floats(m), sizeof(float), "weights of a block", e));
    PASS(model_block_read(m, layer, (struct model_part){0, 1}, storage, out, e));
    out->borrowed = false;
    storage = NULL;
    model_block_complete(out);
    return OK;
}

enum status model_prepare_begin(const struct model *m, const struct integer_grids *g, int64_t rows,
                                int64_t cols, struct product_weights **out, struct err *e)
{
    if (g) return product_weights_integers(g, rows, cols, linear_piece(rows), out, e);
    return product_weights_describe(products_of_calibration(m->products), rows, cols,
                                    linear_piece(rows), out, e);
}

void model_block_free(struct block *b)
{
    if (!b->storage) return;
    for (int i = 0; i < LINEARS_MAX; i++) free(b->linear[i].name);
    free(b->extra);
    if (!b->borrowed) free(b->storage);
    memset(b, 0, sizeof *b);
}
