#include "math/products.h"
#include "math/bf16.h"
#include "math/dtype.h"
#include "math/isa.h"
#include "math/matmul.h"
#include "math/onednn.h"
#include "math/row.h"
#include "math/sums.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/num.h"
#include <stdio.h>
#include <unistd.h>

const char *const products_words[] = {"f32", "bf16x3", "bf16x2", "bf16", "auto", NULL};

enum products products_of_word(const char *word)
{
    for (int i = 0; word && products_words[i]; i++)
        if (strcmp(products_words[i], word) == 0) return (enum products)i;
    return PRODUCTS_F32;
}

int products_terms(enum products kind)
{
    static const int terms[] = {[PRODUCTS_BF16X3] = 3, [PRODUCTS_BF16X2] = 2, [PRODUCTS_BF16] = 1};
    return kind == PRODUCTS_F32 || kind == PRODUCTS_AUTO ? 0 : terms[kind];
}

int products_pairs(enum products kind)
{
    const int terms = products_terms(kind);
    return terms == 0 ? 1 : terms * (terms + 1) / 2;
}

enum products products_resolve(enum products kind)
{
    if (kind != PRODUCTS_AUTO) return kind;
    return onednn_found()->units == ONEDNN_AMX ? PRODUCTS_BF16X3 : PRODUCTS_F32;
}

enum products products_of_sums(enum products kind)
{
    return kind == PRODUCTS_BF16 || onednn_found()->units == ONEDNN_AMX ? kind : PRODUCTS_F32;
}

bool products_native(void)
{
    return onednn_found()->units != ONEDNN_NONE;
}

enum products products_of_calibration(enum products kind)
{
    return kind == PRODUCTS_BF16X2 ? PRODUCTS_BF16X3 : kind;
}

bool products_prepare(enum products kind)
{
    return kind != PRODUCTS_F32 || onednn_found()->f32;
}

const char *products_unit(enum products kind)
{
    static const char *const own[] = {
        [ISA_PLAIN] = "qtraj plain", [ISA_AVX2] = "qtraj avx2", [ISA_AVX512] = "qtraj avx512"};
    if (kind == PRODUCTS_F32)
        return onednn_found()->f32 ? onednn_found()->f32_name : own[isa_active()];
    return products_native() ? onednn_found()->name : "terms in f32";
}

const char *products_why_not(void)
{
    const char *why_not = onednn_found()->why_not;
    return why_not ? why_not : "";
}

/* Whether the CPU has instructions for bf16. */
static bool cpu_has_bf16(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}

const char *products_remedy(void)
{
    return products_native() || !cpu_has_bf16() ? NULL : onednn_found()->remedy;
}

void products_warn(enum products kind)
{
    static const char *const time[] = {[PRODUCTS_BF16X3] = "up to six times as long",
                                       [PRODUCTS_BF16X2] = "up to three times as long",
                                       [PRODUCTS_BF16] = "as long"};
    if (products_terms(kind) == 0 || products_native()) return;
    log_warn("products in %s are multiplied in f32 here, to the same accuracy, and take %s as "
             "those of f32: %s",
             products_words[kind], time[kind], products_why_not());
}

/* The terms of the pieces lie in storage one after the other, for oneDNN in its layout, else as f32
 * numbers (rows, cols). Products in f32 have one term, the weights themselves. */
struct product_weights {
    enum products kind;
    int input_terms, terms; /* of an activation, of a weight */
    int64_t rows, cols, piece, pieces;
    struct onednn_layout *whole, *last; /* of a piece, and of the last one if it is shorter */
    struct integer_grids grids;         /* of weights on them */
    struct integer_layout *codes[2];    /* of a piece and the last one; NULL: they are not */
    int64_t pitch;                      /* bytes from one piece to the next */
    char *storage;                      // (terms, pieces, pitch)
    bool borrowed;                      /* it is the caller's */
};

static int64_t piece_rows(const struct product_weights *w, int64_t piece)
{
    return min64(w->rows - piece * w->piece, w->piece);
}

