/* weights_folder: a checkpoint whose linears are quantized, as a folder that loads and gives the
 * loss that was measured. The linears are written in f32, the numbers that the visit computed with:
 * rounding them to the checkpoint's 16-bit type would change the loss. Every other tensor is copied
 * bit for bit; config.json asks for f32, which holds all of them exactly. */
#pragma once
#include "checkpoint/checkpoint.h"
#include "group/task.h"

struct weights_folder;

/* Begins the folder `path` and copies into it what is not quantized. c: a stored checkpoint,
 * retained; tokenizer: file, or NULL (folder_write.h). Close *out whatever follows. Errors of
 * model_parameters and folder_create, of reading c. */
MUST_USE enum status weights_folder_create(const struct checkpoint *c, const char *tokenizer,
                                           const char *path, struct weights_folder **out,
                                           struct err *e);
/* A quantized linear (visit_hooks.weights), in the visit's order. As folder_append. */
MUST_USE enum status weights_folder_linear(struct weights_folder *f, const struct linear *l,
                                           const float *q, struct err *e);
/* As folder_commit. */
MUST_USE enum status weights_folder_commit(struct weights_folder *f, struct err *e);
/* Without a commit: removes it. NULL: nothing. */
void weights_folder_close(struct weights_folder *f);
