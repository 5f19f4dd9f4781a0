/* visit_internal: structs and functions that the files of engine/ share. */
#pragma once
#include "checkpoint/checkpoint.h"
#include "engine/group.h"
#include "engine/inputs.h"
#include "engine/part.h"
#include "engine/shared_products.h"
#include "engine/visit.h"
#include "engine/wanted.h"
#include "eval/head.h"
#include "eval/metric.h"
#include "memory/memory.h"
#include "memory/states.h"
#include "model/sizes.h"
#include "quant/quant.h"
#include "records/saved.h"

/* --- workspace.c: sequences are cut into ranges, which bounds the working memory --- */

struct range {
    int64_t row;           /* first token */
    int64_t tokens;        /* number of tokens */
    int64_t first;         /* first sequence */
    struct sequences view; /* its sequences, with offsets relative to `row`; borrowed */
};
struct ranges {
    int64_t n, tokens; /* tokens: of the longest range */
    struct range *range;
    int64_t *offsets; /* owner of all views' offsets */
};
/* Ranges of whole sequences with about `tokens` tokens each, at least one sequence. Local.
 * ERR_NOMEM. */
MUST_USE enum status ranges_cut(const struct sequences *s, int64_t tokens, struct ranges *out,
                                struct err *e);
void ranges_free(struct ranges *r);
/* Announces range i of the states, if there is one (states_expect). */
void ranges_expect(const struct ranges *r, int64_t i, const struct states *s);

struct run;

/* --- streams.c: streams: hidden states of one variant (or full precision) between blocks --- */
struct layer_report {
    char *name;
    struct quant_report report;
};
struct stream {
    const struct variant *variant; /* NULL: full precision */
    const struct quant_method *method;
    struct quant_needs
        needs; /* full precision: needs of the wave's variants that share its statistics */
    struct states *evaluation;  // (evaluation tokens, C)
    struct states *calibration; // (calibration tokens, C) or NULL
    struct scores scores;       /* of all evaluation sequences, after scoring */
    enum status st;             /* streams with an error are skipped */
    struct err err;
    int64_t n_layers, layers_capacity;
    struct layer_report *layers;
    double squared_distance, bits, weights; /* sums over the linears so far */
    struct stored *stored; /* what the variant's path names (stored.h); NULL: it is quantized */
    struct model *turned;  /* the run's model in the variant's basis (rotated.h); NULL: as it is */
    bool borrows;          /* `turned` is another replicate's */
    double share;          /* of the wave's work: of all blocks of its own */
    struct {
        double forward, hessian, factor, sweep;
        double read, head; /* even parts of its wave's */
    } seconds;
};
void stream_free(struct stream *s);
/* Whether one of them is a replicate of the other, or both are of a third. */
bool same_variant(const struct variant *a, const struct variant *b);
/* Adds what became of a linear to the stream's reports and sums. Local. ERR_NOMEM. */
MUST_USE enum status stream_note(struct stream *s, const struct linear *l,
                                 const struct quant_report *r, struct err *e);

/* --- own_models.c: streams with an embedding, final norm and head of their own --- */

/* Opens what the paths of variants name and the rotated models, and checks that the variants' grids
 * fit; one that fails fails alone. Collective. ERR_NOMEM. */
MUST_USE enum status own_models_open(struct run *r, struct err *e);
void own_models_close(struct stream *s);
/* The model whose embedding, final norm and head the stream has: the run's own or another. */
struct model *stream_model(const struct run *r, const struct stream *s);

