/* memory: predicts a visit's memory on one rank and chooses how it stays below its limits.
 *
 * The choice does not change any result, only where hidden states are stored, what is computed
 * twice, and how often the blocks are processed. Everything here is local arithmetic on shapes; it
 * needs no weights. */
#pragma once
#include "config/sweep.h"
#include "memory/states.h"
#include "model/sizes.h"
#include "quant/quant.h"
#include "util/err.h"

/* The properties of this rank's sequences that determine the memory. */
struct memory_sequences {
    int64_t n, tokens, longest;
};
/* s NULL: no sequences. */
struct memory_sequences memory_sequences_of(const struct sequences *s);

/* What the memory of a visit depends on. */
struct memory_need {
    struct model_sizes sizes;
    int64_t threads;
    int64_t ranks, node_ranks; /* in the group, and those of it on this node; 0: a single rank */
    int64_t scalapack_from;    /* smallest order of a distributed Hessian; 0: none is */
    int64_t base; /* bytes of the process without weights and states; see memory_base */
    struct memory_sequences evaluation, calibration;
    /* Numbers of variants in the order of processing: with shared statistics, with own statistics
     * stage by stage, with own statistics of all stages at once, without statistics. */
    int64_t shared, own, own_at_once, plain;
    struct quant_needs needs;           /* the union over the variants */
    struct quant_memory stage[STAGE_N]; /* the largest of the methods */
    enum dtype type;                    /* of the hidden states between blocks */
    enum products products;             /* of the forward passes, not AUTO */
    bool coded; /* a variant's inputs are codes (activation_coded), which may be multiplied */
};

/* Limits in bytes, 0: none; memory: as memory_usable. folder NULL: no scratch. */
struct memory_limits {
    int64_t memory, scratch;
    const char *folder;
};

/* The parts of the memory at the peak of the blocks. */
enum memory_part {
    MEMORY_BASE,
    MEMORY_WEIGHTS, /* embedding, head, two blocks, a quantized block; memory shared by the ranks of
                       a node is divided evenly */
    MEMORY_STATES,  /* hidden states of all streams, unless they are on scratch */
    MEMORY_WORK,    /* activations of a range of sequences */
    MEMORY_RETAINED,  /* inner activations retained instead of computed twice, or for each trial */
    MEMORY_HESSIANS,  /* sums */
    MEMORY_QUANTIZER, /* factors and scratch of the methods, or scratch of summing Hessians */
    MEMORY_PART_N
};
/* "base", "weights", ... */
const char *memory_part_name(enum memory_part part);

struct memory_plan {
    int64_t range_tokens;    /* approximate tokens in a range of sequences, which a block processes
                                together */
    int64_t retained_tokens; /* calibration tokens whose inner activations are retained */
    bool ahead;              /* read the next block during the computation */
    bool prepared;           /* weights are prepared for products, in f32 too (model_prepare_f32) */
    int64_t waves, wave;     /* passes over the blocks; maximum number of variants in one */
    struct states_place place; /* of the hidden states between blocks; borrows the folder's name */

    int64_t part[MEMORY_PART_N];
    int64_t blocks, head; /* peaks of the two phases, bytes */
    int64_t after;        /* peak of curvature and second order; set by the caller */
    int64_t peak;         /* maximum of the three */
    int64_t shared;       /* node-shared bytes resident on this rank, less the even share */
    int64_t scratch;      /* maximum bytes on scratch */
    int64_t saved;        /* bytes of its saved state, without those that the caller adds */
};

/* Gives up, until the visit fits, in this order: weights prepared for products in f32, retained
 * inner activations, hidden states in memory (they go to scratch), one wave for all variants.
 * ERR_NOMEM: it does not fit in any case; the text states the minimum. */
MUST_USE enum status memory_plan_make(const struct memory_need *need,
                                      const struct memory_limits *limits, struct memory_plan *out,
                                      struct err *e);

/* Whether a Gram matrix of order cols is distributed over a group's ranks; from: the smallest such
 * order, 0: none (memory_distributed_from). */
bool memory_distributes(int64_t from, int64_t ranks, int64_t cols);
int64_t memory_distributed_from(const struct run_options *o);
/* Sets need->type and need->scalapack_from from the options. */
void memory_need_options(struct memory_need *need, const struct run_options *o);
/* Bytes that a variant's rotated model takes, and learning it. *threads: those of need before the
 * first variant; blocks are turned one after the other. */
int64_t memory_of_rotation(const struct memory_need *need, const struct method_entry *m,
                           int64_t *threads);
/* Adds a variant and its method's memory to need, whose sizes, threads and sequences must be set.
 */
void memory_need_add(struct memory_need *need, const struct quant_method *method,
                     const struct quant_options *options);

/* need.base of a future process, and of this process with its model open (sizes NULL: none). */
int64_t memory_base(int64_t threads);
int64_t memory_base_now(const struct model_sizes *sizes, int64_t threads);
/* Bytes of `bound` that this process may still allocate for optional buffers, also within its
 * address space limit (ulimit -v): BLAS waits forever for memory that it cannot map. */
int64_t memory_usable_now(int64_t bound, const struct model_sizes *sizes, int64_t threads);

/* The part of a limit that plans may use; the rest is for small allocations and fragmentation. */
int64_t memory_usable(int64_t bound);
/* The inverse: the limit of which plans may use `usable` bytes. */
int64_t memory_bound(int64_t usable);
