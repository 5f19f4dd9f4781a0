/* Panels of R: every rank contributes its part, and all ranks receive all parts (allgather). Rows
 * before the panel are rounded to f32 before they are sent; the panel's own rows, whose diagonal
 * blocks are inverted, stay in f64. */
#include "math/dist_internal.h"
#include "util/agree.h"
#include "util/mem.h"
#include "util/num.h"
#include <limits.h>

/* Columns [begin, end) and rows [first, last) of R are the elements (i, j) of the layout with n -
 * last <= i < n - first and n - end <= j < n - begin. A rank holds `rows` times `cols` of them,
 * from local indices row0 and col0 on. */
struct part {
    int64_t row0, rows, col0, cols;
};

static struct part part_of(const struct dist *d, const struct dist_panel *p, int64_t first,
                           int64_t last, int rank)
{
    int64_t r = rank / d->cols.procs, c = rank % d->cols.procs;
    struct part part = {.row0 = cyclic_count(&d->rows, d->n - last, r),
                        .col0 = cyclic_count(&d->cols, d->n - p->end, c)};
    part.rows = cyclic_count(&d->rows, d->n - first, r) - part.row0;
    part.cols = cyclic_count(&d->cols, d->n - p->begin, c) - part.col0;
    return part;
}

static struct part part_before(const struct dist *d, const struct dist_panel *p, int rank)
{
    return part_of(d, p, 0, p->begin, rank);
}

static struct part part_corner(const struct dist *d, const struct dist_panel *p, int rank)
{
    return part_of(d, p, p->begin, p->end, rank);
}

/* Of both transfers, the numbers of each rank's part and where it starts. */
static int *counts_of(const struct dist *d, const struct dist_panel *p, int which)
{
    return p->counts + 2 * which * d->ranks;
}

static int *offsets_of(const struct dist *d, const struct dist_panel *p, int which)
{
    return counts_of(d, p, which) + d->ranks;
}

enum { BEFORE, CORNER };

int64_t dist_panel_bytes(int64_t n, int64_t width)
{
    return n * width * (int64_t)sizeof(float) + width * width * (int64_t)sizeof(double);
}

static enum status panel_alloc(const struct dist *d, int64_t width, struct dist_panel *p,
                               struct err *e)
{
    PASS(mem_alloc(&p->counts, 4 * (int64_t)d->ranks, sizeof *p->counts, "counts of ranks", e));
    PASS(mem_alloc(&p->before, d->n * width, sizeof *p->before, "a panel of the factor", e));
    return mem_alloc(&p->corner, width * width, sizeof *p->corner, "a panel of the factor", e);
}

enum status dist_panel_make(const struct dist *d, int64_t width, struct dist_panel *p,
                            struct err *e)
{
    *p = (struct dist_panel){.request = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}};
    return err_agree(d->comm, panel_alloc(d, width, p, e), e);
}

/* Copies this rank's part to its place in the buffers. */
static void part_pack(const struct dist *d, struct dist_panel *p)
{
    const struct part b = part_before(d, p, d->rank), c = part_corner(d, p, d->rank);
    float *before = p->before + offsets_of(d, p, BEFORE)[d->rank];
    double *corner = p->corner + offsets_of(d, p, CORNER)[d->rank];
#pragma omp parallel for
    for (int64_t k = 0; k < b.cols; k++) {
        const double *last = d->a + (b.col0 + b.cols - 1 - k) * d->lda + b.row0 + b.rows - 1;
        float *to = before + k * b.rows;
        for (int64_t l = 0; l < b.rows; l++) to[l] = (float)last[-l];
    }
    for (int64_t k = 0; k < c.cols; k++)
        memcpy(corner + k * c.rows, d->a + (c.col0 + k) * d->lda + c.row0,
               (size_t)c.rows * sizeof *corner);
}

