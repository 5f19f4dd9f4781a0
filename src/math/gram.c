/* Gram matrices of layer inputs: products over tiles of tokens in f32 or in bf16 terms, added in
 * f64. */
#include "math/bf16.h"
#include "math/linalg.h"
#include "util/mem.h"
#include "util/num.h"
#include <cblas.h>
#include <math.h>
#include <omp.h>

/* Side of the blocks of h that one thread sums at a time: small matrices need more blocks than
 * there are cores, large ones need blocks large enough to pay for BLAS's packing. It depends on n
 * alone, so that the shapes of all products, and with them the bits, do too. */
static int64_t block_side(int64_t n)
{
    return n <= 1024 ? 128 : n <= 4096 ? 256 : 512;
}

/* Tiles of tokens that are split into bf16 terms at a time. */
enum { TILES = 4 };

int64_t gram_bytes(int64_t n, int64_t threads, enum products kind)
{
    const int64_t side = block_side(n), tile = n * TOKEN_TILE;
    const int64_t sums = threads * side * side * (int64_t)sizeof(float);
    if (kind == PRODUCTS_F32) return sums;
    const int64_t terms = products_terms(kind) * tile * (int64_t)sizeof(uint16_t);
    return sums + tile * (int64_t)sizeof(float) +
           TILES * (terms + product_weights_bytes(kind, tile));
}

struct tokens {
    const float *x, *y; // (T, n) y: the rows' factor, NULL: x
    int64_t n;
    const int64_t *offset;
    int64_t n_seq;
    const double *bound; // (n) or NULL
    int64_t side;        /* of a block */
};

/* Adds the f32 sums (pitch ld) of the block at row i0, column j0 to h (pitch), the block's first
 * element; of a triangle only the upper half. With bounds every sum is rounded to a multiple of
 * 2^-50 bi bj first, by adding and subtracting 6 bi bj, next to which f64 has no smaller digits.
 * All sums below 8 bi bj are then exact, whatever their order. */
static void block_add(double *h, int64_t pitch, const struct tokens *x, int64_t i0, int64_t j0,
                      const float *sum, int64_t ld, bool triangle)
{
    const int64_t rows = min64(x->side, x->n - i0), cols = min64(x->side, x->n - j0);
    for (int64_t i = 0; i < rows; i++, h += pitch, sum += ld) {
        const int64_t first = triangle ? i : 0;
        const double anchor = x->bound ? 6 * x->bound[i0 + i] : 0;
        if (!x->bound)
            for (int64_t j = first; j < cols; j++) h[j] += (double)sum[j];
        for (int64_t j = first; x->bound && j < cols; j++) {
            const double c = anchor * x->bound[j0 + j];
            h[j] += ((double)sum[j] + c) - c;
        }
    }
}

/* Sums the block at row i0, column j0 over all tiles, in the order of the tokens. h: the block's
 * first element, with that row pitch; sum: scratch of one thread. */
static void block_sum(double *h, int64_t pitch, const struct tokens *x, int64_t i0, int64_t j0,
                      float *sum)
{
    const int64_t n = x->n, side = x->side;
    const blasint rows = (blasint)min64(side, n - i0), cols = (blasint)min64(side, n - j0);
    const bool triangle = !x->y && i0 == j0;
    for (int64_t s = 0; s < x->n_seq; s++)
        for (int64_t t = x->offset[s]; t < x->offset[s + 1]; t += TOKEN_TILE) {
            const blasint tokens = (blasint)min64(TOKEN_TILE, x->offset[s + 1] - t);
            const float *a = (x->y ? x->y : x->x) + t * n + i0, *b = x->x + t * n + j0;
            if (triangle)
                cblas_ssyrk(CblasRowMajor, CblasUpper, CblasTrans, rows, tokens, 1.0f, a,
                            (blasint)n, 0.0f, sum, (blasint)side);
            else
                cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, rows, cols, tokens, 1.0f, a,
                            (blasint)n, b, (blasint)n, 0.0f, sum, (blasint)side);
            block_add(h, pitch, x, i0, j0, sum, side, triangle);
        }
}

