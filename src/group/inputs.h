/* inputs: the token sequences of a visit, kept between visits (visit_cache). */
#pragma once
#include "group/task.h"

/* Calibration and all evaluation datasets (one behind the other) of a visit; borrowed from the
 * cache until visit_inputs_trim. */
struct visit_inputs {
    const struct sequences *calibration; /* NULL: none */
    const struct sequences *evaluation;
    const int64_t *first; // (n_evaluations + 1) first sequence of each dataset
};
/* ERR_IO / ERR_FORMAT / ERR_USAGE name the file. */
MUST_USE enum status visit_inputs_get(struct visit_cache *cache, const struct visit *v,
                                      struct visit_inputs *out, struct err *e);

/* The sequences of one data source alone, borrowed for as long. Errors as above. */
MUST_USE enum status visit_sequences_get(struct visit_cache *cache, const struct visit *v,
                                         const struct data_options *data,
                                         const struct sequences **out, struct err *e);

/* At the start of a visit: frees all sequences but those used last. During one, all that it asks
 * for stays where it is. */
void visit_inputs_trim(struct visit_cache *cache);
/* Frees all of them. */
void visit_inputs_forget(struct visit_cache *cache);

/* The tokenizer.json of a checkpoint folder, or of the folder above it, which a trajectory's
 * checkpoints may share. *path is NULL when there is none; the caller frees. ERR_NOMEM. */
MUST_USE enum status visit_tokenizer(const char *checkpoint, char **path, struct err *e);
