/* second_order: the account of where a cell's error comes from. The quantized weights of each
 * variant go to a file on scratch while the visit makes them; afterwards the change of the loss on
 * the curvature's tokens is predicted to second order and measured. */
#pragma once
#include "curvature/critical.h"
#include "curvature/hvp_predict.h"
#include "group/group.h"
#include "group/task.h"

struct second_order_task {
    int depth;                /* enum second_order_depth */
    bool critical;            /* critical sharpness too, also of the checkpoint itself */
    char *previous;           /* folder of the checkpoint before; NULL: none */
    struct data_options data; /* the tokens */
    char *identity;           /* digest of the above, to tell results of other settings */
    int64_t together;         /* variants that share a pass, as far as memory allows */
    double memory;            /* GiB of vectors */
};
void second_order_task_free(struct second_order_task *t);
json_t *second_order_task_to_json(const struct second_order_task *t);
MUST_USE enum status second_order_task_from_json(const json_t *json, struct second_order_task **out,
                                                 struct err *e);

/* What becomes of one variant. */
struct second_order_result {
    bool done;
    char *failure;                /* why not */
    struct critical critical;     /* passes 0: not asked for */
    struct prediction prediction; /* n_tensors 0: not asked for */
    double true_difference;       /* loss of the quantized model minus that of the model */
    int64_t n_tensors;
    char **names; // (n_tensors) of prediction.parts
    double seconds;
};
void second_order_result_free(struct second_order_result *r);

/* The variants' files: one for each node of the group, written by its first rank. hooks: the
 * visit's, called on through those of second_order_hooks; group: borrowed. All of this is
 * collective on the group. */
struct second_order;
MUST_USE enum status second_order_open(const struct visit *v, const struct checkpoint *c,
                                       const struct visit_hooks *hooks,
                                       const struct visit_group *group, bool may_stop,
                                       struct second_order **out, struct err *e);
const struct visit_hooks *second_order_hooks(const struct second_order *s);
void second_order_close(struct second_order *s); /* not collective */

/* After the blocks: results[i] of each variant whose weights are whole, the same on all ranks. m:
 * the model of c. What goes wrong stands in the results and makes no cell fail, but for
 * ERR_STOPPED; ERR_NOMEM while noting it. */
MUST_USE enum status second_order_measure(struct second_order *s, const struct model *m,
                                          struct visit_cache *cache,
                                          struct second_order_result *results, int64_t *planned,
                                          struct err *e);

/* Critical sharpness of the checkpoint c, whose model is m, along the way from the one before. out:
 * n_tensors 0; what goes wrong stands in it. ERR_NOMEM while noting that. */
MUST_USE enum status second_order_of_checkpoint(const struct visit *v,
                                                const struct visit_group *group,
                                                const struct checkpoint *c, const struct model *m,
                                                struct visit_cache *cache,
                                                struct second_order_result *out, struct err *e);
