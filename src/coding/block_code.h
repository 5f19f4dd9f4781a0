/* block_code: weights whose two sides were mixed (mix.h), as codes of blocks of BAND_ROWS rows and
 * a few columns: paths of a trellis code (bitshift.h) or vectors of E8 (e8.h), and as bytes.
 *
 * W = s Vᵀ C Uᵀ: C is what the codes stand for, U and V mix input and output channels. */
#pragma once
#include "coding/bitshift.h"
#include "coding/e8.h"
#include "coding/feedback.h"
#include "coding/mix.h"

/* The first three are those of bitshift_kind. */
enum block_kind { BLOCK_1MAD, BLOCK_3INST, BLOCK_HYB, BLOCK_E8P, BLOCK_KINDS };
extern const char *const block_kinds[];

struct block_form {
    int kind;
    int64_t bits, window; /* of a weight; of a state, 0: no trellis */
};

/* Columns of a block, bytes of its code. */
int64_t block_columns(const struct block_form *f);
int64_t block_bytes(const struct block_form *f);
/* Bytes of the codes of a matrix, whose sides are rounded up to whole blocks. */
int64_t block_all_bytes(const struct block_form *f, int64_t rows, int64_t cols);

struct block_code {
    struct block_form form;
    struct bitshift trellis;
    struct e8 *lattice; /* NULL: a trellis code */
};
/* table: as of bitshift_make. Free with block_code_free, also after a failure. ERR_USAGE: widths or
 * windows that the code does not have; ERR_NOMEM. */
MUST_USE enum status block_code_open(const struct block_form *f, const float *table,
                                     struct block_code *out, struct err *e);
void block_code_free(struct block_code *c);
/* q (BAND_ROWS, columns) = what a block's bytes stand for. */
void block_values(const struct block_code *c, const uint8_t *bytes, float *q);

/* --- matrices --- */

/* Both sides of a matrix, with scratch for all threads. */
struct block_sides {
    int64_t rows, cols;
    struct mix in, out; /* part 0: this side is as it is */
    double *scratch;
};
/* Allocates the scratch for sides with rows and cols; free with block_sides_free. ERR_NOMEM. */
MUST_USE enum status block_sides_room(struct block_sides *s, struct err *e);
/* Bytes of the scratch. */
int64_t block_sides_bytes(int64_t rows, int64_t cols, int64_t threads);
void block_sides_free(struct block_sides *s);
/* to (rows, cols) = V (by from) U. Parallel. */
void block_sides_mix(const struct block_sides *s, float *to, const float *from, double by);

/* Bytes of the signs of both sides: a bit each, 1 for -1, inputs first, the highest bit first in
 * each byte. */
int64_t block_sign_bytes(int64_t rows, int64_t cols);
/* bytes = the signs; 0 where a side is not mixed. And the sides of such signs, with room.
 * ERR_NOMEM.
 */
void block_signs(const struct block_sides *s, uint8_t *bytes);
MUST_USE enum status block_sides_of(struct block_sides *s, int64_t rows, int64_t cols,
                                    const uint8_t *signs, struct err *e);

/* w (rows, cols) = what codes stand for, but for s. Parallel. */
void block_weights(const struct block_code *c, const struct block_sides *s, const uint8_t *codes,
                   float *w);
