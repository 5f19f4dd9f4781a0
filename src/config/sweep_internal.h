/* sweep_internal: what sweep_file.c reads a file by. */
#pragma once
#include "config/sweep.h"
#include "options/node.h"

/* Writes out what the file says once for several entries (spread.c). The sweep's `stage` becomes
 * that of the models that say nothing of theirs. An entry of `methods` with the lists W, A or KV
 * becomes one for each combination of these widths: W of its method, or 16 of method none; A of
 * `activations`, KV of `keys` and `values`, whose other keys it keeps. The combination in which
 * nothing is quantized is left out. ERR_USAGE with the place: no list of numbers, or a key that
 * contradicts it; ERR_NOMEM. */
MUST_USE enum status sweep_spread(struct node *root, struct err *e);

/* --- so_far.c: what is there while checkpoints are still being made (sweep_read_so_far) --- */

/* Keeps the rows before the first whose checkpoint is not whole. */
void so_far_keep(struct model_entry *m, const struct sweep_so_far *how);
/* Whether the file's texts are tokenized, rather than given by their ids. */
bool so_far_texts(const struct node *root);
/* Takes the models without rows, and what branches from them, out of s and out of the list
 * `models`, from which they were read. ERR_NOMEM. */
MUST_USE enum status so_far_drop(struct sweep *s, struct node *models, struct err *e);
