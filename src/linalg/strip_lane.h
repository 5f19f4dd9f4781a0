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

/* Columns [from, to) of a, for all rows of the strip and `wide` vectors of its columns from c on.
 */
TARGET static inline __attribute__((always_inline)) void SET(columns)(const struct strip *s,
                                                                      const struct strip_factor *f,
                                                                      int64_t from, int64_t to,
                                                                      int64_t c, const int wide)
{
    const float *a = f->a + from * f->a_col, *b = s->b + from * f->ldb + c;
    const bool add = f->add || from > 0;
    for (int64_t i = 0, n; i < s->rows; i += n, a += n * f->a_row) {
        const int64_t left = s->rows - i;
        float *y = s->y + i * f->ldy + c;
        n = left >= ROWS ? ROWS : left >= 2 ? 2 : 1;
        const int64_t k = max64((f->lower ? min64(to, i + n) : to) - from, 0);
        if (k == 0 && add) continue;
        if (n == ROWS)
            SET(block)(y, a, b, f, k, add, ROWS, wide);
        else if (n == 2)
            SET(block)(y, a, b, f, k, add, 2, wide);
        else
            SET(block)(y, a, b, f, k, add, 1, wide);
    }
}

TARGET static void SET(part)(const struct strip *s, const struct strip_factor *f, int64_t from,
                             int64_t to)
{
    int64_t c = 0;
    for (; c + WIDE * LANES <= f->cols; c += WIDE * LANES) SET(columns)(s, f, from, to, c, WIDE);
    for (; c < f->cols; c += STRIP_GRAIN) SET(columns)(s, f, from, to, c, STRIP_GRAIN / LANES);
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
