/* What the files of visit/ share. */
#pragma once
#include "checkpoint/checkpoint.h"
#include "eval/head.h"
#include "quant/quant.h"
#include "tokenizer/tokenizer.h"
#include "visit/visit.h"

/* --- inputs.c: token sequences, kept between visits --- */

/* Calibration and all evaluation datasets (one behind the other) of a visit; borrowed from the
 * cache. */
struct visit_inputs {
    const struct sequences *calibration; /* NULL: none */
    const struct sequences *evaluation;
    const int64_t *first; // (n_evaluations + 1) first sequence of each dataset
};
/* ERR_IO / ERR_FORMAT / ERR_USAGE name the file. */
MUST_USE enum status visit_inputs_get(struct visit_cache *cache, const struct visit *v,
                                      struct visit_inputs *out, struct err *e);

/* --- reader.c: the blocks' weights, one block ahead --- */
struct block_reader;
MUST_USE enum status block_reader_open(const struct model *m, struct block_reader **out,
                                       struct err *e);
/* The next block (borrowed until the call after next) while the one behind it is being read. */
MUST_USE enum status block_reader_next(struct block_reader *r, const struct block **out,
                                       struct err *e);
double block_reader_seconds(const struct block_reader *r); /* waited for reads so far */
void block_reader_close(struct block_reader *r);

/* --- stream.c: one variant's (or the full-precision) hidden states on their way --- */
struct layer_report {
    char *name;
    struct quant_report report;
};
struct stream {
    const struct variant *variant; /* NULL: full precision */
    const struct quant_method *method;
    float *evaluation;  // (evaluation tokens, C)
    float *calibration; // (calibration tokens, C) or NULL
    enum status st;     /* failed streams stand still */
    struct err err;
    int64_t n_layers, layers_capacity;
    struct layer_report *layers;
    double squared_distance, bits, weights; /* sums over the linears so far */
    struct {
        double forward, hessian, factor, sweep;
    } seconds;
};
void stream_free(struct stream *s);

/* --- quantize.c: one block of one variant --- */
struct workspace {
    const struct model *model;
    const struct visit_inputs *inputs;
    struct acts evaluation, calibration;
    float *quantized; // all linears of one block, dequantized
    float *saved;     // (calibration tokens, C), for true_sequential: false
    double *gram[STAGE_N];
    const struct visit_hooks *hooks;
};
MUST_USE enum status workspace_init(struct workspace *w, const struct model *m,
                                    const struct visit_inputs *inputs, const struct stream *streams,
                                    int64_t n_streams, const struct visit_hooks *hooks,
                                    struct err *e);
void workspace_free(struct workspace *w);

/* Quantizes the block for the stream, moves its calibration states through it, and gives the
 * quantized block (a shallow copy into w->quantized, good until the next call). */
MUST_USE enum status quantize_block(struct workspace *w, struct stream *s, const struct block *b,
                                    struct block *quantized, struct err *e);

/* --- record.c: results as records --- */
struct visit_outcome {
    const struct visit *visit;
    const char *fingerprint;
    const struct model *model; /* NULL when it could not be opened */
    const char *weights_hash;  /* "" likewise */
    const struct visit_inputs *inputs;
    char utc_start[21];
    double seconds, seconds_read, seconds_forward, seconds_head, weight_norm;
    struct loss_summary *full; // (n_evaluations)
};
/* *out is a new reference. err: the failure that every record of the visit gets, NULL or code OK
 * for none. */
MUST_USE enum status record_checkpoint(const struct visit_outcome *o, const struct err *failure,
                                       json_t **out, struct err *e);
/* summaries: (n_evaluations) of the variant, NULL when it failed. */
MUST_USE enum status record_cell(const struct visit_outcome *o, const struct stream *s,
                                 const struct loss_summary *summaries,
                                 const struct paired_summary *paired, const struct err *failure,
                                 json_t **out, struct err *e);
