/* quant: post-training quantizers. They see matrices, never models.
 *
 * A method is one file and one line in quant_table.h (docs/extending.md). It declares which
 * statistics of its inputs it needs, which options concern it and what it costs; the visit computes
 * each statistic once for all linears and variants that share it. W is (rows, cols) row-major,
 * groups run along the columns. Conventions follow IST-DASLab/gptq (quant.py, gptq.py). */
#pragma once
#include "coding/block_code.h"
#include "math/dist.h"
#include "math/integers.h"
#include "quant/quant_options.h"
#include "quant/statistic.h"
#include "quant/team.h"
#include "util/err.h"

/* --- arguments of a method --- */

/* Statistics of a stage's input, shared by the linears of the stage. Inputs come from the variant's
 * already quantized layers or from the full-precision model (struct quant_needs). */
struct quant_input {
    const struct quant_team *team; /* NULL: this rank alone */
    int64_t layer;                 /* number of the block in the model, for random numbers */
    int64_t cols;
    int64_t samples; /* sequences in the sums, over all ranks */
    int64_t tokens;  /* tokens in the sums, over all ranks */
    /* Each statistic that the method needs, summed over the calibration tokens of all ranks; NULL
     * on ranks other than `owner`, unless the statistic is `everywhere`. */
    const double *statistic[STATISTIC_N];
    int owner;         /* rank of the team */
    struct dist *dist; /* the Gram matrix if it is distributed over the team (only for methods with
                          .distributed), else NULL. It holds one factor at a time: a later prepare
                          overwrites the factor of an earlier one */
};

/* The integer grids of a quantized linear, for packed formats. Weight (i, j) is scale * (code -
 * zero), with scale and zero of row i and group[j], times rows[i], divided by columns[j]. */
struct quant_grids {
    int64_t groups;       /* of a row */
    double *grid;         // (rows, groups, 2) scale and zero, which are f32
    int32_t *group;       // (cols) group of each column
    const float *columns; // (cols) borrowed; NULL: all 1
    const float *rows;    // (rows) borrowed; NULL: all 1
    /* Instead, of methods with describe_blocks: codes, signs and s of coding/block_code.h; whole on
     * every rank. */
    uint8_t *codes, *signs;
    float scale;
};

/* The form of all of a variant's grids. */
struct quant_grid_form {
    int64_t group_size; /* as quant_options.group_size */
    bool symmetric;     /* every zero is 2^(bits - 1) */
    bool ordered;       /* columns of a group are not side by side */
    bool f16;           /* scales are numbers of 16 bits */
    bool folds;         /* quant_grids.columns and .rows are absorbed by norms and biases */
};

/* One linear to quantize. */
struct quant_job {
    const struct quant_team *team; /* NULL: this rank alone */
    int64_t bits;
    const struct quant_options *options;
    int64_t layer;     /* number of the block in the model */
    int linear;        /* index in the block (struct quant_block) */
    int64_t replicate; /* number of the variant's draw, for random numbers; 0: the cell */
    int64_t rows, cols;
    const float *w;   // (rows, cols) original
    float *q;         // (rows, cols) out: dequantized, this rank's rows (team_rows)
    float *unrounded; // (rows, cols) out: with scales as computed; NULL: not requested (.unrounded)
    struct quant_grids *grids; /* out: this rank's rows of the grids (grid_note), or the codes of
                                  blocks; NULL: not requested */
    const struct quant_input *input; /* NULL if the method needs no statistics */
    const double *shared; /* what grids of more than one row share (grid_share); NULL: nothing */
    const void *prepared; /* result of prepare for its stage; NULL if the method has neither prepare
                             nor prepare_block */
};

/* A method's report on one linear. Numbers that do not apply are NaN. */
struct quant_report {
    double squared_distance; /* ‖W − Ŵ‖² (Frobenius) */
    double error; /* the objective of the method, as its reference implementation reports it (GPTQ:
                     sum of (w−q)²/(2 U_ii²), damping included) */
    double relative_error; /* tr((W−Ŵ) H (W−Ŵ)ᵀ) / tr(W H Wᵀ), without damping; needs the Gram
                              matrix */
    double damping; /* fraction of mean(diag H) that was added to the diagonal; also NaN if no
                       damping sufficed and the layer was rounded to nearest */
    double bits_per_weight; /* codes and everything stored with them */
};

/* --- a whole block --- */

