/* memory: what a visit takes on a rank, and what is done so that it stays within its bounds.
 *
 * Numbers do not depend on any of this: only where hidden states lie, what is computed twice, and
 * how often the blocks are walked. Everything here is arithmetic on shapes; it needs no weights.
 */
#pragma once
#include "config/sweep.h"
#include "memory/states.h"
#include "model/sizes.h"
#include "quant/quant.h"
#include "util/err.h"

/* Sequences, as far as memory is concerned: those of this rank. */
struct memory_sequences {
    int64_t n, tokens, longest;
};
/* NULL: none. */
struct memory_sequences memory_sequences_of(const struct sequences *s);

/* What a visit works on. */
struct memory_need {
    struct model_sizes sizes;
    int64_t threads;
    int64_t ranks, mates;   /* of the group, and of those on this node; 0: a rank alone */
    int64_t scalapack_from; /* Hessians from there on are spread over the group; 0: none */
    int64_t base;           /* bytes of the process without weights and states; see memory_base */
    struct memory_sequences evaluation, calibration;
    /* Variants in the order in which they are served: with shared statistics, with their own stage
     * by stage, with their own of all stages at once, with none. */
    int64_t shared, own, own_at_once, plain;
    struct quant_needs needs;           /* of any of them */
    struct quant_memory stage[STAGE_N]; /* the largest of the methods */
    enum dtype type;                    /* of the hidden states between blocks */
};

/* Bounds; memory is the room of a bound (memory_usable), 0 bytes: none. folder NULL: no scratch. */
struct memory_limits {
    int64_t memory, scratch;
    const char *folder;
};

/* What memory goes to, bytes at the peak of the blocks. */
enum memory_part {
    MEMORY_BASE,
    MEMORY_WEIGHTS,   /* embedding, head, two blocks, a quantized block: what the ranks of a node
                         share counts in equal parts */
    MEMORY_STATES,    /* hidden states of all streams, where they are not on scratch */
    MEMORY_WORK,      /* activations of a range of sequences */
    MEMORY_KEPT,      /* inner activations that would be computed twice */
    MEMORY_HESSIANS,  /* sums */
    MEMORY_QUANTIZER, /* factors, scratch of the sweep, or of summing Hessians */
    MEMORY_PART_N
};
/* "base", "weights", ... */
const char *memory_part_name(enum memory_part part);

struct memory_plan {
    int64_t range_tokens;      /* sequences go through a block in ranges of about so many tokens */
    int64_t kept_tokens;       /* calibration tokens whose inner activations outlive a pass */
    bool ahead;                /* the next block is read while one is worked with */
    int64_t waves, wave;       /* how often the blocks are walked, for how many variants at most */
    struct states_place place; /* of the hidden states between blocks; borrows the folder's name */

    int64_t part[MEMORY_PART_N];
    int64_t blocks, head; /* peaks of the two phases, bytes */
    int64_t after;        /* of curvature and second order, where somebody has added them */
    int64_t peak;         /* the greatest */
    int64_t shared;       /* resident here of what is shared, more or less than the equal part */
    int64_t scratch;      /* bytes on scratch at most */
};

/* Chooses, in this order: inner activations kept as far as there is room, states in memory, states
 * on scratch, more waves. ERR_NOMEM: even that is too much; the text says the least that would do.
 */
MUST_USE enum status memory_plan_make(const struct memory_need *need,
                                      const struct memory_limits *limits, struct memory_plan *out,
                                      struct err *e);

/* Sets what need takes from the options: type, scalapack_from. */
void memory_need_options(struct memory_need *need, const struct run_options *o);
/* Counts a variant and its method's memory into need (sizes and threads are set). */
void memory_need_add(struct memory_need *need, const struct quant_method *method,
                     const struct quant_options *options);

/* need.base of a process to come, and of this one, which has its model open (NULL: none). */
int64_t memory_base(int64_t threads);
int64_t memory_base_now(const struct model_sizes *sizes, int64_t threads);
/* What this process may still take of `bound` for things that it can do without: within what it may
 * map as well, where that is limited (ulimit -v). BLAS waits for ever for what it cannot map. */
int64_t memory_usable_now(int64_t bound, const struct model_sizes *sizes, int64_t threads);

/* Of a bound, what arithmetic may use: it does not see small allocations and the holes between
 * them.
 */
int64_t memory_usable(int64_t bound);
/* The bound that has so much room. */
int64_t memory_bound(int64_t room);
