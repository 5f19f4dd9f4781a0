/* quant: post-training weight quantizers. They see matrices, never models.
 *
 * A method is one file and one line in quant_table.c. It declares what it needs and which options
 * concern it; the visit provides each need once for all linears and variants that share it. W is
 * (rows, cols) row-major, groups run along the columns. Conventions and traps: algorithms of
 * IST-DASLab/gptq (quant.py, gptq.py).
 */
#pragma once
#include "config/sweep.h"
#include "linalg/dist.h"
#include "quant/team.h"
#include "util/err.h"
#include <stdbool.h>
#include <stdint.h>

enum { NEEDS_NOTHING = 0, NEEDS_HESSIAN = 1u << 0 };

/* What is known of a stage's input: shared by the linears of the stage. Of the variant's own
 * quantized prefix, or of the full-precision model's (struct quant_options: hessian). */
struct quant_input {
    const struct quant_team *team; /* NULL: this rank alone */
    int64_t cols;
    int64_t samples; /* sequences that were summed */
    int64_t tokens;
    /* Sum of x xᵀ over the calibration tokens of all ranks, H = 2/samples of it: whole on the rank
     * `owner` of the team, or spread over the team. */
    const double *gram; // (cols, cols) upper triangle; NULL on other ranks
    int owner;
    struct dist *dist; /* NULL: gram has it. One factor at a time lives in it: what is prepared from
                          it ends when something else is */
};

/* A method's own work that the linears of one stage share (GPTQ: permutation, damping, factor). */
struct quant_prepared;

struct quant_job {
    const struct quant_team *team; /* NULL: this rank alone */
    int64_t bits;
    const struct quant_options *options;
    int64_t rows, cols;
    const float *w;   // (rows, cols) original
    float *q;         // (rows, cols) out: dequantized, this rank's rows
                      // (team_rows)
    float *unrounded; // (rows, cols) likewise, with scales as they were before they were rounded
                      // for storage; NULL: not asked for. Methods with a Hessian only
    const struct quant_input *input;       /* NULL when the method needs nothing */
    const struct quant_prepared *prepared; /* NULL when the method has no prepare */
};

struct quant_report {
    double squared_distance; /* ‖W − Ŵ‖² (Frobenius) */
    double error; /* the reference's figure: sum of (w−q)²/(2 U_ii²), damping included; NaN without
                     Hessian */
    double relative_error; /* tr((W−Ŵ) H (W−Ŵ)ᵀ) / tr(W H Wᵀ), without the damping's part; NaN
                              without Hessian */
    double damping; /* share of mean(diag H) that was added to the diagonal; NaN: none helped and
                       the layer was rounded to nearest */
    double bits_per_weight; /* codes, scales (16 bits) and zeros (b bits) */
};

/* A stage as far as memory is concerned: its inputs, the outputs of its widest linear. */
struct quant_extent {
    int64_t cols, rows;
    int64_t threads;
    int64_t ranks;    /* that share the rows */
    bool distributed; /* the Hessian is distributed over them */
};

/* Bytes of a method's own on a rank. */
struct quant_memory {
    int64_t prepared;  /* what prepare gives */
    int64_t preparing; /* more while it works */
    int64_t running;   /* of run, beside w and q */
};

struct quant_method {
    const char *name, *doc;
    unsigned needs;
    int64_t bits_min, bits_max;
    const char *options; /* keys of struct quant_options that concern it, separated by blanks */
    /* Checks options beyond their ranges; may be NULL. ERR_USAGE. */
    enum status (*check)(int64_t bits, const struct quant_options *, struct err *);
    const char *prepare_options; /* those of them that prepare looks at, likewise; bits are not */
    /* May be NULL. *out is freed with release; it serves every job of the same input whose options
     * agree in prepare_options. Collective on the team where the input is spread over it; else the
     * owner works and the others do nothing, so that several inputs can be prepared at a time by
     * their owners. share then copies the owner's work to all; st is what prepare gave (*out is
     * NULL when it failed). Collective; every rank leaves with the same status. */
    enum status (*prepare)(const struct quant_input *, const struct quant_options *,
                           struct quant_prepared **out, struct err *);
    enum status (*share)(const struct quant_input *, struct quant_prepared *, enum status st,
                         struct err *);
    void (*release)(struct quant_prepared *);
    /* Fills *out, for plans. */
    void (*memory)(const struct quant_options *, const struct quant_extent *,
                   struct quant_memory *out);
    /* Collective on the team; every rank leaves with the same report. */
    enum status (*run)(const struct quant_job *, struct quant_report *, struct err *);
};

/* Line i of the table, NULL behind the last. */
const struct quant_method *quant_at(int i);
/* NULL if there is none. */
const struct quant_method *quant_find(const char *name);
/* The nearest known name, for messages. */
const char *quant_nearest_name(const char *name);

/* True if what `method` prepares with options a serves those of b too. */
bool quant_shares_prepare(const struct quant_method *method, const struct quant_options *a,
                          const struct quant_options *b);

/* An entry of the sweep file against the table: known method, options that concern it. Bits outside
 * the method's range are no error here: those cells are "not applicable". ERR_USAGE. */
MUST_USE enum status quant_check(const struct method_entry *m, struct err *e);