/* --- workspace.c: buffers that the streams of a wave use one after the other --- */
struct workspace {
    const struct visit_group *group;
    const struct run_options *options;
    const struct model *model;
    const struct visit_inputs *inputs;   /* of this rank */
    int64_t samples, calibration_tokens; /* of the whole group */
    const struct weights_sink *sink;     /* NULL: none */
    struct model_sizes sizes;
    struct ranges evaluation, calibration;
    bool *wanted;      // (evaluation tokens) whether the last block's row is scored; NULL: all are
    int64_t *n_wanted; // (evaluation sequences + 1) such rows before each
    struct acts acts;  /* activations of a range */
    float *x;          // (range, C) buffer for hidden states that cannot be modified in place
    float *retained, *retained_branch; // (retained tokens, in_width), (retained tokens, C):
                                       // activations retained between passes (calibrate.c) or
                                       // trials (trial.c)
    int64_t retained_ranges; /* number of calibration ranges, from the first, whose activations are
                            retained */
    float *full_input; // (range, in_width) input of a stage in full precision, then minus the own;
                       // NULL: no stream needs pairs
    const struct block *original;       /* the block that is being quantized */
    int64_t rounds;                     /* maximum number of calibration ranges per rank */
    struct group_memory quantized;      // all linears of one block, dequantized
    struct group_memory unrounded;      // the same with unrounded scales, if a stream needs them
    double *sums[STATISTIC_N][STAGE_N]; /* statistics of each stage's inputs; the stages share one
                                           buffer or have one each */
    double *memory[STATISTIC_N];        /* owners of the buffers of sums */
    struct dist *dist[STAGE_N];         /* Gram matrices that are distributed over the group */
    float *channel_max[STAGE_N];        // (cols) reproducible: largest input of each channel
    double *bound[STAGE_N];    // (cols) reproducible: bounds of the channels (gram_bound_make)
    const struct stream *full; /* full-precision stream: has the block's input */
    const struct states *next; /* what is taken first after the current stream; NULL: nothing */
    const struct ranges *next_ranges;
    const struct sequences *calibration_all; /* of the whole group; NULL: none */
    int64_t calibration_first;               /* index of this rank's first sequence among them */
    int32_t *order[STAGE_N];      // (cols) channels by score, of the stream's outliers; NULL: none
    int64_t longest;              /* tokens of the longest sequence */
    const struct run *observed;   /* the run, if measures look at its full-precision stream */
    void *computing[LINEARS_MAX]; /* linears of the quantized block that are computed at run time */
    const struct quant_method *linears_of; /* the method that computes them */
    /* The linears in `quantized` and in `unrounded`, prepared for products. */
    struct shared_products products[LINEARS_MAX], products_unrounded[LINEARS_MAX];
    struct shared_products codes[LINEARS_MAX]; /* of those in `quantized` */
    /* Result of quant_method.prepare for the current block, and the stream whose options it was
     * prepared with. */
    void *prepared[STAGE_N];
    const struct stream *prepared_for;
};
/* Init and free are collective on the group. ERR_NOMEM, errors of dist_make. */
MUST_USE enum status workspace_init(struct workspace *w, const struct run *r,
                                    struct stream *const *streams, int64_t n_streams,
                                    struct err *e);
void workspace_free(struct workspace *w);
/* Whether the stream's Gram matrix of the stage is distributed over the group. */
bool workspace_distributed(const struct workspace *w, const struct stream *s, int stage);
/* Whether the stream needs the whole statistic of the stage. The full-precision stream may need
 * both forms, for variants of both kinds. */
bool workspace_whole(const struct workspace *w, const struct stream *s, int stage, int statistic);
/* The statistics of a stage in the form in which methods get them. */
struct quant_input workspace_input(const struct workspace *w, const struct stream *s, int stage);
/* The rank of the group that has the whole statistics of the stage. */
static inline int workspace_owner(const struct workspace *w, int stage)
{
    return stage % w->group->size;
}

/* Runs the stages from `from` on (the first of a half of the block) on a range's states x, which
 * it overwrites, until the input of `stage` is in the acts. */
void workspace_pass_to(struct workspace *w, const struct range *r, const struct block *b, int from,
                       int stage, float *x);
