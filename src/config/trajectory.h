/* trajectory: reads the table of a training run's checkpoints. */
#pragma once
#include "config/sweep.h"

/* CSV: a header that names columns of row_table (`checkpoint` and any of the others, in any order;
 * `lr` is learning_rate) and columns of the user's own, then one row per checkpoint. Blank lines
 * and lines that begin with # are skipped; fields may be quoted ("" inside is a quote); an empty
 * field counts as not given. Fills m's rows and columns, owned by the caller (trajectory_free).
 * ERR_USAGE with file and line: among others a column that looks like a misspelt one of row_table,
 * or whose name no variable can have; ERR_IO; ERR_NOMEM. empty: it may have no
 * rows. */
MUST_USE enum status trajectory_read(const char *path, bool empty, struct model_entry *m,
                                     struct err *e);
/* Keeps the first n rows of a table without averages. */
void trajectory_cut(struct model_entry *m, int64_t n);
/* Frees and zeroes the rows and columns. */
void trajectory_free(struct model_entry *m);

/* Whether a field of an unknown column is a number, and which. */
bool trajectory_number(const char *text, double *value);
