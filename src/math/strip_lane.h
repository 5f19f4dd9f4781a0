/* strip_lane: the loops of strip.c for one instruction set. Defined before each inclusion:
 * SET(name), a name of the set's own; TARGET; VECTOR of LANES numbers; ROWS and WIDE, rows and
 * vectors of a block of y that stays in registers; ZERO(), LOAD(p), STORE(p, x), SPREAD(p), ADD(x,
 * y) and MULTIPLY_ADD(x, y, sum). */

/* y (rows, wide vectors) = or += k columns of rows of a times as many rows of b. */
TARGET static inline __attribute__((always_inline)) void
SET(block)(float *y, const float *a, const float *b, const struct strip_factor *f, int64_t k,
           bool add, const int rows, const int wide)
{
    const int64_t ldy = f->ldy, ldb = f->ldb, a_row = f->a_row, a_col = f->a_col;
    VECTOR sum[ROWS][WIDE];
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < wide; j++) sum[i][j] = ZERO();
    for (int64_t l = 0; l < k; l++, a += a_col, b += ldb) {
        VECTOR x[WIDE];
        UNROLL for (int j = 0; j < wide; j++) x[j] = LOAD(b + j * LANES);
        UNROLL for (int i = 0; i < rows; i++)
        {
            const VECTOR factor = SPREAD(a + i * a_row);
            UNROLL for (int j = 0; j < wide; j++) sum[i][j] = MULTIPLY_ADD(factor, x[j], sum[i][j]);
        }
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < wide; j++)
    {
        float *to = y + i * ldy + j * LANES;
        if (add) sum[i][j] = ADD(LOAD(to), sum[i][j]);
        STORE(to, sum[i][j]);
    }
}

/* The same for all columns of a strip, as many at a time as the registers hold. */
TARGET static inline __attribute__((always_inline)) void
SET(block_rows)(float *y, const float *a, const float *b, const struct strip_factor *f, int64_t k,
                bool add, const int rows)
{
    int64_t c = 0;
    for (; c + WIDE * LANES <= f->cols; c += WIDE * LANES)
        SET(block)(y + c, a, b + c, f, k, add, rows, WIDE);
    for (; c < f->cols; c += STRIP_GRAIN)
        SET(block)(y + c, a, b + c, f, k, add, rows, STRIP_GRAIN / LANES);
}

/* Columns [from, to) of a, for all rows of the strip. */
TARGET static void SET(part)(const struct strip *s, const struct strip_factor *f, int64_t from,
                             int64_t to)
{
    const float *a = f->a + from * f->a_col, *b = s->b + from * f->ldb;
    const bool add = f->add || from > 0;
    for (int64_t i = 0, n; i < s->rows; i += n, a += n * f->a_row) {
        const int64_t left = s->rows - i;
        float *y = s->y + i * f->ldy;
        n = left >= ROWS ? ROWS : left >= 2 ? 2 : 1;
        const int64_t k = max64((f->lower ? min64(to, i + n + f->shift) : to) - from, 0);
        if (k == 0 && add) continue;
        if (n == ROWS)
            SET(block_rows)(y, a, b, f, k, add, ROWS);
        else if (n == 2)
            SET(block_rows)(y, a, b, f, k, add, 2);
        else
            SET(block_rows)(y, a, b, f, k, add, 1);
    }
}

#undef SET
#undef TARGET
#undef VECTOR
#undef LANES
#undef ROWS
#undef WIDE
#undef ZERO
#undef LOAD
#undef STORE
#undef SPREAD
#undef ADD
#undef MULTIPLY_ADD