/* Folding partner of a linear: multiplying column j by a factor and dividing row j of the partner
 * (another linear, or the preceding norm) by it does not change the block's output. Before
 * TIE_ACTIVATION there is an activation function: only a program that divides its output, like
 * AutoAWQ's ScaledActivation, absorbs the factor. */
enum { TIE_NONE = -1, TIE_NORM = -2, TIE_ACTIVATION = -3 };

struct quant_linear {
    const char *name;
    int stage; /* linears of one stage share their input */
    int64_t rows, cols;
    const float *w; // (rows, cols) original
    float *trial;   // (rows, cols) trial weights for compare, in memory shared by the ranks of a
                    // node; each rank writes its rows (team_rows)
    int tie;        /* folding partner: index of a linear, or TIE_* */
};

/* The current block, for methods that choose parameters by comparing block outputs. */
struct quant_block {
    const struct quant_team *team; /* NULL: this rank alone */
    int64_t bits;
    const struct quant_options *options;
    int64_t layer; /* number of the block in the model */
    int n_linears, n_stages;
    const struct quant_linear *linear; // (n_linears) ordered by stage
    const struct quant_input *input;   // (n_stages)
    /* *mean_squared = the mean squared difference, over all calibration tokens and channels,
     * between the outputs of the module that contains the stage (attention or MLP, before the
     * residual addition) with the original weights and with the trial weights of the stage's
     * linears. What trials of one stage in a row share is computed once, as far as memory allows.
     * Collective on the team. ERR_NUMERIC: it is not finite; errors of a forward pass. */
    enum status (*compare)(const struct quant_block *b, int stage, double *mean_squared,
                           struct err *e);
    void *context; /* of compare */
};

/* --- plans --- */

/* The sizes of a stage that memory depends on: its inputs, and the outputs of its widest linear and
 * of all its linears. */
struct quant_extent {
    int64_t cols, rows, all_rows;
    int64_t longest; /* tokens of the longest sequence */
    int64_t threads;
    int64_t ranks;    /* ranks that share the rows */
    bool distributed; /* the Gram matrix is distributed over them */
};

/* Memory that the method allocates on a rank, in bytes. */
struct quant_memory {
    int64_t prepared;  /* result of prepare */
    int64_t preparing; /* more, while prepare runs */
    int64_t running;   /* while run runs, besides w and q */
    int64_t linears;   /* results of make_linear for the linears of the stage */
};

/* Work of the method besides forward passes and statistics. */
struct quant_cost {
    double prepare; /* FLOPs (in f64) of prepare for a stage's input */
    double run;     /* FLOPs of run for the linears of the stage */
    double passes; /* forward passes of the calibration tokens (compare), maximum over the stages */
};

/* --- a method --- */

/* Properties of a method's results, which the contract test checks. */
enum {
    QUANT_UNIFORM_GRID = 1u << 0, /* a group of a row (quant_options.group_size) has at most 2^bits
                                     equally spaced values */
    QUANT_ROWS_ALONE = 1u << 1,   /* a row's result does not depend on the other rows */
    QUANT_ZERO_IS_ZERO = 1u << 2, /* a row of zeros is quantized to zeros */
    QUANT_DEAD_IS_ZERO = 1u << 3, /* so are the weights of an input channel that is always zero */
    QUANT_IMITATES = 1u << 4      /* a change for comparison: it minimises nothing */
};

struct quant_method {
    const char *name, *doc;
    int64_t bits_min, bits_max;
    unsigned results; /* set of QUANT_UNIFORM_GRID, ... */

    /* options: keys of struct quant_options that concern the method, separated by blanks. own:
     * table of the options that only this method has (a struct of at most QUANT_OWN_BYTES, without
     * texts), see quant_own. */
    const char *options;
    struct option_table own;
    /* Optional: further checks of the options. ERR_USAGE. */
    enum status (*check)(int64_t bits, const struct quant_options *, struct err *);
    /* Optional: the only width that it has with these options; 0: bits_min to bits_max. */
    int64_t (*only_bits)(const struct quant_options *);

