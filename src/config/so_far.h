/* so_far: what of a sweep is there while its checkpoints are still being made (sweep_read_so_far).
 */
#pragma once
#include "config/sweep.h"
#include "options/node.h"

/* Keeps the rows before the first whose checkpoint is not whole. */
void so_far_keep(struct model_entry *m, const struct sweep_so_far *how);
/* Whether the file's texts are tokenized, rather than given by their ids. */
bool so_far_texts(const struct node *root);
/* Takes the models without rows, and what branches from them, out of the list `models`, of which s
 * was read. *any: there were some. ERR_NOMEM. */
MUST_USE enum status so_far_drop(struct node *models, const struct sweep *s, bool *any,
                                 struct err *e);
