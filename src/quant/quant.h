/* quant: post-training quantizers. They see matrices, never models.
 *
 * A method is one file and one line in quant_table.h (docs/adding-a-method.md). It declares which
 * statistics of its inputs it wants, which options concern it and what it costs; the visit provides
 * each statistic once for all linears and variants that share it. W is (rows, cols) row-major,
 * groups run along the columns. Conventions and traps: IST-DASLab/gptq (quant.py, gptq.py).
 */
#pragma once
#include "linalg/dist.h"
#include "quant/quant_options.h"
#include "quant/statistic.h"
#include "quant/team.h"
#include "util/err.h"

/* --- what a method is given --- */

/* What is known of a stage's input: shared by the linears of the stage. Of the variant's own
 * quantized prefix, or of the full-precision model (struct quant_needs). */
struct quant_input {
    const struct quant_team *team; /* NULL: this rank alone */
    int64_t cols;
    int64_t samples; /* sequences that were summed, over all ranks */
    int64_t tokens;  /* likewise */
    /* Sums over the calibration tokens of all ranks, of each statistic that the method wants. NULL
     * on ranks that do not have it: all but `owner`, unless the statistic is `everywhere`. */
    const double *statistic[STATISTIC_N];
    int owner;         /* rank of the team */
    struct dist *dist; /* the Gram matrix distributed over the team instead (methods that say
                          .distributed only); NULL: it is not. One factor at a time lives in it:
                          what is prepared from it ends when something else is */
};

/* One linear to quantize. */
struct quant_job {
    const struct quant_team *team; /* NULL: this rank alone */
    int64_t bits;
    const struct quant_options *options;
    int linear; /* its number in the block (struct quant_block) */
    int64_t rows, cols;
    const float *w;   // (rows, cols) original
    float *q;         // (rows, cols) out: dequantized, this rank's rows (team_rows)
    float *unrounded; // (rows, cols) likewise, with scales as they were before they were rounded
                      // for storage; NULL: not asked for (methods that say .unrounded only)
    const struct quant_input *input; /* NULL when the method wants no statistics */
    const void *prepared;            /* of its stage; NULL when the method has neither prepare nor
                                        prepare_block */
};

/* What a method says of a linear. Figures that it does not have are NaN. */
struct quant_report {
    double squared_distance; /* ‖W − Ŵ‖² (Frobenius) */
    double error;            /* what the method itself minimises, as its reference reports it (GPTQ:
                                sum of (w−q)²/(2 U_ii²), damping included) */
    double relative_error; /* tr((W−Ŵ) H (W−Ŵ)ᵀ) / tr(W H Wᵀ), without the damping's part; needs
                              the Gram matrix */
    double damping; /* share of mean(diag H) that was added to the diagonal; NaN also: none helped
                       and the layer was rounded to nearest */
    double bits_per_weight; /* codes and all that is stored beside them */
};

/* --- a block as a whole --- */

/* What the columns of a linear could exchange a factor per channel with, without any change of the
 * block's output ("folding"): the rows of another linear, or the norm before. */
enum { TIE_NONE = -1, TIE_NORM = -2 };

struct quant_linear {
    const char *name;
    int stage; /* linears of one stage share their input */
    int64_t rows, cols;
    const float *w; // (rows, cols) original
    float *trial;   // (rows, cols) for compare, in memory that the ranks of a node share: a rank
                    // writes its rows (team_rows)
    int tie; /* number of the linear whose row j goes with column j here, TIE_NONE, TIE_NORM */
};

/* The block in hand, for methods that choose by what the block computes. */
struct quant_block {
    const struct quant_team *team; /* NULL: this rank alone */
    int64_t bits;
    const struct quant_options *options;
    int n_linears, n_stages;
    const struct quant_linear *linear; // (n_linears) ordered by stage
    const struct quant_input *input;   // (n_stages)
    /* *mean_squared = the mean squared difference, over all calibration tokens and channels, that
     * the trial weights of the stage's linears make to the output of the module that the stage is
     * in: attention or MLP, before it joins the residual stream. All other linears are the
     * original ones. Collective on the team. ERR_NUMERIC: it is not finite; else as forward passes
     * fail. */
    enum status (*compare)(const struct quant_block *b, int stage, double *mean_squared,
                           struct err *e);
    void *context; /* of compare */
};

