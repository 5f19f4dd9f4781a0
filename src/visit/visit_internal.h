/* What the files of visit/ share. */
#pragma once
#include "checkpoint/checkpoint.h"
#include "eval/head.h"
#include "eval/metric.h"
#include "group/group.h"
#include "group/inputs.h"
#include "group/part.h"
#include "memory/memory.h"
#include "memory/states.h"
#include "model/sizes.h"
#include "quant/quant.h"
#include "visit/visit.h"

/* --- reader.c: the blocks' weights, one block ahead; collective on the group --- */
struct block_reader;
/* ahead: the next block is read while one is worked with, at the price of its memory. */
MUST_USE enum status block_reader_open(const struct visit_group *g, const struct model *m,
                                       bool ahead, struct block_reader **out, struct err *e);
/* The next block (borrowed until the next call) while the one behind it is being read. */
MUST_USE enum status block_reader_next(struct block_reader *r, const struct block **out,
                                       struct err *e);
double block_reader_seconds(const struct block_reader *r); /* waited for reads so far */
void block_reader_close(struct block_reader *r);

/* --- ranges.c: sequences in ranges, so that working memory does not grow with their number --- */

struct range {
    int64_t row;           /* first token */
    int64_t tokens;        /* how many */
    int64_t first;         /* first sequence */
    struct sequences view; /* the sequences, offsets counted from `row`; borrowed */
};
struct ranges {
    int64_t n, tokens; /* of the longest range */
    struct range *range;
    int64_t *offsets; /* of all views */
};
/* Whole sequences, about `tokens` in each range, at least one. */
MUST_USE enum status ranges_cut(const struct sequences *s, int64_t tokens, struct ranges *out,
                                struct err *e);
void ranges_free(struct ranges *r);

/* --- walk.c: one variant's (or the full-precision) hidden states on their way --- */
struct layer_report {
    char *name;
    struct quant_report report;
};
struct stream {
    const struct variant *variant; /* NULL: full precision */
    const struct quant_method *method;
    struct quant_needs needs;   /* full precision: those of the wave's variants that share them */
    struct states *evaluation;  // (evaluation tokens, C)
    struct states *calibration; // (calibration tokens, C) or NULL
    struct scores scores;       /* of all evaluation sequences, once they are scored */
    enum status st;             /* failed streams stand still */
    struct err err;
    int64_t n_layers, layers_capacity;
    struct layer_report *layers;
    double squared_distance, bits, weights; /* sums over the linears so far */
    struct {
        double forward, hessian, factor, sweep;
    } seconds;
};
void stream_free(struct stream *s);

/* --- workspace.c: the memory that all streams of a wave use one after the other --- */
struct workspace {
    const struct visit_group *group;
    const struct run_options *options;
    const struct model *model;
    const struct visit_inputs *inputs;   /* this rank's */
    int64_t samples, calibration_tokens; /* of all ranks */
    const struct weights_sink *sink;     /* NULL: none */
    struct model_sizes sizes;
    struct ranges evaluation, calibration;
    struct acts acts; /* of a range */
    float *x;         // (range, C) hidden states of a range that are not worked on in place
    float *kept, *kept_branch;          // (kept tokens, in_width), (kept tokens, C) see calibrate.c
    int64_t kept_ranges;                /* the first so many calibration ranges are kept */
    int64_t rounds;                     /* calibration ranges of the rank that has most of them */
    struct group_memory quantized;      // all linears of one block, dequantized
    struct group_memory unrounded;      // the same for streams that calibrate so, if there are any
    double *sums[STATISTIC_N][STAGE_N]; /* of a stage's inputs; the stages have one place in memory,
                                           or one each */
    double *memory[STATISTIC_N];        /* owners of the sums */
    struct dist *dist[STAGE_N];         /* Gram matrices that are distributed over the group */
    float *most[STAGE_N];               // (cols) reproducible: largest inputs of a stage
    double *bound[STAGE_N];             // (cols) likewise, see gram_bound_make
    const struct stream *full;          /* for the states of the block's full-precision input */
    const struct sequences *calibration_all; /* of all ranks; NULL: none */
    int64_t calibration_first;               /* number of this rank's first among them */
    int64_t longest;                         /* tokens of the longest sequence */
    void *computing[LINEARS_MAX]; /* linears of the quantized block that work at run time */
    const struct quant_method *linears_of; /* whose they are */
    /* What the shared statistics of the block in hand were prepared into last, and for whom. */
    void *prepared[STAGE_N];
    const struct stream *prepared_for;
};
struct run;
/* Collective, as is giving it back. */
MUST_USE enum status workspace_init(struct workspace *w, const struct run *r,
                                    struct stream *const *streams, int64_t n_streams,
                                    struct err *e);
void workspace_free(struct workspace *w);
/* Whether the stream's Gram matrix of the stage is summed distributed over the group. */
bool workspace_distributed(const struct workspace *w, const struct stream *s, int stage);
/* Whether the statistic of the stage is summed whole for the stream. The full-precision stream may
 * sum both, for variants of both kinds. */
bool workspace_whole(const struct workspace *w, const struct stream *s, int stage, int statistic);
/* The statistics of a stage as a method is given them. */
struct quant_input workspace_input(const struct workspace *w, const struct stream *s, int stage);
/* The rank of the group that gets the whole sums. */
static inline int workspace_owner(const struct workspace *w, int stage)
{
    return stage % w->group->size;
}

/* --- calibrate.c: calibration sequences through a block, summing statistics --- */

