/* team: the ranks that quantize one matrix together. They divide its rows in whole tiles, so that
 * no result depends on the number of ranks. */
#pragma once
#include "util/err.h"
#include <mpi.h>

/* A NULL team is a single rank. */
struct quant_team {
    MPI_Comm comm;
    int rank, size;
};

/* Rows [*first, *end) of a matrix that `rank` of the team quantizes. */
void team_rows(const struct quant_team *t, int rank, int64_t rows, int64_t *first, int64_t *end);

/* The rows of this rank. */
void team_own_rows(const struct quant_team *t, int64_t rows, int64_t *first, int64_t *end);

/* The functions below are collective on the team. */

/* As err_agree. */
MUST_USE enum status team_agree(const struct quant_team *t, enum status st, struct err *e);
/* numbers: `per` for each `unit` of rows (1 or TILE_ROWS). Every rank has filled in those of its
 * rows; afterwards every rank has all. ERR_MPI, ERR_NOMEM. */
MUST_USE enum status team_gather(const struct quant_team *t, double *numbers, int64_t per,
                                 int64_t unit, int64_t rows, struct err *e);
/* Copies data (bytes) of rank root to all ranks. ERR_MPI. */
MUST_USE enum status team_send(const struct quant_team *t, int root, void *data, int64_t bytes,
                               struct err *e);
