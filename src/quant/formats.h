/* formats: the numbers of few bits that stand for weights in a tile of rows, besides the uniform
 * integer grid (grid.h): the option `codes` of rtn and gptq.
 *
 * A weight x with the scale s of its group becomes s * c, c the code nearest to x / s. Scales:
 * the largest magnitude over the largest code (fp), that as a power of two (mx: OCP Microscaling
 * Formats v1.0, section 6.3), as an 8-bit float times a number of the matrix (nv: NVIDIA's NVFP4;
 * nvfp4_46 chooses for each group whether its largest weight becomes the code 6 or 4, arXiv
 * 2512.02010), or the mean magnitude (ternary: BitNet b1.58, arXiv 2402.17764; sign). */
#pragma once
#include "quant/grid_kind.h"

/* Sets scale and stored of each row from n columns t (n, TILE_ROWS). kind.shared: the number that
 * the rows share, in place of the columns' own (see formats_share). */
void formats_fit(struct grid *g, const float *t, int64_t n, const struct grid_kind *kind);

/* q = scale times the nearest codes, ties to even, for one column x of a tile. */
void formats_round(float *q, const float *x, const struct grid *g, const float *scale);

/* quant_method.only_bits of methods with the option `codes`. */
int64_t formats_only_bits(const struct quant_options *o);

/* Stored bits per weight of a job with so many groups in a row: codes (five ternary ones in a
 * byte) and scales. */
double formats_stored(const struct quant_job *job, int64_t groups);

/* Checks codes and scale_rows against the other options. ERR_USAGE. */
MUST_USE enum status formats_check(const struct quant_options *o, struct err *e);

/* Where rows share a scale, or the matrix has one: job->shared = *shared = the numbers of all its
 * groups (largest or mean magnitudes of the weights of job->w), which the caller frees; else NULL.
 * Collective on the team. ERR_NOMEM, ERR_MPI. */
MUST_USE enum status formats_share(struct quant_job *job, double **shared, struct err *e);
/* The number of the group of a tile that starts at `row`; NULL: its own. */
const double *formats_shared_at(const struct quant_job *job, int64_t row, int64_t group);
