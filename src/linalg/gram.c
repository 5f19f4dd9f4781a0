#include "linalg/linalg.h"
#include "util/mem.h"
#include <cblas.h>
#include <omp.h>
#include <stdbool.h>
#include <stdlib.h>

/* Side of a block of h that one thread sums: small matrices need more blocks than cores, large ones
 * blocks that pay for BLAS's packing. A function of n alone, so that the shapes of all products,
 * and with them the bits, are too. */
static int64_t block_side(int64_t n)
{
    return n <= 1024 ? 128 : 256;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* h block += the f32 products, upper triangle only where the block lies on the diagonal. */
static void block_add(double *h, int64_t n, const float *sum, int64_t side, int64_t rows,
                      int64_t cols, bool diagonal)
{
    for (int64_t i = 0; i < rows; i++) {
        const float *s = sum + i * side;
        double *to = h + i * n;
        for (int64_t j = diagonal ? i : 0; j < cols; j++) to[j] += (double)s[j];
    }
}

/* One block (i0, j0) of h over all token tiles, in the order of the tokens. */
static void block_sum(double *h, const float *x, int64_t n, const int64_t *offset, int64_t n_seq,
                      int64_t side, int64_t i0, int64_t j0, float *sum)
{
    int64_t rows = min64(side, n - i0), cols = min64(side, n - j0);
    for (int64_t s = 0; s < n_seq; s++) {
        for (int64_t t = offset[s]; t < offset[s + 1]; t += TOKEN_TILE) {
            blasint tokens = (blasint)min64(TOKEN_TILE, offset[s + 1] - t);
            const float *xi = x + t * n + i0, *xj = x + t * n + j0;
            if (i0 == j0)
                cblas_ssyrk(CblasRowMajor, CblasUpper, CblasTrans, (blasint)rows, tokens, 1.0f, xi,
                            (blasint)n, 0.0f, sum, (blasint)side);
            else
                cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)rows, (blasint)cols,
                            tokens, 1.0f, xi, (blasint)n, xj, (blasint)n, 0.0f, sum, (blasint)side);
            block_add(h + i0 * n + j0, n, sum, side, rows, cols, i0 == j0);
        }
    }
}

/* Block number b of the upper triangle of k x k blocks, row by row. */
static void block_place(int64_t b, int64_t k, int64_t *i, int64_t *j)
{
    int64_t row = 0;
    while (b >= k - row) {
        b -= k - row;
        row++;
    }
    *i = row;
    *j = row + b;
}

enum status gram_add(double *h, const float *x, int64_t n, const int64_t *offset, int64_t n_seq,
                     struct err *e)
{
    enum status st = OK;
    float *sums = NULL;
    int64_t side = block_side(n), k = (n + side - 1) / side;
    for (int64_t s = 0; s < n_seq; s++)
        ENSURE(offset[s] <= offset[s + 1], ERR_SHAPE,
               "sequence %lld ends (%lld) before it starts (%lld)", (long long)s,
               (long long)offset[s + 1], (long long)offset[s]);
    TRY(mem_zero(&sums, omp_get_max_threads() * side * side, sizeof *sums, "the Gram's tiles", e));

#pragma omp parallel for schedule(dynamic)
    for (int64_t b = 0; b < k * (k + 1) / 2; b++) {
        int64_t i, j;
        block_place(b, k, &i, &j);
        block_sum(h, x, n, offset, n_seq, side, i * side, j * side,
                  sums + omp_get_thread_num() * side * side);
    }
done:
    free(sums);
    return st;
}
