/* gptq: internal structs and functions of GPTQ. gptq.c is the method, gptq_factor.c computes the
 * factor, gptq_panel.c stores it, gptq_sweep.c quantizes column by column. The derivation is in
 * docs/math/gptq.md. */
#pragma once
#include "quant/quant.h"

/* Columns [begin, end) are quantized one after the other before later columns are updated. Groups
 * that start inside may extend beyond the end; their scales are computed from weights that contain
 * the updates of all earlier blocks, so those weights are needed for [begin, reach). */
struct gptq_block {
    int64_t begin, end, reach;
    float *inverse; // (reach - begin, reach - begin) inverse of that block of the factor; upper
                    // triangular; NULL if the factor is distributed
};

/* What the linears of a stage share. Columns are in the order of the sweep unless noted. */
struct gptq_prepared {
    struct quant_options options; /* the options it was made with */
    int64_t cols;
    int64_t *order; // (cols) position in the sweep -> column of W; NULL: the same order
    bool *dead; // (cols) by column of W: the input is always zero, the weights count as zero; NULL:
                // none
    float *factor; // (gptq_factor_floats) R in panels (struct gptq_panel); NULL: it is in dist
    struct dist *dist;
    float *asymmetry; // (cols, cols) GPTAQ's P, zeros on and below the diagonal; NULL: plain GPTQ
    bool consistent;  /* P multiplies weights before they are rounded everywhere, not only inside a
                         block */
    int form;         /* enum grid_form */
    double damping; /* fraction of the diagonal's mean that was added; NaN: no damping sufficed, R =
                       I */
    double lambda;  /* the value added to the diagonal */
    int64_t n_blocks;
    int64_t widest;     /* largest reach - begin of a block */
    int64_t band_tiles; /* tiles of a band, and consecutive blocks of a panel (gptq_band.h) */
    int64_t panel_blocks;
    int64_t widest_panel; /* largest reach - begin of a panel */
    bool strips;          /* products of bands are those of math/strip.h */
    struct gptq_block *blocks;
};

/* Sums over all weights of a linear. */
struct gptq_sums {
    double loss;                     /* |(W - Q) R|² with the weights of the sweep */
    double weight;                   /* |W R|² */
    double loss_plain, weight_plain; /* |W - Q|², |W|², without dead columns */
};

/* --- gptq.c: members of struct quant_method, also of methods that are GPTQ with something else ---
 */

/* Options of the factor and the sweep. */
#define GPTQ_OPTIONS                                                                               \
    "order damping damping_increment block_size static_groups hessian_per_token last_resort"

/* The member check. */
MUST_USE enum status gptq_check(int64_t bits, const struct quant_options *o, struct err *e);
/* The member prepare: the factor of H. */
MUST_USE enum status gptq_prepare(const struct quant_input *in, const struct quant_options *o,
                                  void **out, struct err *e);
/* The member share: the factor from the rank that made it. */
MUST_USE enum status gptq_share(const struct quant_input *in, void *prepared, enum status made,
                                struct err *e);
/* The member release. */
void gptq_release(void *prepared);
CLEANUP_BY_VALUE(struct gptq_prepared, gptq_release);

/* --- gptq_factor.c --- */

/* The factor by which H differs from the sums: H = gptq_hessian_scale * sums. */
double gptq_hessian_scale(const struct quant_input *in, const struct quant_options *o);
/* Factors H, whose diagonal is diagonal (cols, by column of W), into h (cols, cols) or, if the sums
 * are distributed (then collective, h NULL), in place. Sets damping and lambda. ERR_NUMERIC: no
 * damping that the options allow suffices. */
MUST_USE enum status gptq_factor(struct gptq_prepared *p, const struct quant_input *in,
                                 const double *diagonal, double *h, struct err *e);
/* gptq_blocks: sets the blocks' bounds and (inverses) allocates their inverses. gptq_inverses:
 * computes these from R = r (cols, cols). Local. ERR_NOMEM, ERR_NUMERIC. */
MUST_USE enum status gptq_blocks(struct gptq_prepared *p, bool inverses, struct err *e);
/* Block i by the options and columns of p, without its inverse. */
struct gptq_block gptq_block_at(const struct gptq_prepared *p, int64_t i);
/* Sets the tiles of a band and the blocks of a panel (gptq_band.h), wide bands with strips where
 * they are fast, before the factor is stored. gptq_blocks takes those that gptq_band_tiles and
 * gptq_panel_blocks give for a matrix of so many columns (docs/decisions/0031-wide-sweeps.md). */
void gptq_shape(struct gptq_prepared *p, int64_t band_tiles, int64_t panel_blocks);
int64_t gptq_band_tiles(int64_t cols);
int64_t gptq_panel_blocks(int64_t block_size, int64_t cols);
MUST_USE enum status gptq_inverses(struct gptq_prepared *p, const double *r, struct err *e);

/* --- gptq_panel.c --- */

/* The factor R as the sweep reads it. Columns are processed in panels of some blocks each
 * (gptq_band.h). A panel's columns are stored as rows without gaps, so that what is before a panel
 * is one product with neither a transposition nor strides (docs/decisions/0031), and only the
 * triangle of R is stored. */

/* Columns [begin, end) of the sweep, which are the blocks [first, last). Groups of theirs extend to
 * `reach`. */
struct gptq_panel {
    int64_t first, last, begin, end, reach;
    const float *before; // (reach - begin, begin) row j: column begin + j of R before the panel
    const float *own;    /* of each block, one after the other: */
    // (reach - begin of the block, begin - begin of the panel) column by column what is in the
    // panel and before the block
    // (end - begin, end - begin) the block's own rows
};

/* Panel k without its numbers, and the number of panels. They need the options, columns, blocks'
 * number and shape of p alone. */
struct gptq_panel gptq_panel_of(const struct gptq_prepared *p, int64_t k);
int64_t gptq_panel_count(const struct gptq_prepared *p);

/* Floats of panel->before, of panel->own and of one block of it. */
int64_t gptq_panel_before(const struct gptq_panel *panel);
int64_t gptq_panel_own(const struct gptq_prepared *p, const struct gptq_panel *panel);
int64_t gptq_block_own(const struct gptq_panel *panel, const struct gptq_block *b);

/* own = the panel's own rows and columns of R, corner (pitch: of its rows) in f64. */
void gptq_panel_pack(const struct gptq_prepared *p, const struct gptq_panel *panel, float *own,
                     const double *corner, int64_t pitch);

/* Floats of p->factor, and of what is inside the largest panel (own), by the
 * options, columns, blocks' number and shape of p. */
int64_t gptq_factor_floats(const struct gptq_prepared *p);
int64_t gptq_panel_own_most(const struct gptq_prepared *p);
/* p->factor = r (cols, cols), of which only the upper triangle is read; and r = p->factor, with
 * zeros below the diagonal. */
void gptq_factor_pack(const struct gptq_prepared *p, const double *r);
void gptq_factor_unpack(const struct gptq_prepared *p, double *r);

/* --- gptq_sweep.c --- */

/* Quantizes this rank's rows of job->w into job->q; *sums are over all rows. Parallel over tiles of
 * rows; collective on the team. */
MUST_USE enum status gptq_sweep(const struct quant_job *job, struct gptq_sums *sums, struct err *e);

/* Bytes of scratch memory of gptq_sweep. */
int64_t gptq_sweep_bytes(const struct quant_options *o, const struct quant_extent *x);