static const struct onednn_layout *layout_of(const struct product_weights *w, int64_t piece)
{
    return w->last && piece == w->pieces - 1 ? w->last : w->whole;
}

static const struct integer_layout *codes_of(const struct product_weights *w, int64_t piece)
{
    return w->codes[w->codes[1] && piece == w->pieces - 1];
}

static char *term_of(const struct product_weights *w, int term, int64_t piece)
{
    return w->storage + (term * w->pieces + piece) * w->pitch;
}

static enum status describe_codes(struct product_weights *p, struct err *e)
{
    const int64_t last = piece_rows(p, p->pieces - 1), group = p->grids.group;
    PASS(integer_layout_make(p->piece, p->cols, group, &p->codes[0], e));
    if (last < p->piece) PASS(integer_layout_make(last, p->cols, group, &p->codes[1], e));
    p->pitch = integer_layout_bytes(p->codes[0]);
    if (p->codes[1]) p->pitch = max64(p->pitch, integer_layout_bytes(p->codes[1]));
    return OK;
}

/* Finds the layouts of the pieces and their size. */
static enum status describe(struct product_weights *p, struct err *e)
{
    enum { LINE = 64 };
    const int64_t last = piece_rows(p, p->pieces - 1);
    const enum onednn_type type = p->kind == PRODUCTS_F32 ? ONEDNN_F32 : ONEDNN_BF16;
    int64_t bytes = p->piece * p->cols * (int64_t)sizeof(float);
    if (p->kind == PRODUCTS_F32 || products_native()) {
        PASS(onednn_layout_make(type, min64(p->piece, p->rows), p->cols, &p->whole, e));
        if (p->pieces > 1 && last < p->piece)
            PASS(onednn_layout_make(type, last, p->cols, &p->last, e));
        bytes = onednn_layout_bytes(p->whole);
        if (p->last) bytes = max64(bytes, onednn_layout_bytes(p->last));
    }
    p->pitch = (bytes + LINE - 1) / LINE * LINE;
    return OK;
}

/* grids: NULL unless they are integers. */
static enum status weights_make(enum products kind, const struct integer_grids *grids, int64_t rows,
                                int64_t cols, int64_t piece, struct product_weights **out,
                                struct err *e)
{
    CLEANUP(product_weights_free_at) struct product_weights *p = NULL;
    PASS(mem_zero(&p, 1, sizeof *p, "prepared weights", e));
    p->kind = kind;
    p->input_terms = products_terms(kind);
    p->rows = rows;
    p->cols = cols;
    p->piece = min64(piece, rows);
    p->pieces = (rows + piece - 1) / piece;
    p->borrowed = true;
    if (grids) p->grids = *grids;
    PASS(grids ? describe_codes(p, e) : describe(p, e));
    *out = TAKE(p);
    return OK;
}

enum status product_weights_describe(enum products kind, int64_t rows, int64_t cols, int64_t piece,
                                     struct product_weights **out, struct err *e)
{
    return weights_make(kind, NULL, rows, cols, piece, out, e);
}

enum status product_weights_integers(const struct integer_grids *g, int64_t rows, int64_t cols,
                                     int64_t piece, struct product_weights **out, struct err *e)
{
    return weights_make(PRODUCTS_F32, g, rows, cols, piece, out, e);
}

int product_weights_terms_of(const struct product_weights *p, const float *w,
                             struct product_part part)
{
    int most = 1;
    if (p->input_terms <= 1) return most;
#pragma omp parallel for schedule(dynamic, 1) reduction(max : most)
    for (int64_t i = part.part; i < p->pieces; i += part.parts) {
        const int own = bf16_terms(w + i * p->piece * p->cols, piece_rows(p, i) * p->cols);
        if (own > most) most = own;
    }
    return most < p->input_terms ? most : p->input_terms;
}

int64_t product_weights_size(const struct product_weights *p, int terms)
{
    return terms * p->pieces * p->pitch;
}

