/* Activations and scratch memory of the stages (struct acts). */
#include "math/bf16.h"
#include "model/model_internal.h"
#include "util/mem.h"
#include "util/num.h"
#include <omp.h>

void acts_widths(const struct spec *s, int64_t *in, int64_t *inner)
{
    const struct model_shape *m = &s->shape;
    int64_t up = m->intermediate * (s->gated ? 2 : 1);
    *in = max64(max64(m->hidden, m->heads * m->head_dim), m->intermediate);
    *inner = max64(max64(qkv_width(s), up), m->hidden);
}

enum status model_acts_init(const struct model *m, int64_t tokens, struct acts *a, struct err *e)
{
    enum status st = OK;
    const int64_t terms = products_terms(products_of_calibration(m->products));
    int64_t angles = m->spec.n_ropes * m->spec.rope[0].half; /* per token */
    memset(a, 0, sizeof *a);
    a->tokens = tokens;
    a->products = m->products;
    a->threads = omp_get_max_threads();
    acts_widths(&m->spec, &a->in_width, &a->inner_width);
    TRY(mem_alloc(&a->in, tokens * a->in_width, sizeof(float), "stage inputs", e));
    TRY(mem_alloc(&a->inner, tokens * a->inner_width, sizeof(float), "activations", e));
    TRY(mem_alloc(&a->branch, tokens * m->spec.shape.hidden, sizeof(float), "branch", e));
    TRY(mem_alloc(&a->terms, terms * tokens * a->in_width, sizeof *a->terms,
                  "terms of stage inputs", e));
    TRY(mem_alloc(&a->tiles, tokens, sizeof *a->tiles, "tiles", e));
    TRY(mem_alloc(&a->cosine, tokens * angles, sizeof(float), "RoPE table", e));
    TRY(mem_alloc(&a->sine, tokens * angles, sizeof(float), "RoPE table", e));
    TRY(mem_alloc(&a->scores, a->threads * scores_floats(m->spec.shape.head_dim, a->in_width),
                  sizeof(float), "attention scores", e));
done:
    if (st != OK) model_acts_free(a);
    return st;
}

enum status model_acts_codes(struct acts *a, struct err *e)
{
    struct integer_inputs *c = &a->codes;
    PASS(mem_alloc(&c->codes, a->tokens * a->in_width, 1, "codes of stage inputs", e));
    PASS(mem_alloc(&c->scale, a->tokens, sizeof *c->scale, "codes of stage inputs", e));
    return mem_alloc(&c->zero, a->tokens, sizeof *c->zero, "codes of stage inputs", e);
}

void model_acts_free(struct acts *a)
{
    free(a->codes.codes);
    free(a->codes.scale);
    free(a->codes.zero);
    free(a->in);
    free(a->inner);
    free(a->terms);
    free(a->branch);
    free(a->tiles);
    free(a->cosine);
    free(a->sine);
    free(a->scores);
    memset(a, 0, sizeof *a);
}

void acts_split(struct acts *a, int64_t at, int64_t n)
{
    bf16_split(a->terms + at, a->tokens * a->in_width, products_terms(a->products), a->in + at, n);
}

void acts_cut(struct acts *a, const struct sequences *s, int64_t s0, int64_t s1, int64_t tokens,
              bool by_segment)
{
    static const struct segment whole = {.parent = -1};
    a->n_tiles = 0;
    for (int64_t i = s0; i < s1; i++) {
        const int64_t first = s->offset[i] - s->offset[s0], T = s->offset[i + 1] - s->offset[i];
        const int64_t n = by_segment ? sequences_segments(s, i) : 0;
        const struct segment *b = n ? s->segments + s->first_segment[i] : &whole;
        for (int64_t k = 0; k < max64(n, 1); k++) {
            const int64_t end = k + 1 < n ? b[k + 1].row : T;
            for (int64_t row = b[k].row; row < end; row += tokens)
                a->tiles[a->n_tiles++] = (struct tile){.row = first + row,
                                                       .first = first,
                                                       .pos = b[k].pos + row - b[k].row,
                                                       .n = min64(end - row, tokens),
                                                       .valid = s->valid ? s->valid[i] : 0,
                                                       .segments = n ? b : NULL,
                                                       .segment = k};
        }
    }
}

void acts_angles(const struct spec *s, struct acts *a, int64_t n)
{
    if (n <= a->positions) return;
    for (int k = 0; k < s->n_ropes; k++) {
        const struct rope *r = &s->rope[k];
        float *cosine = a->cosine + k * a->tokens * r->half;
        float *sine = a->sine + k * a->tokens * r->half;
#pragma omp parallel for schedule(static) num_threads(a->threads)
        for (int64_t p = a->positions; p < n; p++)
            rope_angles(r, p, cosine + p * r->half, sine + p * r->half);
    }
    a->positions = n;
}
