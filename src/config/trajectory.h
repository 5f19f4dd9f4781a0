/* trajectory: reads the table of a training run's checkpoints. */
#pragma once
#include "config/sweep.h"

/* CSV: a header that names columns of row_table (`checkpoint` and any of the others, in any order),
 * then one row per checkpoint. Blank lines and lines that begin with # are skipped; fields may be
 * quoted ("" inside is a quote); an empty field counts as not given. *rows (n) is owned by the
 * caller (trajectory_free). ERR_USAGE with file and line; ERR_IO; ERR_NOMEM. */
MUST_USE enum status trajectory_read(const char *path, struct trajectory_row **rows, int64_t *n,
                                     struct err *e);
void trajectory_free(struct trajectory_row *rows, int64_t n);