enum status dist_panel_start(const struct dist *d, int64_t begin, int64_t end, struct dist_panel *p,
                             struct err *e)
{
    p->begin = begin;
    p->end = end;
    NEED(begin * (end - begin) <= INT_MAX && (end - begin) * (end - begin) <= INT_MAX, ERR_SHAPE,
         "a panel of %lld columns is beyond what MPI counts", (long long)(end - begin));
    int *n[2] = {counts_of(d, p, BEFORE), counts_of(d, p, CORNER)}, at[2] = {0, 0};
    for (int r = 0; r < d->ranks; r++) {
        const struct part part[2] = {part_before(d, p, r), part_corner(d, p, r)};
        for (int k = 0; k < 2; k++) {
            n[k][r] = (int)(part[k].rows * part[k].cols);
            n[k][d->ranks + r] = at[k];
            at[k] += n[k][r];
        }
    }
    part_pack(d, p);
    NEED(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_FLOAT, p->before, n[BEFORE], n[BEFORE] + d->ranks,
                         MPI_FLOAT, d->comm, &p->request[BEFORE]) == MPI_SUCCESS,
         ERR_MPI, "MPI_Iallgatherv failed");
    p->active = true;
    NEED(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DOUBLE, p->corner, n[CORNER], n[CORNER] + d->ranks,
                         MPI_DOUBLE, d->comm, &p->request[CORNER]) == MPI_SUCCESS,
         ERR_MPI, "MPI_Iallgatherv failed");
    return OK;
}

void dist_panel_progress(struct dist_panel *p)
{
    int finished;
    if (p->active) MPI_Testall(2, p->request, &finished, MPI_STATUSES_IGNORE);
}

/* before (columns of the panel, begin): what a rank sent of it, whose rows are those of some blocks
 * of the layout. */
static void before_unpack(const struct dist *d, const struct dist_panel *p, int rank, float *before)
{
    const struct part part = part_before(d, p, rank);
    const float *first = p->before + offsets_of(d, p, BEFORE)[rank];
#pragma omp parallel for
    for (int64_t k = 0; k < part.cols; k++) {
        int64_t c = part.col0 + part.cols - 1 - k;
        int64_t col = d->n - 1 - cyclic_global(&d->cols, c, rank % d->cols.procs) - p->begin;
        const float *from = first + k * part.rows;
        for (int64_t l = 0, run; l < part.rows; l += run) {
            int64_t local = part.row0 + part.rows - 1 - l;
            int64_t row = d->n - 1 - cyclic_global(&d->rows, local, rank / d->cols.procs);
            run = min64(local % d->rows.block + 1, part.rows - l);
            memcpy(before + col * p->begin + row, from + l, (size_t)run * sizeof *before);
        }
    }
}

/* The same of corner (columns, columns). Below R's diagonal, where the layout has sums, sets zeros.
 */
static void corner_unpack(const struct dist *d, const struct dist_panel *p, int rank,
                          double *corner)
{
    int64_t width = p->end - p->begin;
    const struct part part = part_corner(d, p, rank);
    const double *from = p->corner + offsets_of(d, p, CORNER)[rank];
    for (int64_t k = 0; k < part.cols; k++, from += part.rows) {
        int64_t j = cyclic_global(&d->cols, part.col0 + k, rank % d->cols.procs);
        for (int64_t l = 0; l < part.rows; l++) {
            int64_t i = cyclic_global(&d->rows, part.row0 + l, rank / d->cols.procs);
            corner[(d->n - 1 - i - p->begin) * width + d->n - 1 - j - p->begin] =
                i >= j ? from[l] : 0;
        }
    }
}

enum status dist_panel_finish(const struct dist *d, struct dist_panel *p, float *before,
                              double *corner, struct err *e)
{
    p->active = false;
    NEED(MPI_Waitall(2, p->request, MPI_STATUSES_IGNORE) == MPI_SUCCESS, ERR_MPI,
         "MPI_Waitall failed");
    for (int rank = 0; rank < d->ranks; rank++) {
        before_unpack(d, p, rank, before);
        corner_unpack(d, p, rank, corner);
    }
    return OK;
}

void dist_panel_free(struct dist_panel *p)
{
    /* A collective cannot be cancelled; every rank has started it, so it completes. */
    if (p->active) MPI_Waitall(2, p->request, MPI_STATUSES_IGNORE);
    free(p->before);
    free(p->corner);
    free(p->counts);
    *p = (struct dist_panel){0};
}