/* Whether no block follows: nobody reads its output of calibration sequences. */
static inline bool workspace_last(const struct workspace *w, const struct block *b)
{
    return b->layer + 1 == w->sizes.shape.layers;
}

/* --- calibrate.c: runs calibration sequences through a block and sums statistics --- */

/* Sums the statistics of the stage's input that the stream needs over all ranks, into
 * w->sums[.][stage] and w->dist[stage]. b's earlier stages are quantized. Call once per stage, in
 * order, then calibrate_end, which advances the stream to the block's output. Collective; every
 * rank returns the same status. */
MUST_USE enum status calibrate_stage(struct workspace *w, struct stream *s, const struct block *b,
                                     int stage, struct err *e);
MUST_USE enum status calibrate_end(struct workspace *w, struct stream *s, const struct block *b,
                                   struct err *e);
/* Sums the statistics of all four stages of an unchanged block in one pass. advance: also advance
 * the stream to the block's output, unless that is the last. Collective. */
MUST_USE enum status calibrate_block(struct workspace *w, struct stream *s, const struct block *b,
                                     bool advance, struct err *e);
/* Runs the block on the states, in place. Local. ERR_NUMERIC: a grid of the block met a number that
 * is not finite; the text names the linear. */
MUST_USE enum status forward_block(struct workspace *w, struct stream *s, const struct block *b,
                                   struct states *states, const struct ranges *ranges,
                                   struct err *e);

/* --- quantize.c: one block of one variant --- */

/* Quantizes the block for the stream and runs the result on its calibration states. *quantized = a
 * shallow copy of b whose weights are in w->quantized, valid until the next call; b gets the
 * outlier channels of its inputs. For a stream with scores or shared statistics, w->sums must hold
 * those of the full-precision stream. Collective. */
MUST_USE enum status quantize_block(struct workspace *w, struct stream *s, struct block *b,
                                    struct block *quantized, struct err *e);
/* quantize_forget: frees what was prepared from the last block's shared statistics. quantize_end:
 * also frees the linears of the last quantized block that are computed at run time. */
void quantize_forget(struct workspace *w);
void quantize_end(struct workspace *w);

/* --- trial.c: methods that compare block outputs --- */

/* Runs the method's prepare_block, results into w->prepared. The calibration states must be the
 * block's input. Collective. */
MUST_USE enum status trial_prepare(struct workspace *w, struct stream *s, const struct block *b,
                                   struct err *e);

/* --- wave.c: a model and its variants through the blocks and the head --- */

/* The calibration sequences of a replicate. */
struct draw {
    const struct sequences *all, *local; /* of the group and of this rank, borrowed; NULL: none */
    struct sequences copy;               /* of this rank's, unless it has all */
    int64_t first;                       /* index of this rank's first sequence */
};

/* State of one pass over a model and its variants. */
struct run {
    const struct visit *visit; /* its variants, texts and options */
    const struct part_context *context;
    const struct visit_hooks *hooks;
    const struct visit_group *group;
    struct model *model;
    const struct weights_sink *sink; /* receives quantized linears; NULL: none */
    struct visit_inputs inputs;      /* of the whole group; calibration: of the wave's replicate */
    struct visit_inputs local;       /* of this rank */
    struct err unanswered;           /* why the tasks' requests cannot be made; code OK: they can */
    struct sequences local_evaluation;
    int64_t first;             /* index of this rank's first evaluation sequence */
    int64_t first_calibration; /* index of its first calibration sequence */
    int64_t n_draws;
    struct draw *draws;     // (n_draws) by the number of the replicate
    struct stream full;     /* the full-precision stream */
    int64_t n;              /* variants */
    struct stream *streams; // (n)
    int64_t n_distinct;
    struct stream **order; // (n_distinct) without replicates of one another, in the order in which
                           // a block processes them
    struct stream **wave;  // (n_distinct) those of the wave, which are all of one replicate
    int64_t waves;         /* of all replicates */
    struct memory_plan plan;
    char *scratch;                       /* folder, NULL: none */
    struct pace *pace;                   /* NULL: progress is not reported */
    double share_statistics, share_head; /* of the work: shared statistics; a stream's head */
    double seconds_read, seconds_head, weight_norm;
    /* Called with the streams of each wave when they are scored or have failed; first: also for the
     * full-precision one. Collective. May be NULL. */
    enum status (*scored)(const struct part_context *c, struct stream *const *streams, int64_t n,
                          bool first, struct err *e);
};
/* How forward passes of a model of the visit multiply and round. */
void visit_set_numbers(const struct part_context *c, struct model *m);

