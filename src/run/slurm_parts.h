/* slurm_parts: how `qtraj slurm` divides a sweep over the elements of job arrays. */
#pragma once
#include "plan/plan.h"

struct slurm_nodes {
    int64_t nodes;         /* at most so many at once */
    int64_t cores, memory; /* of a node; memory in bytes */
    double time;           /* walltime of an element, seconds */
    int64_t most;          /* elements that an array may have */
    int64_t each;          /* nodes that an element may have */
    int64_t largest;       /* cores of the partition's largest node; 0: not known */
    double limit;          /* walltime of the partition's jobs at most, seconds */
    bool down;             /* the partition starts no jobs */
    bool recorded;         /* the cut into parts is recorded for them (plan_cut_agree) */
};

/* A part of the sweep: an element of an array. */
struct slurm_part {
    int64_t nodes, visits; /* visits: that are to be done */
    int64_t first, end;    /* all of its visits, done or not */
    double seconds;        /* expected on these nodes */
};

/* The parts that take the same number of nodes: an array. */
struct slurm_array {
    int64_t nodes;         /* of an element */
    int64_t workers;       /* on a node */
    int64_t at_once;       /* elements */
    int64_t elements;      /* that have visits */
    double longest, hours; /* the longest element in seconds; node-hours of all */
};

/* Zero-initialise; free with slurm_parts_free. */
struct slurm_parts {
    int64_t n;                // of the sweep (qtraj run --part k/n)
    struct slurm_part *parts; // (n)
    int64_t n_arrays;
    struct slurm_array *arrays; // (n_arrays) by increasing nodes
    double hours, seconds;      /* node-hours, and expected time of all */
    bool too_long;              /* a visit takes longer than the walltime on all nodes */
};
void slurm_parts_free(struct slurm_parts *s);

/* Bytes of a node that its ranks may take. */
int64_t slurm_memory(const struct slurm_nodes *at);

/* Cuts the sweep into so many parts that elements take at most four fifths of the walltime, but at
 * least ten minutes where that is possible, and that the last elements leave few nodes idle. A
 * visit that takes too long on a node, or more memory, gets several. The cut is that
 * of the whole sweep, whatever is done. rate: of a node (plan_report_rates); the plan's costs are
 * as plan_make has left them. todo (visits of the plan): which are to be done; NULL: all. Errors of
 * plan_report_rates, plan_cut_agree. */
MUST_USE enum status slurm_parts_make(struct plan *p, const char *rate,
                                      const struct slurm_nodes *at, const bool *todo,
                                      struct slurm_parts *out, struct err *e);
