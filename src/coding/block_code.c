#include "coding/block_code.h"
#include "util/mem.h"
#include "util/num.h"
#include <omp.h>

const char *const block_kinds[] = {"1mad", "3inst", "hyb", "e8p", NULL};

enum { TRELLIS_COLUMNS = 16, COLUMNS_MOST = 16, SIDE = 8 /* columns mixed at a time */ };

int64_t block_columns(const struct block_form *f)
{
    return f->kind == BLOCK_E8P ? (int64_t)E8_DIM : (int64_t)TRELLIS_COLUMNS;
}

int64_t block_bytes(const struct block_form *f)
{
    return BAND_ROWS * block_columns(f) * f->bits / 8;
}

static int64_t whole(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit;
}

int64_t block_all_bytes(const struct block_form *f, int64_t rows, int64_t cols)
{
    return whole(rows, BAND_ROWS) * whole(cols, block_columns(f)) * block_bytes(f);
}

enum status block_code_open(const struct block_form *f, const float *table, struct block_code *out,
                            struct err *e)
{
    *out = (struct block_code){.form = *f};
    if (f->kind != BLOCK_E8P)
        return bitshift_make(f->kind, f->window, f->bits, table, &out->trellis, e);
    PASS(mem_alloc(&out->lattice, 1, sizeof *out->lattice, "a codebook", e));
    e8_fill(out->lattice);
    return OK;
}

void block_code_free(struct block_code *c)
{
    bitshift_free(&c->trellis);
    free(c->lattice);
    c->lattice = NULL;
}

void block_values(const struct block_code *c, const uint8_t *bytes, float *q)
{
    enum { WEIGHTS = BAND_ROWS * TRELLIS_COLUMNS };
    const int64_t values = c->trellis.values;
    int32_t state[WEIGHTS];
    if (c->lattice) {
        e8_values(c->lattice, c->form.bits, bytes, q);
        return;
    }
    bitshift_unpack(&c->trellis, bytes, WEIGHTS / values, state);
    for (int64_t k = 0; k < WEIGHTS; k++)
        q[k] = c->trellis.value[state[k / values] * values + k % values];
}

/* --- mixing --- */

int64_t block_sides_bytes(int64_t rows, int64_t cols, int64_t threads)
{
    return threads * (SIDE + 1) * max64(rows, cols) * (int64_t)sizeof(double);
}

enum status block_sides_room(struct block_sides *s, struct err *e)
{
    return mem_alloc(&s->scratch, block_sides_bytes(s->rows, s->cols, omp_get_max_threads()), 1,
                     "rows", e);
}

void block_sides_free(struct block_sides *s)
{
    mix_free(&s->in);
    mix_free(&s->out);
    free(s->scratch);
    *s = (struct block_sides){0};
}

/* Room of a thread for SIDE columns or a row, and for mix_row. */
static int64_t room(const struct block_sides *s)
{
    return (SIDE + 1) * max64(s->rows, s->cols);
}

static void mix_columns(const struct block_sides *s, float *w, bool back)
{
    const int64_t rows = s->rows, n = s->cols, longest = max64(rows, n);
    if (s->out.part == 0) return;
#pragma omp parallel for schedule(static)
    for (int64_t a = 0; a < n; a += SIDE) {
        const int64_t side = min64(SIDE, n - a);
        double *x = s->scratch + omp_get_thread_num() * room(s), *more = x + SIDE * longest;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < side; j++) x[j * longest + i] = (double)w[i * n + a + j];
        for (int64_t j = 0; j < side; j++) mix_row(&s->out, x + j * longest, back, more);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < side; j++) w[i * n + a + j] = (float)x[j * longest + i];
    }
}

void block_sides_mix(const struct block_sides *s, float *to, const float *from, double by)
{
    (void)mix_rows(&s->in, to, from, 0, s->rows, by, false, s->scratch, room(s));
    mix_columns(s, to, false);
}

void block_weights(const struct block_code *c, const struct block_sides *s, const uint8_t *codes,
                   float *w)
{
    const int64_t b = block_columns(&c->form), size = block_bytes(&c->form);
    const int64_t blocks = whole(s->cols, b), n = whole(s->rows, BAND_ROWS) * blocks;
#pragma omp parallel for schedule(static)
    for (int64_t k = 0; k < n; k++) {
        const int64_t row = k / blocks * BAND_ROWS, col = k % blocks * b;
        const int64_t high = min64(BAND_ROWS, s->rows - row), wide = min64(b, s->cols - col);
        float q[BAND_ROWS * COLUMNS_MOST];
        block_values(c, codes + k * size, q);
        for (int64_t i = 0; i < high; i++)
            memcpy(w + (row + i) * s->cols + col, q + i * b, (size_t)wide * sizeof *w);
    }
    mix_columns(s, w, true);
    (void)mix_rows(&s->in, w, w, 0, s->rows, 1, true, s->scratch, room(s));
}

/* --- signs --- */

int64_t block_sign_bytes(int64_t rows, int64_t cols)
{
    return whole(rows + cols, 8);
}

void block_signs(const struct block_sides *s, uint8_t *bytes)
{
    memset(bytes, 0, (size_t)block_sign_bytes(s->rows, s->cols));
    for (int64_t k = 0; k < s->rows + s->cols; k++) {
        const struct mix *m = k < s->cols ? &s->in : &s->out;
        const bool minus = m->part > 0 && m->sign[k < s->cols ? k : k - s->cols] < 0;
        bytes[k / 8] |= (uint8_t)(minus << (7 - k % 8));
    }
}

enum status block_sides_of(struct block_sides *s, int64_t rows, int64_t cols, const uint8_t *signs,
                           struct err *e)
{
    *s = (struct block_sides){.rows = rows, .cols = cols};
    s->in.n = cols;
    s->out.n = rows;
    if (signs && cols > 1) PASS(mix_make(&s->in, cols, MIX_NO_SIGNS, 0, 0, e));
    if (signs && rows > 1) PASS(mix_make(&s->out, rows, MIX_NO_SIGNS, 0, 0, e));
    s->in.signs = s->out.signs = MIX_BEFORE;
    for (int64_t k = 0; signs && k < rows + cols; k++) {
        const struct mix *m = k < cols ? &s->in : &s->out;
        if (m->part > 0 && signs[k / 8] >> (7 - k % 8) & 1) m->sign[k < cols ? k : k - cols] *= -1;
    }
    return block_sides_room(s, e);
}