/* --- plans --- */

/* A stage as far as memory is concerned: its inputs, the outputs of its widest linear. */
struct quant_extent {
    int64_t cols, rows;
    int64_t threads;
    int64_t ranks;    /* that share the rows */
    bool distributed; /* the Gram matrix is distributed over them */
};

/* Bytes of a method's own on a rank. */
struct quant_memory {
    int64_t prepared;  /* what prepare gives */
    int64_t preparing; /* more while it works */
    int64_t running;   /* of run, beside w and q */
};

/* Work of a method's own, beside forward passes and statistics. */
struct quant_cost {
    double prepare; /* FLOPs (in f64) of prepare for a stage's input */
    double run;     /* FLOPs of run for the linears of the stage */
    double passes;  /* of the calibration tokens through the block (compare): largest of stages */
};

/* --- a method --- */

/* What holds for a method's results, for its tests. */
enum {
    QUANT_UNIFORM_GRID = 1u << 0, /* a group of a row (quant_options.group_size) holds at most
                                     2^bits values at equal steps */
    QUANT_ROWS_ALONE = 1u << 1,   /* a row's result does not depend on the other rows */
    QUANT_ZERO_IS_ZERO = 1u << 2  /* a row of zeros stays one */
};

struct quant_method {
    const char *name, *doc;
    int64_t bits_min, bits_max;
    unsigned results; /* set of QUANT_UNIFORM_GRID, ... */

    /* Keys of struct quant_options that concern it, separated by blanks; then the table of those
     * that it alone has (a struct of at most QUANT_OWN_BYTES, without texts), see quant_own. */
    const char *options;
    struct option_table own;
    /* Optional: checks options beyond their ranges. ERR_USAGE. */
    enum status (*check)(int64_t bits, const struct quant_options *, struct err *);

    /* What it wants to know of its inputs: set of WANTS(STATISTIC_...); 0: it does not calibrate.
     * Options `hessian` (own or shared) and `true_sequential` say of which inputs; a method that
     * does not list them has their defaults. */
    unsigned statistics;
    bool full_precision; /* always of the full-precision model's inputs, whatever options say */
    bool distributed;    /* it works with a distributed Gram matrix too; else it always gets the
                            whole matrix on one rank, whatever that takes */
    bool unrounded;      /* with scale_dtype f16-packed it fills quant_job.unrounded */

    /* Optional: what the linears of one stage share. *out is freed with release; it serves every
     * job of the same input whose options agree in prepare_options (keys as above; NULL: all that
     * concern the method); bits are not among them. Called on every rank of the team, collective
     * only where input->dist is set; else a rank that lacks the statistics does nothing but make
     * room, so that several inputs can be prepared at a time by their owners. */
    enum status (*prepare)(const struct quant_input *, const struct quant_options *, void **out,
                           struct err *);
    const char *prepare_options;
    /* Optional: copies the owner's work to all ranks; st is what prepare gave on this one (prepared
     * is NULL where it failed). Collective; every rank leaves with the same status. Without it,
     * every rank keeps what it has prepared: for statistics that are everywhere. */
    enum status (*share)(const struct quant_input *, void *prepared, enum status st, struct err *);
    /* Optional, instead of prepare: for all stages of a block at once, with trial weights. Each of
     * prepared[n_stages] is freed with release, also after a failure (NULL: nothing was made).
     * The block's inputs are then those of the block in full precision (quant_needs). Collective.
     */
    enum status (*prepare_block)(const struct quant_block *, void **prepared, struct err *);
    void (*release)(void *prepared); /* with prepare and prepare_block; takes NULL */

