/* plan_cost: what the visits of a plan cost and the memory they take, model by model: checkpoints
 * of one training run have one shape. Known from one config.json in the model's folders or the
 * one above them (a checkpoint that is not there yet); without any, costs are alike. */
#pragma once
#include "group/task.h"
#include "memory/cost.h"
#include "memory/memory.h"
#include "results/results.h"

struct plan;

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

/* Reads one config.json a model, and short texts. ERR_NOMEM. */
MUST_USE enum status plan_costs_make(const struct plan *p, struct plan_costs *out, struct err *e);
void plan_costs_free(struct plan_costs *c);

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
