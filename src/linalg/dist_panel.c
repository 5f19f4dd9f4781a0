/* Panels of R: every rank contributes its part, and all ranks receive all parts (allgather). */
#include "linalg/dist_internal.h"
#include "util/agree.h"
#include "util/mem.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Columns [begin, end) and rows [0, end) of R are the elements (i, j) of the layout with i >= n -
 * end and n - end <= j < n - begin. A rank holds `rows` times `cols` of them, from local indices
 * row0 and col0 on. */
struct part {
    int64_t row0, rows, col0, cols;
};

static struct part part_of(const struct dist *d, int64_t begin, int64_t end, int rank)
{
    int64_t r = rank / d->cols.procs, c = rank % d->cols.procs;
    struct part p = {.row0 = cyclic_count(&d->rows, d->n - end, r),
                     .col0 = cyclic_count(&d->cols, d->n - end, c)};
    p.rows = cyclic_count(&d->rows, d->n, r) - p.row0;
    p.cols = cyclic_count(&d->cols, d->n - begin, c) - p.col0;
    return p;
}

static enum status panel_alloc(const struct dist *d, struct dist_panel *p, struct err *e)
{
    int64_t total = 0, own = 0;
    PASS(mem_alloc(&p->counts, 2 * (int64_t)d->ranks, sizeof *p->counts, "counts of ranks", e));
    p->offsets = p->counts + d->ranks;
    for (int r = 0; r < d->ranks; r++) {
        struct part part = part_of(d, p->begin, p->end, r);
        if (r == d->rank) own = part.rows * part.cols;
        p->offsets[r] = (int)total;
        p->counts[r] = (int)(part.rows * part.cols);
        total += part.rows * part.cols;
        NEED(total <= INT_MAX, ERR_SHAPE, "a panel of %lld columns is beyond what MPI counts",
             (long long)(p->end - p->begin));
    }
    PASS(mem_alloc(&p->send, own, sizeof *p->send, "a panel of the factor", e));
    return mem_alloc(&p->recv, total, sizeof *p->recv, "a panel of the factor", e);
}

enum status dist_panel_start(const struct dist *d, int64_t begin, int64_t end, struct dist_panel *p,
                             struct err *e)
{
    *p = (struct dist_panel){.begin = begin, .end = end};
    PASS(err_agree(d->comm, panel_alloc(d, p, e), e));
    struct part part = part_of(d, begin, end, d->rank);
    for (int64_t j = 0; j < part.cols; j++)
        memcpy(p->send + j * part.rows, d->a + (part.col0 + j) * d->lda + part.row0,
               (size_t)part.rows * sizeof *p->send);
    NEED(MPI_Iallgatherv(p->send, p->counts[d->rank], MPI_DOUBLE, p->recv, p->counts, p->offsets,
                         MPI_DOUBLE, d->comm, &p->request) == MPI_SUCCESS,
         ERR_MPI, "MPI_Iallgatherv failed");
    p->active = true;
    return OK;
}

/* Copies one rank's part to before and corner. Below R's diagonal, where the layout has sums, sets
 * zeros. */
static void part_unpack(const struct dist *d, const struct dist_panel *p, int rank, float *before,
                        double *corner)
{
    int64_t width = p->end - p->begin;
    struct part part = part_of(d, p->begin, p->end, rank);
    const double *from = p->recv + p->offsets[rank];
    for (int64_t k = 0; k < part.cols; k++, from += part.rows) {
        int64_t j = cyclic_global(&d->cols, part.col0 + k, rank % d->cols.procs);
        int64_t col = d->n - 1 - j - p->begin;
        for (int64_t l = 0; l < part.rows; l++) {
            int64_t i = cyclic_global(&d->rows, part.row0 + l, rank / d->cols.procs);
            int64_t row = d->n - 1 - i;
            double value = i >= j ? from[l] : 0;
            if (row >= p->begin)
                corner[(row - p->begin) * width + col] = value;
            else
                before[col * p->begin + row] = (float)value;
        }
    }
}

enum status dist_panel_finish(const struct dist *d, struct dist_panel *p, float *before,
                              double *corner, struct err *e)
{
    p->active = false;
    NEED(MPI_Wait(&p->request, MPI_STATUS_IGNORE) == MPI_SUCCESS, ERR_MPI, "MPI_Wait failed");
    for (int rank = 0; rank < d->ranks; rank++) part_unpack(d, p, rank, before, corner);
    return OK;
}

void dist_panel_free(struct dist_panel *p)
{
    /* A collective cannot be cancelled; every rank has started it, so it completes. */
    if (p->active) MPI_Wait(&p->request, MPI_STATUS_IGNORE);
    free(p->send);
    free(p->recv);
    free(p->counts);
    *p = (struct dist_panel){0};
}
