/* draws: random choices of calibration sequences, for replicates of a quantized checkpoint. */
#pragma once
#include "model/sequences.h"

/* Draws take their sequences from so many times as many as are usually calibrated on. */
enum { DRAWS_POOL = 32 };

/* out[i] (n_draws of them, i + 1 is the number of the draw; the caller frees each with
 * sequences_free, also after a failure) = `size` sequences of `pool`, in its order. The first
 * `size` of the pool are those that are usually calibrated on. No draw has a sequence that shares a
 * span of OVERLAP_SPAN tokens with `avoid`. As long as they last, draws share no sequences with
 * each other nor with the usual ones; each later draw is a new choice from all of the pool. What is
 * drawn depends on the seed and on the number of the draw (rng.h), not on n_draws. ERR_USAGE:
 * beside `avoid` there are no more than `size`, so that all draws would be equal; ERR_NOMEM. */
MUST_USE enum status draws_make(const struct sequences *pool, int64_t size,
                                const struct sequences *avoid, uint64_t seed, int64_t n_draws,
                                struct sequences *out, struct err *e);
