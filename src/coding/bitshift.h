/* bitshift: trellis codes of QTIP (Tseng et al. 2024, arXiv 2406.11235, section 3): a sequence of
 * numbers is a path over the 2^window states of a shift register. Each step shifts in `branch` new
 * bits, and the state's number stands for `values` consecutive numbers. A path is tail-biting: its
 * first bits are its last ones, so that a sequence takes `branch` bits a step and no more. */
#pragma once
#include "util/err.h"

/* Which numbers a state stands for. 1mad: one multiplication, one addition and a sum of bytes;
 * 3inst: the sum of two halves of a word as f16; hyb: a pair from a table of 512, the first with a
 * sign of its own. Formulas and constants of the authors' code (lib/codebook/bitshift.py). */
enum bitshift_kind { BITSHIFT_1MAD, BITSHIFT_3INST, BITSHIFT_HYB };

enum { BITSHIFT_WINDOW_MIN = 8, BITSHIFT_WINDOW_MAX = 16, BITSHIFT_TABLE = 512 };

struct bitshift {
    int64_t window, branch, values;
    int64_t groups; /* of states with the same bits above the newest: 2^(window - branch) */
    float *value;   // (states, values)
    float *planes;  // (values, states) the same
    double rms;     /* of all values */
};

/* Numbers of a state of the kind. */
int64_t bitshift_values(int kind);
/* table (BITSHIFT_TABLE, 2) = qtraj's own pairs of hyb, optimal for normally distributed ones,
 * which f16 holds. ERR_NOMEM. */
MUST_USE enum status bitshift_table(float *table, struct err *e);
/* A code of `bits` bits a number; free with bitshift_free. table: pairs of hyb; NULL: own ones.
 * ERR_NOMEM, ERR_USAGE: a window of less than twice the branch. */
MUST_USE enum status bitshift_make(int kind, int64_t window, int64_t bits, const float *table,
                                   struct bitshift *out, struct err *e);
void bitshift_free(struct bitshift *c);

/* packed (steps branch / 8 rounded up) = the bits of `steps` states: the first state's `window`
 * bits, then the new bits of each step, without the last window - branch, which are the first
 * again; the highest bit first in each byte. And back. */
void bitshift_pack(const struct bitshift *c, const int32_t *state, int64_t steps, uint8_t *packed);
void bitshift_unpack(const struct bitshift *c, const uint8_t *packed, int64_t steps,
                     int32_t *state);