/* Makes the streams of v's variants. model: NULL if it could not be opened; then only failures can
 * be reported. Zero-initialise r; call streams_free even after a failure. Local. ERR_USAGE: an
 * unknown method; ERR_NOMEM. */
MUST_USE enum status streams_init(struct run *r, const struct part_context *c,
                                  const struct visit *v, struct model *model, struct err *e);
/* Loads the texts and plans the memory, which decides whether the model's weights are prepared for
 * products in f32. Collective, as is streams_run. ERR_IO, ERR_FORMAT, ERR_USAGE: a
 * text, or missing calibration data; ERR_NOMEM: run.memory_per_rank is too small. */
MUST_USE enum status streams_prepare(struct run *r, struct err *e);
/* Runs all waves. The failure of one variant is stored in its stream. ERR_STOPPED; ERR_FULL,
 * ERR_IO: scratch or the checkpoint; ERR_NOMEM. */
MUST_USE enum status streams_run(struct run *r, struct err *e);
void streams_free(struct run *r);
/* Whether any of the records (wanted.h) follows from scores. */
bool parts_score(const char *records);
/* Whether the variant's stream runs what is scored. */
static inline bool stream_is_scored(const struct stream *s)
{
    return !s->variant->scored || parts_score(s->variant->records);
}
/* What a scored stream gives to the requests of the visit's tasks. */
struct answers streams_answers(const struct run *r, const struct stream *s);
/* Predicted peak memory of a rank in bytes, after streams_prepare. */
int64_t streams_planned(const struct run *r);

extern const struct part_engine streams_engine;

/* --- cells_record.c: makes records of results --- */

/* The record of the checkpoint (a new reference, NULL: out of memory). failure: error of the whole
 * visit; code OK for none. */
json_t *record_checkpoint(const struct part_context *c, const struct run *r,
                          const struct err *failure);
/* The same for the cell of variant i. */
json_t *record_cell(const struct part_context *c, const struct run *r, int64_t i,
                    const struct err *failure);
/* A completion of the record of variant i (-1: of the checkpoint) with the texts among `wanted`
 * (wanted.h), which were scored or, failure, why not. A new reference; NULL: out of memory. */
json_t *record_texts(const struct part_context *c, const struct run *r, int64_t i,
                     const char *wanted, const struct err *failure);
/* The completion of the record of variant i (-1: of the checkpoint). failure: why parts were not
 * run; code OK for none. A new reference; NULL: out of memory. */
json_t *record_completion(const struct part_context *c, const struct run *r, int64_t i,
                          const struct err *failure);
/* The record of an accuracy of variant i (-1: of the checkpoint). failure: as above. A new
 * reference; NULL: out of memory. */
json_t *record_accuracy(const struct part_context *c, const struct run *r, int64_t i,
                        const struct wanted *of, const struct err *failure);
/* The metrics of a scored stream: {DATASET: {FIELD: number, ...}, ...}. A new reference; NULL: out
 * of memory. */
json_t *record_datasets(const struct run *r, const struct scores *scores, enum metric_scope scope);

/* --- cells.c --- */

/* Why variant i has failed; code OK: it has not. */
const struct err *cells_failure(const struct part_context *c, int64_t i);
/* As part_engine's complete. */
MUST_USE enum status cells_complete(const struct part_context *c, const struct variant *v,
                                    struct err *e);

