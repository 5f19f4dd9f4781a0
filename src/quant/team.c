#include "quant/team.h"
#include "coding/tile.h"
#include "util/agree.h"
#include "util/bulk.h"
#include "util/mem.h"
#include <limits.h>

static int team_size(const struct quant_team *t)
{
    return t ? t->size : 1;
}

void team_rows(const struct quant_team *t, int rank, int64_t rows, int64_t *first, int64_t *end)
{
    int64_t tiles = tile_count(rows), size = team_size(t);
    *first = tiles * rank / size * TILE_ROWS;
    *end = tiles * (rank + 1) / size * TILE_ROWS;
    if (*end > rows) *end = rows;
    if (*first > rows) *first = rows;
}

void team_own_rows(const struct quant_team *t, int64_t rows, int64_t *first, int64_t *end)
{
    team_rows(t, t ? t->rank : 0, rows, first, end);
}

enum status team_agree(const struct quant_team *t, enum status st, struct err *e)
{
    return team_size(t) > 1 ? err_agree(t->comm, st, e) : st;
}

enum status team_gather(const struct quant_team *t, double *numbers, int64_t per, int64_t unit,
                        int64_t rows, struct err *e)
{
    AUTO_FREE int *counts = NULL;
    if (team_size(t) == 1) return OK;
    PASS(team_agree(t, mem_alloc(&counts, 2 * (int64_t)t->size, sizeof *counts, "counts", e), e));
    int *offsets = counts + t->size;
    for (int r = 0; r < t->size; r++) {
        int64_t first, end;
        team_rows(t, r, rows, &first, &end);
        int64_t a = (first + unit - 1) / unit * per, b = (end + unit - 1) / unit * per;
        NEED(b <= INT_MAX, ERR_SHAPE, "%lld rows are more than MPI counts", (long long)rows);
        counts[r] = (int)(b - a);
        offsets[r] = (int)a;
    }
    NEED(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, numbers, counts, offsets, MPI_DOUBLE,
                        t->comm) == MPI_SUCCESS,
         ERR_MPI, "MPI_Allgatherv failed");
    return OK;
}

enum status team_send(const struct quant_team *t, int root, void *data, int64_t bytes,
                      struct err *e)
{
    return team_size(t) > 1 ? bulk_bcast(t->comm, root, data, bytes, e) : OK;
}