    /* The statistics that it needs: set of WANTS(STATISTIC_...); 0: it does not calibrate. The
     * options `hessian` (own or shared) and `true_sequential` choose the inputs; a method that does
     * not list them uses their defaults. */
    unsigned statistics;
    /* A bool option without which it needs none after all; NULL: it always needs them. */
    const char *calibrates_with;
    bool full_precision; /* statistics are always those of full-precision inputs */
    bool distributed;    /* supports a distributed Gram matrix; other methods always get the whole
                            matrix on one rank */
    bool unrounded;      /* fills quant_job.unrounded with scale_dtype f16-packed */
    /* Optional: the method's weights are codes of integer grids, and it fills quant_job.grids.
     * *out: their form. ERR_USAGE: not with these options. */
    enum status (*describe_grids)(const struct quant_options *, struct quant_grid_form *out,
                                  struct err *);

    /* Optional: its weights are codes of blocks (coding/block_code.h), and it fills
     * quant_job.grids. Returns their form. */
    struct block_form (*describe_blocks)(const struct quant_options *, int64_t bits);

    /* Optional: computes what the linears of a stage share; *out is freed with release. The result
     * is used for every job with the same input and equal prepare_options (keys as above; NULL: all
     * options that concern the method); bits never count. Called on every rank of the team;
     * collective only if input->dist is set. Otherwise ranks without the statistics only allocate
     * buffers, so that the owners can prepare several inputs in parallel. */
    enum status (*prepare)(const struct quant_input *, const struct quant_options *, void **out,
                           struct err *);
    const char *prepare_options;
    /* Optional: copies the owner's result to all ranks. st: status of prepare on this rank
     * (prepared is NULL if it failed). Collective; every rank returns the same status. Without
     * share every rank uses its own result, which suits statistics that are everywhere. */
    enum status (*share)(const struct quant_input *, void *prepared, enum status st, struct err *);
    /* Optional, instead of prepare: handles all stages of a block in one call and may compare trial
     * weights. Each of prepared[n_stages] is freed with release, also after a failure (NULL: not
     * made). Statistics are then those of the block in full precision (quant_needs). Collective. */
    enum status (*prepare_block)(const struct quant_block *, void **prepared, struct err *);
    void (*release)(void *prepared); /* frees a result of prepare or prepare_block; accepts NULL */

    /* Quantizes one linear. Collective on the team; every rank returns the same report. */
    enum status (*run)(const struct quant_job *, struct quant_report *, struct err *);

    /* Optional, for methods that work at run time (they also quantize activations). make_linear:
     * called after run, when job->q is complete on every rank; *out computes the linear for
     * sequences of at most `longest` tokens until it is freed. Local. apply: y (tokens, rows) with
     * row pitch ld = the linear's outputs without bias for one whole sequence x (tokens, cols);
     * called by one thread at a time, parallel inside; false: it has met a number that it cannot
     * round. */
    enum status (*make_linear)(const struct quant_job *, int64_t longest, void **out, struct err *);
    bool (*apply)(const void *linear, const float *x, int64_t tokens, float *y, int64_t ld);
    void (*free_linear)(void *linear);

    /* For plans; NULL: negligible. Both add to *out, which is zero. cost: for a stage with cols
     * columns whose linears have `rows` rows in total. Or, without cost: the FLOPs of run for each
     * weight, to match the measured time. */
    void (*memory)(const struct quant_options *, const struct quant_extent *,
                   struct quant_memory *out);
    void (*cost)(const struct quant_options *, int64_t rows, int64_t cols, struct quant_cost *out);
    double flop;
};

#define QUANT_DECLARE(name) extern const struct quant_method quant_##name;
QUANT_METHODS(QUANT_DECLARE)
QUANT_DECLARE(stored) /* in no list; quant_find finds it, and none */
QUANT_DECLARE(none)

/* The options that only method `number` (METHOD_*) has; cast to its struct. */
static inline const void *quant_own(const struct quant_options *o, int number)
{
    return &o->own[number];
}

/* --- the table --- */

/* Line i of the table, NULL after the last. */
const struct quant_method *quant_at(int i);
/* NULL if there is none. */
const struct quant_method *quant_find(const char *name);
/* The names of all methods, NULL after the last. */
const char *const *quant_names(void);
/* The widths *low to *high that it has with these options. */
void quant_widths(const struct quant_method *method, const struct quant_options *o, int64_t *low,
                  int64_t *high);
/* As quant_find; ERR_USAGE lists the methods that exist. */
MUST_USE enum status quant_require(const char *name, const struct quant_method **out,
                                   struct err *e);
/* Registers an additional method for tests (NULL: removes it); quant_find finds it. */
void quant_add(const struct quant_method *method);

