/* pyrandom: the numbers of Python's random.Random (Mersenne twister MT19937: Matsumoto and
 * Nishimura 1998), with which the harness draws few-shot examples. */
#pragma once
#include "util/err.h"

enum { PYRANDOM_STATE = 624 };

struct pyrandom {
    uint32_t state[PYRANDOM_STATE];
    int at; /* numbers of the state that have been used */
};

/* As random.Random(seed); Python takes the absolute value of a negative seed. */
void pyrandom_seed(struct pyrandom *r, uint64_t seed);
/* As getrandbits(32). */
uint32_t pyrandom_bits(struct pyrandom *r);
/* As sample(range(n), k): out (k) = different numbers below n. 0 <= k <= n < 2^32. ERR_NOMEM. */
MUST_USE enum status pyrandom_sample(struct pyrandom *r, int64_t n, int64_t k, int64_t *out,
                                     struct err *e);