/* --- parts.c --- */

/* Emits the records that measure i makes of the visit's cells. Called on rank 0 only. Errors of
 * its fill and of part_emit. */
MUST_USE enum status parts_emit_of_cells(const struct part_context *c, int i,
                                         const struct err *failure, struct err *e);

/* Whether what parts have received of the blocks may be saved: that of exported models cannot. */
bool parts_movable(const struct visit *v);
/* Whether a part that the visit requests wants the grids of its linears. */
bool parts_want_grids(const struct visit *v);
/* Whether the visit requests parts that complete records. */
bool parts_complete(const struct visit *v);
/* Calls annotate of every part that the visit requests. */
void parts_annotate(const struct part_context *c, const struct variant *v,
                    const struct err *failure, json_t *record);
/* parts_begin calls begin of every part that the visit requests; parts_linear (a weights_sink)
 * passes a quantized linear to all of them. Collective on the context's group. */
MUST_USE enum status parts_begin(struct part_context *c, struct err *e);
MUST_USE enum status parts_linear(void *context, const struct variant *v, const struct linear *l,
                                  const float *q, const struct quant_grids *grids, struct err *e);
/* Calls move of every part that the visit requests, of a variant or (NULL) of full precision. Not
 * collective. */
void parts_move(const struct part_context *c, const struct variant *v, struct saved_move *m);

/* --- wave.c, wave_saved.c: runs a batch of variants through all blocks and the head --- */

/* first: also runs the evaluation sequences in full precision and retains their final hidden states
 * for later waves. Collective on the group. */
MUST_USE enum status wave_run(struct run *r, struct stream *const *streams, int64_t n, bool first,
                              struct err *e);

/* A wave that is running. */
struct wave {
    struct run *run;
    struct workspace *w;
    struct stream *const *streams; // (n)
    int64_t n;
    bool first;            /* the first of this visit */
    bool full;             /* the full-precision stream's evaluation goes through the blocks too */
    int64_t layer, layers; /* blocks that are done, and all */
    int64_t passed;        /* streams that are through the next block too; the full-precision stream
                              as well unless there are none */
    struct saved *saved;   /* NULL: nothing is saved */
    struct saved_level level;
};
/* Of the wave's work, what the wave does with the full-precision stream. */
double wave_share_of_full(const struct wave *v);
/* After the streams have been started: continues from the saved state of an earlier run, if there
 * is one, and makes v->saved. The caller ends it with saved_leave and part_saved_end, also after an
 * error. Collective on the group. Errors of part_saved_open and saved_enter. */
MUST_USE enum status wave_resume(struct wave *v, struct err *e);

/* --- observe.c --- */

/* model_block_forward of full precision on a range x, of which measures see what they look at;
 * then, after the last range of the block, collective. Errors of their hooks. */
MUST_USE enum status observe_range(struct workspace *w, const struct block *b,
                                   const struct range *r, float *x, struct err *e);
MUST_USE enum status observe_end(struct workspace *w, const struct block *b, struct err *e);
/* Bytes that they take for such sequences of this rank. */
int64_t visit_observing(const struct visit *v, const struct model_sizes *m,
                        const struct memory_sequences *s, int64_t threads);

/* --- score.c --- */

/* *wanted (tokens of this rank; the caller frees) = whether the hidden state is scored, *before
 * (its sequences + 1, likewise) = such tokens before each sequence; both NULL: all are, or are read
 * by others. ERR_NOMEM. */
MUST_USE enum status score_wanted(const struct run *r, bool **wanted, int64_t **before,
                                  struct err *e);
/* Scores the full-precision stream and all streams that have not failed. Collective on the group;
 * every rank gets all scores. ERR_NOMEM, ERR_IO, ERR_MPI. */
MUST_USE enum status score_streams(struct run *r, struct stream *const *streams, int64_t n,
                                   struct err *e);
