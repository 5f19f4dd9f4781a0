/* init_checkpoint: what a checkpoint's folder says of its place in training, for qtraj init. */
#pragma once
#include "util/err.h"

struct init_checkpoint {
    char *name; /* of the folder */
    int64_t step;
    double tokens, learning_rate;
    char *tokenizer; /* path; NULL: neither the folder nor the one above has one */
};                   /* not known: -1, NaN, NaN */

/* Of the checkpoint `name` in a folder. The step is global_step of trainer_state.json (of
 * transformers' Trainer), else from the name; tokens are its num_input_tokens_seen, else from a
 * name like step1000-tokens4B; the rate is what scheduler.pt ends with, else the last one in
 * log_history up to the step. The caller frees (init_checkpoint_free). ERR_NOMEM. */
MUST_USE enum status init_checkpoint_find(const char *folder, const char *name,
                                          struct init_checkpoint *out, struct err *e);
void init_checkpoint_free(struct init_checkpoint *f);

/* For qsort: by step, those without one last, then by name. */
int init_checkpoint_order(const void *a, const void *b);
/* Appends its row of a trajectory table: name, step, tokens, rate and an empty phase. ERR_NOMEM. */
MUST_USE enum status init_checkpoint_row(const struct init_checkpoint *f, char **text,
                                         struct err *e);

/* *out (the caller frees) = ", field: NAME" for a text of JSON lines: `text`, or else the first
 * field whose value is a string; "" for a plain one. ERR_NOMEM. */
MUST_USE enum status init_field(char *text, char **out, struct err *e);
