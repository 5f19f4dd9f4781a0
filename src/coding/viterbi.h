/* viterbi: the path of a trellis code that is nearest to a sequence. */
#pragma once
#include "coding/bitshift.h"

/* Scratch of one thread. */
struct viterbi {
    int64_t pitch;
    float *best;   // (2, pitch) costs of the best paths into each group, before and after a step
    uint8_t *back; /* for each step and group the high bits of the state before */
    float *rolled; // (steps values)
};

/* Bytes of the scratch. */
int64_t viterbi_bytes(const struct bitshift *c, int64_t steps);
/* For sequences of at most `steps` states; free with viterbi_free, also after a failure. ERR_NOMEM.
 */
MUST_USE enum status viterbi_make(const struct bitshift *c, int64_t steps, struct viterbi *out,
                                  struct err *e);
void viterbi_free(struct viterbi *v);

/* state (steps) = the path with the least squared distance to x (steps values); of equal ones that
 * with the smaller state in each decision. overlap: the path's first state has these window -
 * branch bits in front, and its last state ends with them; -1: any. Exact, in f32; sums in order of
 * steps. */
void viterbi_search(const struct bitshift *c, struct viterbi *v, const float *x, int64_t steps,
                    int64_t overlap, int32_t *state);

/* A tail-biting path, as the authors find it: x rolled by half is searched freely, and what its
 * middle has is the overlap of the search of x. */
void viterbi_tail_biting(const struct bitshift *c, struct viterbi *v, const float *x, int64_t steps,
                         int32_t *state);
