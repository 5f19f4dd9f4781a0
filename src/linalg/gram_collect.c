#include "linalg/dist.h"
#include "util/agree.h"
#include "util/bulk.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>

enum { PANEL = 1 << 22 }; /* numbers at a time */

static int64_t rows_at_a_time(int64_t n)
{
    int64_t rows = n > 0 && n < PANEL ? PANEL / n : 1;
    return rows < n ? rows : n;
}

int64_t gram_collect_bytes(int64_t n, int64_t ranks)
{
    return (rows_at_a_time(n) * n + bulk_sum_room(ranks)) * (int64_t)sizeof(double);
}

/* Rows [row, end) from their diagonals on, into or out of one piece. */
static int64_t rows_move(double *h, int64_t n, int64_t row, int64_t end, double *piece, int out)
{
    int64_t at = 0;
    for (int64_t i = row; i < end; i++) {
        double *upper = h + i * n + i;
        size_t bytes = (size_t)(n - i) * sizeof *h;
        if (out)
            memcpy(upper, piece + at, bytes);
        else
            memcpy(piece + at, upper, bytes);
        at += n - i;
    }
    return at;
}

enum status gram_collect(MPI_Comm comm, int owner, double *h, int64_t n, struct err *e)
{
    enum status st = OK;
    double *panel = NULL, *room = NULL;
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    if (ranks == 1) return OK;
    int64_t rows = rows_at_a_time(n);
    st = mem_alloc(&panel, rows * n, sizeof *panel, "a panel of sums", e);
    if (st == OK) st = mem_alloc(&room, bulk_sum_room(ranks), sizeof *room, "sums of ranks", e);
    TRY(err_agree(comm, st, e));
    for (int64_t row = 0; row < n; row += rows) {
        int64_t end = row + rows < n ? row + rows : n;
        int64_t count = rows_move(h, n, row, end, panel, 0);
        TRY(bulk_sum(comm, owner, panel, count, MPI_DOUBLE, room, e));
        if (rank == owner) rows_move(h, n, row, end, panel, 1);
    }
done:
    free(panel);
    free(room);
    return st;
}
