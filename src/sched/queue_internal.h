/* queue_internal: what a queue holds; queue_open.c makes it, queue.c uses it. */
#pragma once
#include "sched/queue.h"

enum { NOWHERE = -1 };

/* The part of a job that is not handed out yet. */
struct remaining {
    int64_t n;      /* parts not handed out; a job without parts: 1 until handed out */
    int64_t out;    /* batches in flight */
    int64_t *parts; // (n) by decreasing cost, inside the queue's store
    double cost;    /* of the shared part and the n parts, as planned */
    bool dropped;
};

/* The batch that a group is working on. */
struct in_flight {
    bool busy;
    int64_t job;
    double cost, start, expected;
    bool reported;
    double ends, once; /* as it reported last */
    int64_t n;         /* 0: of a job without parts */
    int64_t *parts;    // (n of the most parts of a job) inside the queue's store
};

/* Costs as planned and as they turned out. */
struct measured {
    double planned, taken;
};

struct queue {
    const struct sched_job *jobs;
    int64_t n, n_groups, n_kinds, n_files;
    const int64_t *node;
    struct remaining *remaining; // (n)
    int64_t n_store;
    int64_t *store; // (n_store) the parts of all jobs and of all batches in flight
    bool *skip;     // (most parts of a job) working memory
    int64_t *list;  // (n_list) jobs not handed out completely, the next one last
    int64_t n_list;
    double total;                /* corrected cost of all remaining parts */
    struct in_flight *in_flight; // (n_groups)
    struct measured *kinds;      // (n_kinds)
    double *work;                // (n_kinds) cost of all jobs of the kind, as planned
    struct measured all;
    double *ratio;   // (n_kinds) taken / planned, as used in the list's order
    int64_t *reader; // (n_files) node that read the files last
    int64_t finished, batches, ends, reordered_at;
    double end; /* when the work will be broken off */
};

/* Orders the list by the costs as they are corrected now. */
void queue_order(struct queue *q);
