/* Sums Gram matrices over the ranks onto one rank, panel by panel. */
#include "math/dist.h"
#include "util/agree.h"
#include "util/bulk.h"
#include "util/mem.h"
#include "util/num.h"
#include <stdlib.h>
#include <string.h>

enum { PANEL = 1 << 22 }; /* numbers per panel */

static int64_t panel_rows(int64_t n)
{
    return min64(n > 0 && n < PANEL ? PANEL / n : 1, n);
}

int64_t gram_collect_bytes(int64_t n, int64_t ranks)
{
    return (panel_rows(n) * n + bulk_sum_buffer(ranks)) * (int64_t)sizeof(double);
}

/* Copies rows [row, end), each from its diagonal on, to the panel or (out) from it. */
static int64_t rows_move(double *h, int64_t n, int64_t row, int64_t end, double *panel, bool out)
{
    int64_t at = 0;
    for (int64_t i = row; i < end; i++) {
        double *upper = h + i * n + i;
        size_t bytes = (size_t)(n - i) * sizeof *h;
        if (out)
            memcpy(upper, panel + at, bytes);
        else
            memcpy(panel + at, upper, bytes);
        at += n - i;
    }
    return at;
}

enum status gram_collect(MPI_Comm comm, int owner, double *h, int64_t n, struct err *e)
{
    enum status st = OK;
    double *panel = NULL, *scratch = NULL;
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    if (ranks == 1) return OK;
    int64_t rows = panel_rows(n);
    st = mem_alloc(&panel, rows * n, sizeof *panel, "a panel of sums", e);
    if (st == OK)
        st = mem_alloc(&scratch, bulk_sum_buffer(ranks), sizeof *scratch, "sums of ranks", e);
    TRY(err_agree(comm, st, e));
    for (int64_t row = 0; row < n; row += rows) {
        int64_t end = min64(row + rows, n);
        int64_t count = rows_move(h, n, row, end, panel, false);
        TRY(bulk_sum(comm, owner, panel, count, MPI_DOUBLE, scratch, e));
        if (rank == owner) rows_move(h, n, row, end, panel, true);
    }
done:
    free(panel);
    free(scratch);
    return st;
}
