/* plan: what a sweep file asks for: cells, their keys, and the visits that fill those that are
 * missing.
 *
 * A cell's key hashes its own resolved settings and inputs, so that a larger sweep keeps what a
 * smaller one finished: the model's and the checkpoint's names, the tokenizer, the evaluation texts
 * and how they are cut; of the variant the method, its bits, the options that concern it and, if it
 * calibrates, the calibration text; of curvature its options, text and seed, and nothing of the
 * evaluation. Labels of quantizers are not part of it. The weights are not
 * either (they may not be on disk yet): a run compares their digest with the recorded one and does
 * a changed checkpoint again.
 */
#pragma once
#include "config/sweep.h"
#include "memory/cost.h"
#include "memory/memory.h"
#include "results/kind.h"
#include "util/err.h"
#include "visit/visit.h"

struct plan_variant {
    const struct method_entry *method; /* borrowed from the sweep */
    int64_t quantizer;                 /* index of its label */
    int64_t bits;
    bool applicable; /* the method has such a width and the sweep asks for it */
    char key[HASH_HEX];
};

struct plan_checkpoint {
    int64_t model, row;
    struct weights weights;
    char key[HASH_HEX];
    char curvature_key[HASH_HEX]; /* "": not asked for */
};

struct plan_surface {
    const struct surface_entry *entry;    /* borrowed from the sweep */
    const struct method_entry *quantizer; /* NULL: none */
    const struct data_options *dataset;
    int64_t model;
    int64_t n, *checkpoints; /* places in the plan; the first is the origin, the next one what the
                                first axis points to, or the trajectory's */
    char key[HASH_HEX];
    struct results_surface points; /* its list is owned */
};

/* What the visits of one model cost: checkpoints of a training run have one shape. It is read from
 * one config.json in the model's folders or the one above them (a checkpoint that is not there
 * yet); without any, all costs are alike. */
struct plan_model {
    bool known; /* some checkpoint's config.json could be read */
    struct model_sizes sizes;
    double bytes_a_weight;
    struct cost shared;       /* every piece of a visit */
    struct cost statistics;   /* more, if a variant uses shared statistics */
    struct cost once[PART_N]; /* more, of each part of a visit */
    struct cost *variants;    // (n_variants of the plan), with what parts add to each cell
};

struct plan_costs {
    int64_t n;
    struct plan_model *models; // (models of the sweep)
    struct cost_tokens evaluation, calibration, curvature;
    struct cost_rates rates; /* nominal, until the caller says otherwise */
    int64_t learned;         /* finished records that corrected them */
};

struct plan {
    const struct sweep *sweep; /* borrowed */
    int64_t n_bits;
    int64_t bits[QUANT_BITS_N]; /* the axis, ascending */
    int64_t n_variants;
    struct plan_variant *variants; // (quantizer, bits)
    int64_t n_checkpoints;
    struct plan_checkpoint *checkpoints;
    int64_t n_surfaces;
    struct plan_surface *surfaces;
    void *task[PART_N]; /* of a visit's parts, but for what differs between checkpoints; NULL: not
                           asked for */
    char second_order[HASH_HEX]; /* settings of the prediction of each cell; "": not asked for */
    json_t *inputs;              /* path → digest */
    bool look_ahead;             /* as plan_make was told */
    bool draft;                  /* keys are not those of a run: a text or tokenizer is not there */
    struct plan_costs costs;
};

/* Reads the texts' and tokenizers' digests and the shapes of the checkpoints that are there.
 * look_ahead: texts and tokenizers that are not there are no error but make a draft.
 * ERR_USAGE (unknown method, options that do not concern it, a method that calibrates without
 * calibration data), ERR_IO (unreadable text or tokenizer). */
MUST_USE enum status plan_make(const struct sweep *s, bool look_ahead, struct plan *out,
                               struct err *e);
void plan_free(struct plan *p);

/* The plan record of the journal (results.h). command: how the run was started. A new reference in
 * *out. */
MUST_USE enum status plan_record(const struct plan *p, const char *command, json_t **out,
                                 struct err *e);

/* Which cells a run takes. */
struct plan_choice {
    bool retry_failed; /* failed ones again */
    bool redo;         /* finished ones again */
    int64_t n_only;
    char **only; /* "model=PATTERN", "checkpoint=…", "bits=…", "quantizer=…"; all must hold; shell
                    patterns. "surface=…" takes surfaces alone, as do the others, but model, cells
                    alone */
};
/* ERR_USAGE: a key that is none of these. */
MUST_USE enum status plan_choice_check(const struct plan_choice *c, struct err *e);

/* A visit and what is known of it. */
struct plan_visit {
    struct visit visit;
    int64_t model;
    double cost;      /* of what all its pieces share, in seconds */
    int64_t n_pieces; /* 0: it is never cut */
    double *pieces;   // (n_pieces) what each (visit.h) adds
    int64_t kind;     /* visits of one kind take alike: model, and whether a point */
    int64_t files;    /* from 1: which files it reads */
};

/* The visits that fill what is missing, one a checkpoint, in the order of the plan, then one a
 * point of each surface. view: what is finished, NULL for nothing. */
struct plan_visits {
    int64_t n, n_cells, n_points, n_curvature;
    struct plan_visit *visits; // (n)
    int64_t n_changed; /* checkpoints done again because their weights differ from the recorded */
};
MUST_USE enum status plan_visits_make(const struct plan *p, const struct results_view *view,
                                      const struct plan_choice *choice, struct plan_visits *out,
                                      struct err *e);
void plan_visits_free(struct plan_visits *v);

/* The records that it asks for, and what the view (NULL: nothing is finished) has of them: for
 * counts. *out is closed by the caller. ERR_NOMEM. */
MUST_USE enum status plan_inventory(const struct plan *p, const struct results_view *view,
                                    struct inventory *out, struct err *e);

/* --- plan_cost.c --- */

/* Corrects the rates by the phases' seconds of the finished records of this plan. */
void plan_costs_learn(struct plan *p, const struct results_view *view);

/* Of a visit v of the model; variants (borrowed indices into the plan's): which of the plan's it
 * has. pieces (visit_pieces): what each adds; returns what they share. Seconds. */
double plan_visit_seconds(const struct plan *p, int64_t model, const int64_t *variants,
                          const struct visit *v, double *pieces);
/* The whole visit of a checkpoint with n of the plan's variants, and all parts asked for. */
struct cost plan_visit_cost(const struct plan *p, int64_t model, const int64_t *variants,
                            int64_t n);

/* A rank as it is planned for. */
struct plan_rank {
    int64_t threads, memory; /* 0 bytes: no bound */
    int64_t base;            /* bytes of such a process before its first visit; 0: not known */
    bool scratch;            /* states may go there */
    int64_t ranks, mates;    /* of its group, and of those on its node */
};

/* The fewest ranks, up to most->ranks of them with so many on a node, whose memory is enough for
 * visits of the model with these variants and for curvature, if that ever fits; all, if none is; 1
 * where it cannot be known. */
int64_t plan_model_ranks(const struct plan *p, int64_t model, const int64_t *variants, int64_t n,
                         const struct plan_rank *most);

/* Memory of such a rank that runs the visit with others of its kind. ERR_NOMEM: what it has is too
 * little, the text says for what. */
MUST_USE enum status plan_visit_memory(const struct plan *p, int64_t model, const int64_t *variants,
                                       int64_t n, const struct plan_rank *rank,
                                       struct memory_plan *out, struct err *e);
