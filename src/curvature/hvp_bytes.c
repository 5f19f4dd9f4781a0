/* Memory of hvp_run: counts what hvp_state_open, hvp_head and diff_weights_load allocate. */
#include "curvature/hvp_internal.h"
#include "util/num.h"

enum { READ_BUFFER = 1 << 20 };

/* Tokens of the longest chunk. */
static int64_t chunk(const struct hvp_extent *x)
{
    return min64(x->tokens, max64(x->longest, HVP_CHUNK));
}

/* n lanes for the longest chunk, the first with log_sum. */
static int64_t lanes(const struct spec *s, const struct hvp_extent *x, int64_t n)
{
    struct diff_program p;
    diff_program(s, &p);
    return diff_lane_bytes(&p, &p.inside, chunk(x), s->shape.heads) +
           (n - 1) * diff_lane_bytes(&p, &p.inside, chunk(x), 0);
}

/* The lanes of a retained state: for all chunks of all blocks, and the buffers that they share. */
static int64_t lanes_kept(const struct spec *s, const struct hvp_extent *x)
{
    struct diff_program p;
    diff_program(s, &p);
    int64_t layer = diff_lane_bytes(&p, &p.read, x->tokens, s->shape.heads) +
                    diff_lane_bytes(&p, &p.read, x->tokens, 0) +
                    diff_lane_bytes(&p, &p.adjoint_read, x->tokens, 0);
    return s->shape.layers * layer + diff_lane_bytes(&p, &p.inside, chunk(x), 0);
}

static int64_t work(const struct spec *s, const struct hvp_extent *x)
{
    int64_t tokens = chunk(x);
    int64_t sequences = 1 + x->sequences * tokens / max64(x->tokens, 1);
    int64_t rows = hvp_head_rows(s->shape.vocab);
    return diff_work_bytes(s, max64(tokens, rows), sequences, x->longest, x->threads, x->products);
}

/* A block's weights while they are read, unless it is not the call that reads them. */
static int64_t weights(const struct spec *s, const struct hvp_extent *x)
{
    struct slot slots[SLOTS_MAX];
    int n = slots_of(s, 0, slots);
    return (x->shared ? 0 : block_floats(slots, n) * (int64_t)sizeof(float)) + READ_BUFFER;
}

static int64_t head(const struct spec *s, const struct hvp_extent *x, int64_t k, bool kept)
{
    return hvp_head_bytes(s->shape.hidden, s->shape.vocab, x->tokens, k, kept);
}

/* Inputs of the blocks and adjoints between them, for the values or for one vector. */
static int64_t states(const struct spec *s, const struct hvp_extent *x, bool backward)
{
    int64_t levels = backward ? s->shape.layers + 1 : 2;
    return (levels + backward) * x->tokens * s->shape.hidden * (int64_t)sizeof(real);
}

static int64_t buffers(const struct spec *s, const struct hvp_extent *x, int64_t n)
{
    return x->shared ? n * hvp_buffer_numbers(s, x->subset) * (int64_t)sizeof(real) : 0;
}

/* The lanes of adjoints are mapped from the start, but become resident only in the backward pass,
 * when the head's memory has been freed. */
static int64_t call(const struct spec *s, const struct hvp_extent *x, int64_t k, bool backward)
{
    int64_t forward = 1 + (k > 0);
    int64_t blocks = lanes(s, x, forward * (1 + backward)) + weights(s, x);
    int64_t at_head = lanes(s, x, forward) + head(s, x, k, false);
    return (1 + k) * states(s, x, backward) + buffers(s, x, backward ? max64(2 * k, 1) : 0) +
           work(s, x) + max64(blocks, at_head);
}

/* All of a retained state is resident from the second call on. */
static int64_t call_kept(const struct spec *s, const struct hvp_extent *x, int64_t n_buffers)
{
    const int64_t rows = min64(hvp_head_rows(s->shape.vocab), x->tokens);
    const int64_t logits = hvp_logits_bytes(s->shape.hidden, s->shape.vocab, x->tokens, rows);
    return 2 * states(s, x, true) + logits + lanes_kept(s, x) + buffers(s, x, n_buffers) +
           work(s, x) + max64(weights(s, x), head(s, x, 1, true));
}

static int64_t gradient_of_values(const struct spec *s, const struct hvp_extent *x)
{
    const int64_t rows = min64(hvp_head_rows(s->shape.vocab), x->tokens);
    struct diff_program p;
    diff_program(s, &p);
    return states(s, x, true) + hvp_logits_bytes(s->shape.hidden, s->shape.vocab, rows, 0) +
           s->shape.layers * diff_lane_bytes(&p, &p.read, x->tokens, s->shape.heads) +
           diff_lane_bytes(&p, &p.inside, chunk(x), 0) + buffers(s, x, 1) + work(s, x) +
           max64(weights(s, x), head(s, x, 0, true));
}

void hvp_bytes_of(const struct spec *s, const struct hvp_extent *x, struct hvp_bytes *out)
{
    if (x->kept) {
        *out = (struct hvp_bytes){.loss = call(s, x, 0, false) + call_kept(s, x, 0),
                                  .gradient = call_kept(s, x, 1),
                                  .product = call_kept(s, x, 2)};
        return;
    }
    *out = (struct hvp_bytes){.loss = call(s, x, 0, false),
                              .gradient = call(s, x, 0, true),
                              .product = call(s, x, 1, true)};
    if (x->values) out->gradient = gradient_of_values(s, x);
    out->further = states(s, x, true) + buffers(s, x, 2);
}