/* Blocks of a Gram matrix (the upper triangle of k x k) or, with y, of a whole matrix. */
static int64_t block_count(const struct tokens *x)
{
    const int64_t k = (x->n + x->side - 1) / x->side;
    return x->y ? k * k : k * (k + 1) / 2;
}

/* First row and column of block number b, counting row by row. */
static void block_place(const struct tokens *x, int64_t b, int64_t *i, int64_t *j)
{
    const int64_t k = (x->n + x->side - 1) / x->side;
    int64_t row = 0, first = 0;
    for (; b >= k - first; first = x->y ? 0 : row) {
        b -= k - first;
        row++;
    }
    *i = row * x->side;
    *j = (first + b) * x->side;
}

/* Checks the offsets and allocates a block of f32 sums for each thread. */
static enum status sums_make(const struct tokens *x, float **sums, struct err *e)
{
    for (int64_t s = 0; s < x->n_seq; s++)
        NEED(x->offset[s] <= x->offset[s + 1], ERR_SHAPE,
             "sequence %lld ends (%lld) before it starts (%lld)", (long long)s,
             (long long)x->offset[s + 1], (long long)x->offset[s]);
    return mem_zero(sums, omp_get_max_threads() * x->side * x->side, sizeof **sums,
                    "the Gram's tiles", e);
}

/* Adds all tiles' sums in f32. sums: a block for each thread. */
static void add_plain(double *h, const struct tokens *x, float *sums)
{
#pragma omp parallel for schedule(dynamic)
    for (int64_t b = 0; b < block_count(x); b++) {
        int64_t i, j;
        block_place(x, b, &i, &j);
        block_sum(h + i * x->n + j, x->n, x, i, j, sums + omp_get_thread_num() * x->side * x->side);
    }
}

/* --- in bf16 terms --- */

/* A tile of tokens, transposed: as rows and as columns of the Gram matrix. */
struct turned {
    int64_t tokens;
    uint16_t *terms;                 // (terms, n, tokens)
    struct product_weights *columns; // (n, tokens) in pieces of `side` rows
};
struct group {
    enum products kind;
    float *plain; // (n, TOKEN_TILE) a tile before it is split
    struct turned tile[TILES];
    int n;
};

static enum status group_init(struct group *g, int64_t n, enum products kind, struct err *e)
{
    const int64_t size = products_terms(kind) * n * TOKEN_TILE;
    *g = (struct group){.kind = kind};
    PASS(mem_alloc(&g->plain, n * TOKEN_TILE, sizeof *g->plain, "a tile of inputs", e));
    for (int i = 0; i < TILES; i++)
        PASS(mem_alloc(&g->tile[i].terms, size, sizeof(uint16_t), "terms of inputs", e));
    return OK;
}

static void group_clear(struct group *g)
{
    for (int i = 0; i < TILES; i++) {
        product_weights_free(g->tile[i].columns);
        g->tile[i].columns = NULL;
    }
    g->n = 0;
}

static void group_free(struct group *g)
{
    group_clear(g);
    free(g->plain);
    for (int i = 0; i < TILES; i++) free(g->tile[i].terms);
}

/* Adds a tile to the group. x (tokens, n): its first token. */
static enum status group_turn(struct group *g, const struct tokens *all, const float *x,
                              int64_t tokens, struct err *e)
{
    enum { STRIP = 16 }; /* channels: a cache line of a token */
    const int64_t n = all->n;
    struct turned *to = &g->tile[g->n++];
    to->tokens = tokens;
#pragma omp parallel for schedule(static)
    for (int64_t a = 0; a < n; a += STRIP) {
        const int64_t width = min64(STRIP, n - a);
        float *strip = g->plain + a * tokens;
        for (int64_t t = 0; t < tokens; t++)
            for (int64_t j = 0; j < width; j++) strip[j * tokens + t] = x[t * n + a + j];
        bf16_split(to->terms + a * tokens, n * tokens, products_terms(g->kind), strip,
                   width * tokens);
    }
    return product_weights_make(g->kind, g->plain, n, tokens, all->side, &to->columns, e);
}