    /* Collective on the team; every rank leaves with the same report. */
    enum status (*run)(const struct quant_job *, struct quant_report *, struct err *);

    /* Optional, for methods that work at run time (they quantize activations too). make_linear:
     * after run, when job->q is whole on every rank: *out computes the linear until it is freed,
     * for sequences of at most `longest` tokens. Each rank by itself. apply: y (tokens, rows) with
     * row pitch ld = the linear's outputs without bias for one whole sequence x (tokens, cols);
     * called by one thread at a time, parallel inside. */
    enum status (*make_linear)(const struct quant_job *, int64_t longest, void **out, struct err *);
    void (*apply)(const void *linear, const float *x, int64_t tokens, float *y, int64_t ld);
    void (*free_linear)(void *linear);

    /* For plans, each may be NULL: nothing worth counting. They add to *out, which is zero. cost:
     * of a stage of so many columns whose linears have `rows` rows in all. */
    void (*memory)(const struct quant_options *, const struct quant_extent *,
                   struct quant_memory *out);
    void (*cost)(const struct quant_options *, int64_t rows, int64_t cols, struct quant_cost *out);
};

#define QUANT_DECLARE(upper, lower) extern const struct quant_method quant_##lower;
QUANT_METHODS(QUANT_DECLARE)

/* A method's own options, as its own struct. number: METHOD_*. */
static inline const void *quant_own(const struct quant_options *o, int number)
{
    return &o->own[number];
}

/* --- the table --- */

/* Line i of the table, NULL after the last. */
const struct quant_method *quant_at(int i);
/* NULL if there is none. */
const struct quant_method *quant_find(const char *name);
/* The names of all, NULL behind the last. */
const char *const *quant_names(void);
/* As quant_find; ERR_USAGE says which there are. */
MUST_USE enum status quant_require(const char *name, const struct quant_method **out,
                                   struct err *e);
/* One more method, which quant_find knows too, or NULL: none more. For tests. */
void quant_add(const struct quant_method *method);

/* True if it needs calibration sequences. */
bool quant_calibrates(const struct quant_method *method);

/* What the visit provides for a variant. */
struct quant_needs {
    unsigned statistics; /* 0: no calibration sequences */
    bool own;            /* of the inputs that its own quantized layers give, or ... */
    bool shared; /* ... of the full-precision model's inputs, once for all variants of a visit */
    bool sequential; /* own: each stage sees the block's earlier stages quantized */
    bool unrounded;  /* own: later layers are calibrated on weights whose scales are not rounded yet
                      */
    bool distributed; /* a large Gram matrix may be distributed over the ranks, or ... */
    bool whole;       /* ... must be whole on one; both: variants that share it differ */
    bool trials;      /* forward passes with trial weights: the states of the block's input must
                         outlive the statistics */
};
struct quant_needs quant_needs_of(const struct quant_method *method,
                                  const struct quant_options *options);

/* *to = what both need together. */
void quant_needs_add(struct quant_needs *to, const struct quant_needs *more);

/* True if the option of that name concerns the method. */
bool quant_concerns(const struct quant_method *method, const char *key);
/* The names of all options that concern it, separated by blanks; the caller frees. ERR_NOMEM. */
MUST_USE enum status quant_option_names(const struct quant_method *method, char **out,
                                        struct err *e);
/* True if what `method` prepares with options a serves those of b too. */
bool quant_shares_prepare(const struct quant_method *method, const struct quant_options *a,
                          const struct quant_options *b);
/* Known method, options that concern it, and its own check for those of the n widths that it has.
 * Other widths are no error here: those cells are "not applicable". ERR_USAGE. */
MUST_USE enum status quant_check(const char *method, const struct quant_options *o,
                                 const int64_t *bits, int64_t n, struct err *e);
/* ERR_USAGE where a method works at run time: its weights alone are not the model that it measures.
 * what: who wants the weights, for the message. */
MUST_USE enum status quant_check_weights(const struct quant_method *method, const char *what,
                                         struct err *e);