uint64_t product_weights_digest(const struct product_weights *p)
{
    uint64_t digest = (uint64_t)p->pitch;
    if (p->whole) digest ^= onednn_layout_digest(p->whole);
    if (p->last) digest ^= 3 * onednn_layout_digest(p->last);
    for (int i = 0; i < 2; i++)
        if (p->codes[i]) digest ^= (uint64_t)(7 + i) * integer_layout_digest(p->codes[i]);
    return digest;
}

static enum status fill_piece(const struct product_weights *p, int64_t i, const float *w,
                              struct err *e)
{
    const int64_t size = piece_rows(p, i) * p->cols;
    AUTO_FREE uint16_t *terms = NULL;
    if (p->codes[0])
        return integer_layout_fill(codes_of(p, i), &p->grids, i * p->piece,
                                   w + i * p->piece * p->cols, term_of(p, 0, i), e);
    if (p->kind == PRODUCTS_F32)
        return onednn_pack(layout_of(p, i), w + i * p->piece * p->cols, term_of(p, 0, i), e);
    PASS(mem_alloc(&terms, p->terms * size, sizeof *terms, "terms of weights", e));
    bf16_split(terms, size, p->terms, w + i * p->piece * p->cols, size);
    for (int k = 0; k < p->terms; k++)
        if (p->whole)
            PASS(onednn_pack(layout_of(p, i), terms + k * size, term_of(p, k, i), e));
        else
            dtype_widen((float *)term_of(p, k, i), terms + k * size, DTYPE_BF16, size);
    return OK;
}

enum status product_weights_fill(struct product_weights *p, const float *w, int terms,
                                 void *storage, struct product_part part, struct err *e)
{
    enum status st = OK;
    p->terms = terms;
    p->storage = storage;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = part.part; i < p->pieces; i += part.parts) {
        struct err own = {0};
        const enum status made = fill_piece(p, i, w, &own);
        if (made == OK) continue;
#pragma omp critical(product_weights)
        if (st == OK) st = err_set(e, made, __FILE__, __LINE__, "%s", own.text);
    }
    return st;
}

enum status product_weights_fill_own(struct product_weights *p, const float *w, int terms,
                                     struct err *e)
{
    char *storage;
    PASS(mem_alloc(&storage, product_weights_size(p, terms), 1, "prepared weights", e));
    p->borrowed = false;
    return product_weights_fill(p, w, terms, storage, (struct product_part){0, 1}, e);
}

enum status product_weights_make(enum products kind, const float *w, int64_t rows, int64_t cols,
                                 int64_t piece, struct product_weights **out, struct err *e)
{
    CLEANUP(product_weights_free_at) struct product_weights *p = NULL;
    PASS(product_weights_describe(kind, rows, cols, piece, &p, e));
    const int terms = product_weights_terms_of(p, w, (struct product_part){0, 1});
    PASS(product_weights_fill_own(p, w, terms, e));
    *out = TAKE(p);
    return OK;
}

void product_weights_free(struct product_weights *w)
{
    if (!w) return;
    free(w->whole);
    free(w->last);
    for (int i = 0; i < 2; i++) integer_layout_free(w->codes[i]);
    if (!w->borrowed) free(w->storage);
    free(w);
}

int product_weights_terms(const struct product_weights *w)
{
    return w->terms;
}

int64_t product_weights_bytes(enum products kind, int64_t weights)
{
    if (kind == PRODUCTS_F32) return onednn_found()->f32 ? weights * (int64_t)sizeof(float) : 0;
    const int64_t size = products_native() ? sizeof(uint16_t) : sizeof(float);
    return products_terms(kind) * size * weights;
}

/* Ends the process, with the code of `qtraj` for a lack of memory and without a core file: the
 * caller is inside a parallel region and has no other number to give. */
static void give_up(void)
{
    enum { NO_MEMORY = 4 };
    static const char text[] = "qtraj: out of memory in a matrix product, or oneDNN failed in it\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(NO_MEMORY);
    _exit(NO_MEMORY);
}