/* Sums what the stream needs to know of the stage's input over all ranks, into w->sums[.][stage]
 * and w->dist[stage]; collective, every rank leaves with the same status. b's earlier stages are
 * quantized. Stages in order; after the last, calibrate_end moves the stream to the block's end. */
MUST_USE enum status calibrate_stage(struct workspace *w, struct stream *s, const struct block *b,
                                     int stage, struct err *e);
MUST_USE enum status calibrate_end(struct workspace *w, struct stream *s, const struct block *b,
                                   struct err *e);
/* All four of one and the same block in one pass; advance: the stream goes on to the block's end,
 * else it stays where it is. */
MUST_USE enum status calibrate_block(struct workspace *w, struct stream *s, const struct block *b,
                                     bool advance, struct err *e);
/* Moves states through the block. */
MUST_USE enum status forward_block(struct workspace *w, struct stream *s, const struct block *b,
                                   struct states *states, const struct ranges *ranges,
                                   struct err *e);

/* --- quantize.c: one block of one variant --- */

/* Quantizes the block for the stream, moves its calibration states through it, and gives the
 * quantized block (a shallow copy into w->quantized, good until the next call). A stream that
 * shares statistics finds those of the full-precision stream in w->sums. */
MUST_USE enum status quantize_block(struct workspace *w, struct stream *s, const struct block *b,
                                    struct block *quantized, struct err *e);
/* Frees what was prepared from the last block's shared statistics; at the end also the quantized
 * block. */
void quantize_forget(struct workspace *w);
void quantize_end(struct workspace *w);

/* --- trial.c --- */

/* Runs the method's prepare_block into w->prepared. The states of the block's input stand before
 * it. Collective. */
MUST_USE enum status trial_prepare(struct workspace *w, struct stream *s, const struct block *b,
                                   struct err *e);

/* --- walk.c: a model and its variants through the blocks and the head --- */

/* What a pass of the blocks holds while it runs. */
struct run {
    const struct visit *visit; /* its variants, texts and options */
    const struct part_context *context;
    const struct visit_hooks *hooks;
    const struct visit_group *group;
    const struct model *model;
    const struct weights_sink *sink; /* of quantized linears; NULL: none */
    struct visit_inputs inputs;      /* of all ranks */
    struct visit_inputs own;         /* this rank's */
    struct sequences own_calibration, own_evaluation;
    int64_t first;             /* number of this rank's first evaluation sequence */
    int64_t first_calibration; /* likewise */
    struct stream full;        /* the full-precision stream */
    int64_t n;                 /* variants */
    struct stream *streams;    // (n)
    struct stream **order;     // (n) as they go through a block
    struct memory_plan plan;
    char *scratch; /* folder, NULL: none */
    double seconds_read, seconds_head, weight_norm;
};
/* Streams of v's variants. model: what is walked; NULL where it could not be opened, then nothing
 * may be done but reading what failed. Zero-initialise r; walk_free whatever is returned. Not
 * collective. ERR_USAGE: a method that there is not; ERR_NOMEM. */
MUST_USE enum status walk_init(struct run *r, const struct part_context *c, const struct visit *v,
                               const struct model *model, struct err *e);
/* Texts, and what memory allows. Collective, as is walk_go. ERR_IO, ERR_FORMAT, ERR_USAGE: a text,
 * or a calibration that is missing; ERR_NOMEM: run.memory_per_rank is too little. */
MUST_USE enum status walk_prepare(struct run *r, struct err *e);
/* All waves. Failures of one variant stand in its stream. ERR_STOPPED; ERR_FULL, ERR_IO: scratch or
 * the checkpoint; ERR_NOMEM. */
MUST_USE enum status walk_go(struct run *r, struct err *e);
void walk_free(struct run *r);
/* Bytes at the peak of a rank, after walk_prepare. */
int64_t walk_planned(const struct run *r);

extern const struct part_engine walk_engine;

/* --- cells_record.c: results as records --- */

/* The record of the checkpoint: a new reference, NULL when out of memory. failure: of the visit;
 * code OK for none. */
json_t *record_checkpoint(const struct part_context *c, const struct run *r,
                          const struct err *failure);
/* The same for the cell of variant i. */
json_t *record_cell(const struct part_context *c, const struct run *r, int64_t i,
                    const struct err *failure);
/* What the metrics say of a scored stream: {DATASET: {FIELD: number, ...}, ...}. A new reference;
 * NULL when out of memory. */
json_t *record_datasets(const struct run *r, const struct scores *scores, enum metric_scope scope);

extern const struct part cells_part;

/* --- parts.c --- */

/* Lets every part that the visit asks for add its fields to the record. */
void parts_annotate(const struct part_context *c, const struct variant *v, json_t *record);
/* The parts that the visit asks for begin; their sink of quantized weights. */
MUST_USE enum status parts_begin(struct part_context *c, struct err *e);
MUST_USE enum status parts_linear(void *context, const struct variant *v, const struct linear *l,
                                  const float *q, struct err *e);

/* --- wave.c: a batch of variants through all blocks and the head --- */

/* first: the full-precision stream walks with the evaluation sequences too, and is kept. */
MUST_USE enum status wave_run(struct run *r, struct stream *const *streams, int64_t n, bool first,
                              struct err *e);

/* --- score.c --- */

/* Fills the scores of the full-precision stream and of those of the streams that have not failed.
 * Collective on the group; every rank gets all scores. ERR_NOMEM, ERR_IO, ERR_MPI. */
MUST_USE enum status score_streams(struct run *r, struct stream *const *streams, int64_t n,
                                   struct err *e);
