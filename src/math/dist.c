/* The distributed matrix: process grid, storage, memory needs, and factorisation by ScaLAPACK. */
#include "math/dist_internal.h"
#include "math/linalg.h"
#include "util/agree.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/num.h"
#include <limits.h>
#include <math.h>

int Csys2blacs_handle(MPI_Comm comm);
void Cfree_blacs_system_handle(int handle);
void Cblacs_gridinit(int *context, const char *order, int rows, int cols);
void Cblacs_gridexit(int context);
void pdpotrf_(const char *uplo, const int *n, double *a, const int *ia, const int *ja,
              const int *desc, int *info);

static struct dist_shape shape_choose(struct dist_shape s, int64_t n, int64_t ranks)
{
    if (s.block < 1) s.block = n < 8192 ? 64 : 128;
    if (s.rows < 1 && s.cols > 0) s.rows = ranks / s.cols;
    if (s.rows < 1) {
        s.rows = 1;
        for (int64_t r = 1; r * r <= ranks; r++)
            if (ranks % r == 0) s.rows = r;
    }
    if (s.cols < 1) s.cols = ranks / s.rows;
    return s;
}

static enum status storage_make(struct dist *d, struct err *e)
{
    d->n_rows = cyclic_count(&d->rows, d->n, d->row);
    d->n_cols = cyclic_count(&d->cols, d->n, d->col);
    /* Columns whose distance is a multiple of 4 KiB would compete for the same few cache lines. */
    d->lda = d->n_rows % 512 == 0 ? d->n_rows + 8 : d->n_rows;
    NEED(d->n < INT_MAX && d->lda * d->n_cols < INT_MAX, ERR_SHAPE,
         "%lld x %lld numbers of a matrix of order %lld on one rank are beyond ScaLAPACK's "
         "indices; use more ranks a group",
         (long long)d->n_rows, (long long)d->n_cols, (long long)d->n);
    PASS(mem_zero(&d->a, d->lda * d->n_cols, sizeof *d->a, "a distributed Hessian", e));
    return mem_zero(&d->diagonal, d->n, sizeof *d->diagonal, "a Hessian's diagonal", e);
}

enum status dist_make(MPI_Comm comm, int64_t n, struct dist_shape shape, struct dist **out,
                      struct err *e)
{
    CLEANUP(dist_free_at) struct dist *d = NULL;
    int ranks;
    *out = NULL;
    MPI_Comm_size(comm, &ranks);
    shape = shape_choose(shape, n, ranks);
    NEED(shape.rows * shape.cols == ranks, ERR_USAGE,
         "a grid of %lld x %lld has not as many places as there are ranks (%d)",
         (long long)shape.rows, (long long)shape.cols, ranks);
    PASS(err_agree(comm, mem_zero(&d, 1, sizeof *d, "a distributed matrix", e), e));
    *d = (struct dist){.comm = comm, .ranks = ranks, .n = n, .context = -1, .handle = -1};
    MPI_Comm_rank(comm, &d->rank);
    d->rows = (struct cyclic){n, shape.block, shape.rows};
    d->cols = (struct cyclic){n, shape.block, shape.cols};
    d->row = d->rank / shape.cols;
    d->col = d->rank % shape.cols;
    PASS(err_agree(comm, storage_make(d, e), e));
    d->handle = Csys2blacs_handle(comm);
    d->context = d->handle;
    Cblacs_gridinit(&d->context, "R", (int)shape.rows, (int)shape.cols);
    *out = TAKE(d);
    return OK;
}

void dist_free(struct dist *d)
{
    if (!d) return;
    if (d->context >= 0) Cblacs_gridexit(d->context);
    if (d->handle >= 0) Cfree_blacs_system_handle(d->handle);
    free(d->a);
    free(d->diagonal);
    free(d);
}

/* Rows and columns of the largest part that a rank holds. */
static struct dist_shape largest_part(int64_t n, int64_t ranks)
{
    struct dist_shape s = shape_choose((struct dist_shape){0}, n, ranks);
    struct cyclic rows = {n, s.block, s.rows}, cols = {n, s.block, s.cols};
    return (struct dist_shape){cyclic_count(&rows, n, 0), cyclic_count(&cols, n, 0), s.block};
}

int64_t dist_bytes(int64_t n, int64_t ranks)
{
    struct dist_shape part = largest_part(n, ranks);
    return (part.rows * part.cols + n) * (int64_t)sizeof(double);
}

int64_t dist_factor_bytes(int64_t n, int64_t ranks)
{
    enum { PANELS = 2 }; /* of PBLAS, as measured; the buffers of dist_fill before it are smaller */
    struct dist_shape part = largest_part(n, ranks);
    return PANELS * part.block * (part.rows + part.cols) * (int64_t)sizeof(double);
}

int64_t dist_summing_bytes(int64_t n)
{
    enum { BUFFERS = 3 }; /* the panel's sums, send buffer, receive buffer */
    return BUFFERS * min64(gram_panel_rows(n), n) * n * (int64_t)sizeof(double);
}

/* Index in the layout of the first pivot on this rank that is not a positive number, or n. OpenBLAS
 * does not report a NaN. */
static int64_t bad_pivot(const struct dist *d)
{
    for (int64_t i = 0; i < d->n; i++)
        if (dist_rank(d, i, i) == d->rank &&
            !(*dist_at(d, i, i) > 0 && isfinite(*dist_at(d, i, i))))
            return i;
    return d->n;
}

enum status dist_factor(struct dist *d, const int64_t *order, double scale, const double *diagonal,
                        struct err *e)
{
    int n = (int)d->n, one = 1, info = 0;
    int desc[9] = {1, d->context, n, n, (int)d->rows.block, (int)d->rows.block, 0, 0, (int)d->lda};
    double start = clock_seconds();
    PASS(dist_fill(d, order, scale, diagonal, e));
    double filled = clock_seconds();
    pdpotrf_("L", &n, d->a, &one, &one, desc, &info);
    if (d->rank == 0)
        log_trace(
            "linalg",
            "ScaLAPACK pdpotrf of order %d on a grid of %lld x %lld, blocks of %lld: filled in "
            "%.3f s, factored in %.3f s",
            n, (long long)d->rows.procs, (long long)d->cols.procs, (long long)d->rows.block,
            filled - start, clock_seconds() - filled);
    int64_t failed = info > 0 ? info - 1 : bad_pivot(d), first;
    NEED(MPI_Allreduce(&failed, &first, 1, MPI_INT64_T, MPI_MIN, d->comm) == MPI_SUCCESS, ERR_MPI,
         "MPI_Allreduce failed");
    NEED(info >= 0, ERR_MPI, "pdpotrf refuses argument %d", -info);
    NEED(first == d->n, ERR_NUMERIC,
         "the matrix of order %d is not positive definite at channel %lld", n,
         (long long)(d->n - 1 - first));
    return OK;
}