/* A buffer of n floats of this thread, which keeps it: tiles are of one size. */
enum buffer { RESULT, WIDENED, BUFFERS };
static float *thread_buffer(enum buffer which, int64_t n)
{
    static _Thread_local struct mem_kept buffer[BUFFERS];
    float *at = mem_keep(&buffer[which], n * (int64_t)sizeof *at);
    if (!at) give_up();
    return at;
}

void product_plain(float *y, int64_t ldy, const float *x, const float *w, int64_t m, int64_t n,
                   int64_t k)
{
    if (mat_large(m, n, k) && onednn_found()->f32 &&
        onednn_product(y, ldy, x, w, true, m, n, k, false))
        return;
    if (!sums_nt(y, ldy, x, w, m, n, k)) give_up();
}

/* y = or += a term of the activations times a term of a piece of the weights. */
static void multiply(float *y, int64_t ldy, const uint16_t *a, const struct product_weights *w,
                     int term, int64_t piece, int64_t m, bool add)
{
    const char *b = term_of(w, term, piece);
    const int64_t rows = piece_rows(w, piece);
    if (w->whole) {
        if (!onednn_multiply(y, a, layout_of(w, piece), b, m, add)) give_up();
        return;
    }
    float *wide = thread_buffer(WIDENED, m * w->cols), *sums = y;
    if (add) sums = thread_buffer(RESULT, m * rows);
    dtype_widen(wide, a, DTYPE_BF16, m * w->cols);
    product_plain(sums, add ? rows : ldy, wide, (const float *)b, m, rows, w->cols);
    for (int64_t t = 0; t < m && add; t++) row_add(y + t * ldy, y + t * ldy, sums + t * rows, rows);
}

/* Pairs of terms whose product is no smaller than what is left out anyway, the smallest first, so
 * that the last bits of small products are not lost against the large one. */
static void add_terms(enum products kind, float *y, int64_t ldy, const uint16_t *terms,
                      int64_t stride, const struct product_weights *w, int64_t piece, int64_t m)
{
    bool add = false;
    for (int order = products_terms(kind) - 1; order >= 0; order--)
        for (int k = 0; k <= order && k < w->terms; k++) {
            multiply(y, ldy, terms + (order - k) * stride, w, k, piece, m, add);
            add = true;
        }
}

/* y (m, rows) of row pitch ldy = dense (m, rows), which may be y itself without gaps, plus the
 * bias. */
static void put(float *y, int64_t ldy, const float *dense, const float *bias, int64_t m,
                int64_t rows)
{
    if (y == dense && !bias) return;
    for (int64_t t = 0; t < m; t++, y += ldy, dense += rows)
        if (bias)
            row_add(y, dense, bias, rows);
        else
            memcpy(y, dense, (size_t)rows * sizeof *y);
}

void product_nt(enum products kind, float *y, int64_t ldy, const uint16_t *terms, int64_t stride,
                const struct product_weights *w, int64_t piece, int64_t m)
{
    const int64_t rows = piece_rows(w, piece);
    if (ldy == rows || !products_native()) {
        add_terms(kind, y, ldy, terms, stride, w, piece, m);
        return;
    }
    float *dense = thread_buffer(RESULT, m * rows);
    add_terms(kind, dense, rows, terms, stride, w, piece, m);
    put(y, ldy, dense, NULL, m, rows);
}

void product_nt_f32(float *y, int64_t ldy, const float *x, const struct product_weights *w,
                    int64_t piece, int64_t m, const float *bias)
{
    const int64_t rows = piece_rows(w, piece);
    float *dense = ldy == rows ? y : thread_buffer(RESULT, m * rows);
    if (!onednn_multiply(dense, x, layout_of(w, piece), term_of(w, 0, piece), m, false)) give_up();
    put(y, ldy, dense, bias, m, rows);
}

void product_integers(float *y, int64_t ldy, const struct integer_inputs *x,
                      const struct product_weights *w, int64_t piece, int64_t m)
{
    if (!integer_product(y, ldy, x, codes_of(w, piece), term_of(w, 0, piece), m)) give_up();
}
