/* Writes the program of a block: which operation reads and writes which buffers, in all families.
 */
#include "model/diff_block.h"
#include <string.h>

struct builder {
    struct diff_program *p;
    enum diff_buffer at; /* output of the last operation */
};

static void add_op(struct builder *b, enum diff_kind kind, int arg, enum diff_buffer from,
                   enum diff_buffer to)
{
    b->p->op[b->p->n++] = (struct diff_op){.kind = kind, .arg = arg, .a = from, .b = from, .y = to};
    b->at = to;
}

static void add_sum(struct builder *b, enum diff_buffer x, enum diff_buffer branch,
                    enum diff_buffer to)
{
    add_op(b, DIFF_ADD, 0, x, to);
    b->p->op[b->p->n - 1].b = branch;
}

/* The inputs of linears, in 8 bits in the buffer `to`, which is not read by what made them. */
static void add_round(struct builder *b, const struct spec *s, enum diff_buffer to)
{
    if (s->linears != BITNET_NONE) add_op(b, DIFF_ROUND, 0, b->at, to);
}

/* Finds the adjoints that several operations contribute to (all but the first to run, in the
 * backward order, must add), and the values that adjoints need: all inputs except those of
 * additions. */
static void analyse(struct diff_program *p)
{
    bool seen[DIFF_BUFFERS] = {false}, needed[DIFF_BUFFERS] = {false};
    for (int i = p->n - 1; i >= 0; i--) {
        struct diff_op *op = &p->op[i];
        op->add_a = seen[op->a];
        op->add_b = seen[op->b];
        seen[op->a] = seen[op->b] = true;
        op->backward = needed[op->y];
        if (op->backward || op->kind != DIFF_ADD) needed[op->a] = needed[op->b] = true;
    }
}

/* Whether something changes q, k, v before the attention that is not linear. */
static bool prepares(const struct spec *s)
{
    return s->qk_norm != QK_NONE || s->clip > 0;
}

/* Finds what later passes read: the inputs, and the adjoints of the outputs, of every operation
 * that is not linear or has weights. DIFF_PREPARE is linear when it only rotates. */
static void find_read(const struct spec *s, struct diff_program *p)
{
    for (int i = 0; i < p->n; i++) {
        const struct diff_op *op = &p->op[i];
        p->inside.has[op->a] = p->inside.has[op->b] = p->inside.has[op->y] = true;
        if (op->kind == DIFF_ADD || op->kind == DIFF_ROUND) continue;
        if (op->kind == DIFF_PREPARE && !prepares(s)) continue;
        p->read.has[op->a] = p->adjoint_read.has[op->y] = true;
    }
    struct diff_set *sets[] = {&p->inside, &p->read, &p->adjoint_read};
    for (int i = 0; i < 3; i++) sets[i]->has[DIFF_X0] = sets[i]->has[DIFF_X2] = false;
}

/* Where RoPE alone changes q, k, v, it does so in place, without DIFF_RAW. */
static void attention_ops(struct builder *b, const struct spec *s, bool pre)
{
    const enum diff_buffer projected = prepares(s) ? DIFF_RAW : DIFF_QKV;
    if (pre) add_op(b, DIFF_NORM, EXTRA_ATTN_NORM, DIFF_X0, DIFF_N1);
    add_round(b, s, DIFF_N1);
    add_op(b, DIFF_LINEAR, STAGE_QKV, b->at, projected);
    add_op(b, DIFF_PREPARE, 0, b->at, DIFF_QKV);
    add_op(b, DIFF_ATTEND, 0, b->at, DIFF_ATT);
    if (s->arch->attn_sub_norm) add_op(b, DIFF_NORM, EXTRA_ATTN_SUB_NORM, b->at, DIFF_NA);
    add_round(b, s, DIFF_NA);
    add_op(b, DIFF_LINEAR, STAGE_O, b->at, DIFF_O);
    if (!pre) add_op(b, DIFF_NORM, EXTRA_ATTN_NORM, b->at, DIFF_B1);
}

static void mlp_ops(struct builder *b, const struct spec *s, bool pre)
{
    if (pre) add_op(b, DIFF_NORM, EXTRA_MLP_NORM, b->at, DIFF_N2);
    add_round(b, s, DIFF_N2);
    add_op(b, DIFF_LINEAR, STAGE_UP, b->at, DIFF_UP);
    add_op(b, DIFF_ACTIVATE, 0, b->at, DIFF_ACT);
    if (s->arch->mlp_sub_norm) add_op(b, DIFF_NORM, EXTRA_MLP_SUB_NORM, b->at, DIFF_NI);
    add_round(b, s, DIFF_NI);
    add_op(b, DIFF_LINEAR, STAGE_DOWN, b->at, DIFF_DOWN);
    if (!pre) add_op(b, DIFF_NORM, EXTRA_MLP_NORM, b->at, DIFF_B2);
}

static void widths(const struct spec *s, struct diff_program *p)
{
    const struct model_shape *m = &s->shape;
    for (int i = 0; i < DIFF_BUFFERS; i++) p->width[i] = m->hidden;
    p->width[DIFF_RAW] = p->width[DIFF_QKV] = qkv_width(s);
    p->width[DIFF_ATT] = p->width[DIFF_NA] = m->heads * m->head_dim;
    p->width[DIFF_UP] = m->intermediate * (s->gated ? 2 : 1);
    p->width[DIFF_ACT] = p->width[DIFF_NI] = m->intermediate;
}

void diff_program(const struct spec *s, struct diff_program *out)
{
    struct builder b = {.p = out, .at = DIFF_X0};
    struct slot slots[SLOTS_MAX];
    bool pre = s->arch->place == NORM_PRE;
    memset(out, 0, sizeof *out);
    widths(s, out);
    int n = slots_of(s, 0, slots);
    for (int i = 0; i < n; i++)
        if (slots[i].kind == SLOT_WEIGHT)
            out->linear[out->n_linears++] = (struct linear){
                .stage = slots[i].stage, .rows = slots[i].n[0], .cols = slots[i].n[1]};
    attention_ops(&b, s, pre);
    enum diff_buffer branch = b.at;
    if (!s->parallel) add_sum(&b, DIFF_X0, branch, DIFF_X1);
    if (s->parallel) b.at = DIFF_X0; /* the MLP reads the block's input */
    mlp_ops(&b, s, pre);
    enum diff_buffer last = b.at;
    if (s->parallel) add_sum(&b, DIFF_X0, branch, DIFF_X1);
    add_sum(&b, DIFF_X1, last, DIFF_X2);
    analyse(out);
    find_read(s, out);
}