/* True if it needs calibration sequences with these options; NULL: with some options. */
bool quant_calibrates(const struct quant_method *method, const struct quant_options *o);

/* The width of a linear's weights; last: the last linear of its block. */
static inline int64_t quant_bits_at(const struct quant_options *o, int64_t bits, bool last)
{
    return last && o->down_bits > 0 ? o->down_bits : bits;
}
/* The statistic that gives scores of that kind (enum outlier_score). */
static inline int outlier_statistic(int score)
{
    return score == OUTLIER_LARGEST   ? STATISTIC_LARGEST_FULL
           : score == OUTLIER_SQUARES ? STATISTIC_SQUARES_FULL
                                      : STATISTIC_MEAN_FULL;
}

/* Whether rows that share scales are neighbours in the order of the next linear's columns (Atom).
 */
static inline bool quant_moves_rows(const struct quant_options *o)
{
    return o->scale_rows > 1 && o->outlier_columns > 0;
}

/* What a variant needs from the visit. */
struct quant_needs {
    unsigned statistics; /* but for: */
    unsigned scores;     /* statistics that are of the full-precision model (statistic.of_full) */
    bool own;        /* statistics of inputs computed with the variant's quantized layers, or ... */
    bool shared;     /* ... of full-precision inputs, computed once for all variants of a visit */
    bool sequential; /* own: each stage sees the block's earlier stages quantized */
    bool unrounded;  /* own: later layers are calibrated on weights whose scales are not yet rounded
                      */
    bool distributed; /* a large Gram matrix may be distributed over the ranks, or ... */
    bool whole;       /* ... must be whole on one rank; both: the variants that share it differ */
    bool pairs;       /* own: each range of inputs together with the full-precision model's */
    bool trials; /* forward passes with trial weights: the block's input is still needed after the
                    statistics */
};
struct quant_needs quant_needs_of(const struct quant_method *method,
                                  const struct quant_options *options);

/* *to = the union of both needs. */
void quant_needs_add(struct quant_needs *to, const struct quant_needs *more);
/* *full, the needs of the full-precision stream, also has what a variant needs of it. */
void quant_needs_share(struct quant_needs *full, const struct quant_needs *variant);

/* True if the option of that name concerns the method. */
bool quant_concerns(const struct quant_method *method, const char *key);
/* The names of all options that concern it, separated by blanks; the caller frees. ERR_NOMEM. */
MUST_USE enum status quant_option_names(const struct quant_method *method, char **out,
                                        struct err *e);
/* True if a result of the method's prepare with options a can be used with options b. */
bool quant_shares_prepare(const struct quant_method *method, const struct quant_options *a,
                          const struct quant_options *b);
/* Checks that the method exists, that options which differ from their defaults concern it, and
 * calls its check for each of the n bit-widths that it supports. Of these there must be one; other
 * widths are no error: their cells are "not applicable". ERR_USAGE. */
MUST_USE enum status quant_check(const char *method, const struct quant_options *o,
                                 const int64_t *bits, int64_t n, struct err *e);
/* As describe_grids. ERR_USAGE: the method has none, or not with these options. */
MUST_USE enum status quant_grid_form_of(const struct quant_method *method,
                                        const struct quant_options *o, struct quant_grid_form *out,
                                        struct err *e);
/* Allocates the grids of a linear, whose columns are grouped side by side, for quant_job.grids.
 * Free them whatever follows. ERR_NOMEM. */
MUST_USE enum status quant_grids_init(struct quant_grids *g, const struct quant_options *o,
                                      int64_t rows, int64_t cols, struct err *e);
void quant_grids_free(struct quant_grids *g);
/* Whether products can be computed with the codes of weights that are in these groups side by side
 * and in nothing else; *out: their grids, which borrow g's. */
bool quant_grids_integers(const struct quant_grids *g, int64_t bits, int64_t cols,
                          struct integer_grids *out);
/* code (cols) = the codes of a row i of weights w (cols), which are on the grids. ERR_NUMERIC: one
 * is not. */
MUST_USE enum status quant_grids_codes(const struct quant_grids *g, int64_t i, const float *w,
                                       int64_t cols, int64_t bits, uint8_t *code, struct err *e);
/* ERR_USAGE if the method works at run time, or is `stored` or `none`: its weights alone do not
 * define the model. what: the user of the weights, for the message. */
MUST_USE enum status quant_check_weights(const struct quant_method *method, const char *what,
                                         struct err *e);
