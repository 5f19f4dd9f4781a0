/* team: the ranks that quantize one matrix together. Rows are dealt out in whole tiles, so that no
 * number depends on how many ranks there are. */
#pragma once
#include "util/err.h"
#include <mpi.h>

/* A NULL team is a rank by itself. */
struct quant_team {
    MPI_Comm comm;
    int rank, size;
};

/* Rows [*first, *end) of a matrix that `rank` of the team quantizes. */
void team_rows(const struct quant_team *t, int rank, int64_t rows, int64_t *first, int64_t *end);

/* Those of this rank. */
void team_own_rows(const struct quant_team *t, int64_t rows, int64_t *first, int64_t *end);

/* The rest is collective on the team. */

/* As err_agree. */
MUST_USE enum status team_agree(const struct quant_team *t, enum status st, struct err *e);
/* per numbers for each `unit` of rows (1 or TILE_ROWS): every rank has filled those of its own rows
 * and gets all. */
MUST_USE enum status team_gather(const struct quant_team *t, double *numbers, int64_t per,
                                 int64_t unit, int64_t rows, struct err *e);
/* Copies bytes of `root` to all. */
MUST_USE enum status team_send(const struct quant_team *t, int root, void *data, int64_t bytes,
                               struct err *e);