/* Adds the sums of the group's tiles, and empties it. */
static void group_flush(double *h, struct group *g, const struct tokens *x, float *sums)
{
    const int64_t n = x->n, side = x->side;
#pragma omp parallel for schedule(dynamic)
    for (int64_t b = 0; b < block_count(x); b++) {
        float *sum = sums + omp_get_thread_num() * side * side;
        int64_t i, j;
        block_place(x, b, &i, &j);
        const int64_t rows = min64(side, n - i), cols = min64(side, n - j);
        for (int k = 0; k < g->n; k++) {
            const struct turned *t = &g->tile[k];
            product_nt(g->kind, sum, cols, t->terms + i * t->tokens, n * t->tokens, t->columns,
                       j / side, rows);
            block_add(h + i * n + j, n, x, i, j, sum, cols, i == j);
        }
    }
    group_clear(g);
}

static enum status add_terms(double *h, const struct tokens *x, enum products kind, float *sums,
                             struct err *e)
{
    CLEANUP(group_free) struct group g = {0};
    PASS(group_init(&g, x->n, kind, e));
    for (int64_t s = 0; s < x->n_seq; s++)
        for (int64_t t = x->offset[s]; t < x->offset[s + 1]; t += TOKEN_TILE) {
            if (g.n == TILES) group_flush(h, &g, x, sums);
            PASS(group_turn(&g, x, x->x + t * x->n, min64(TOKEN_TILE, x->offset[s + 1] - t), e));
        }
    group_flush(h, &g, x, sums);
    return OK;
}

enum status gram_add(double *h, const float *x, int64_t n, const int64_t *offset, int64_t n_seq,
                     const double *bound, enum products kind, struct err *e)
{
    AUTO_FREE float *sums = NULL;
    const struct tokens tokens = {x, NULL, n, offset, n_seq, bound, block_side(n)};
    PASS(sums_make(&tokens, &sums, e));
    if (kind == PRODUCTS_F32)
        add_plain(h, &tokens, sums);
    else
        PASS(add_terms(h, &tokens, kind, sums, e));
    return OK;
}

enum status gram_cross_add(double *d, const float *y, const float *x, int64_t n,
                           const int64_t *offset, int64_t n_seq, const double *bound, struct err *e)
{
    AUTO_FREE float *sums = NULL;
    const struct tokens tokens = {x, y, n, offset, n_seq, bound, block_side(n)};
    const enum status st = sums_make(&tokens, &sums, e);
    if (st == OK) add_plain(d, &tokens, sums);
    return st;
}

int64_t gram_panel_rows(int64_t n)
{
    return block_side(n);
}

enum status gram_panel(double *panel, int64_t row, const float *x, int64_t n, const int64_t *offset,
                       int64_t n_seq, const double *bound, struct err *e)
{
    AUTO_FREE float *sums = NULL;
    int64_t side = block_side(n), cols = n - row;
    const struct tokens tokens = {x, NULL, n, offset, n_seq, bound, side};
    PASS(sums_make(&tokens, &sums, e));
#pragma omp parallel for schedule(dynamic)
    for (int64_t j = 0; j < cols; j += side) {
        for (int64_t i = 0; i < min64(side, cols); i++)
            memset(panel + i * cols + j, 0, (size_t)min64(side, cols - j) * sizeof *panel);
        block_sum(panel + j, cols, &tokens, row, row + j,
                  sums + omp_get_thread_num() * side * side);
    }
    return OK;
}

void gram_bound_raise(float *maximum, const float *x, int64_t n, int64_t tokens)
{
    enum { STRIP = 512 };
#pragma omp parallel for schedule(static)
    for (int64_t a = 0; a < n; a += STRIP) {
        int64_t end = min64(a + STRIP, n);
        for (int64_t t = 0; t < tokens; t++)
            for (int64_t i = a; i < end; i++) {
                float size = fabsf(x[t * n + i]);
                maximum[i] = size <= maximum[i] ? maximum[i] : size; /* a NaN stays */
            }
    }
}

void gram_bound_make(double *bound, const float *maximum, int64_t n, int64_t tokens)
{
    double root = sqrt((double)(tokens > 0 ? tokens : 1));
    for (int64_t i = 0; i < n; i++) {
        int exponent;
        bound[i] = root * (double)maximum[i];
        if (!isfinite(bound[i]) || bound[i] == 0) continue;
        frexp(bound[i], &exponent);
        bound[i] = ldexp(1, exponent);
    }
}
