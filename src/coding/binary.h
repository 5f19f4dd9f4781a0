/* binary: a block of columns in binary terms, each of which is a mean plus or minus a scale, as in
 * the code of BiLLM's authors (Huang et al. 2024, arXiv 2402.04291; utils/autosearch.py and
 * binary.py of Aaronhuang-778/BiLLM). A row of the block has two terms for its weights in salient
 * columns, the second of what the first leaves; one for other weights with large scores; one for
 * the rest. A scale is the mean distance from the mean. The sign of a number that is the mean is +.
 *
 * Scores w² / d_j², not weights, decide which columns are salient and which weights are large. One
 * number of salient columns and one point hold for all rows, so every step is done for all tiles of
 * rows before the next. Functions are local. */
#pragma once
#include "util/err.h"
#include <stdbool.h>

/* Fewer columns than this are salient; the shares of scores from 0.10 to 0.90 that may be small;
 * means and scales of a row: the two means of salient columns are added. */
enum { BINARY_SALIENT_MOST = 50, BINARY_POINTS = 81, BINARY_NUMBERS = 7 };

/* The caller owns w, q and d. */
struct binary_block {
    int64_t rows, n; /* of the block */
    int64_t pitch;   /* of w and q */
    const float *w;  // (rows, n)
    float *q;        // (rows, n)
    const double *d; // (n, dn) the first number of each row is d_j
    int64_t dn;
    double *scores;  // (rows, n)
    double *sorted;  // (rows, n) scratch
    int64_t *order;  // (n) columns by falling sum of their scores
    int64_t salient; /* the first of the order */
    double points[BINARY_POINTS];
    double point; /* other weights with scores from here on are large */
    bool f16;     /* means and scales are rounded to 16 bits, after the signs are chosen */
};

/* Sets rows and allocates for blocks of at most so many columns; free with binary_close, also after
 * a failure. ERR_NOMEM. */
MUST_USE enum status binary_open(struct binary_block *b, int64_t rows, int64_t widest,
                                 struct err *e);
void binary_close(struct binary_block *b);
int64_t binary_bytes(int64_t rows, int64_t widest);
/* Bits of a weight of so many columns: a sign, and another or the side of the point; of a column a
 * bit; of each row and block BINARY_NUMBERS. */
double binary_bits(int64_t rows, int64_t cols, int64_t widest, bool f16);

/* Candidates for the number of salient columns among n, 1 to this; 0 for a single column. */
int64_t binary_counts(int64_t n);

/* A step for a tile of rows, which adds numbers to out; scratch (n, TILE_ROWS).
 * binary_score: scores; out (n) minus their sums over the rows.
 * binary_count: out[k - 1] (binary_counts) by how much the scores' squares fall if the first k
 * columns have two terms and the others two.
 * binary_split: out (BINARY_POINTS) the same for one term of other scores from points[i] on, one of
 * smaller ones.
 * binary_code: q; scratch as floats (TILE_ROWS, n) the errors (q - w) / d, 0 behind the last row;
 * out (1) their squares. */
typedef void binary_step(const struct binary_block *b, int64_t tile, double *scratch, double *out);
binary_step binary_score, binary_count, binary_split, binary_code;

/* Sets salient by the sums of binary_count, and points to quantiles of the scores of the block,
 * those of salient columns counted as 0; point by the sums of binary_split. The first of equals. */
void binary_choose_salient(struct binary_block *b, const double *sums);
void binary_choose_point(struct binary_block *b, const double *sums);
