#include "coding/bitshift.h"
#include "math/dtype.h"
#include "util/mem.h"
#include "util/rng.h"
#include <math.h>

int64_t bitshift_values(int kind)
{
    return kind == BITSHIFT_HYB ? 2 : 1;
}

static float value_1mad(uint32_t state)
{
    const uint32_t x = state * 34038481u + 76625530u;
    const int32_t sum = (int32_t)((x & 255) + (x >> 8 & 255) + (x >> 16 & 255) + (x >> 24)) - 510;
    return (float)sum / 147.800537109375f;
}

static float value_3inst(uint32_t state)
{
    const uint32_t x = ((state * 89226354u + 64248484u) & 0x8FFF8FFFu) ^ 996162400u;
    const uint16_t half[2] = {(uint16_t)(x >> 16), (uint16_t)x};
    float number[2];
    dtype_widen(number, half, DTYPE_F16, 2);
    return dtype_round_f16(number[0] + number[1]);
}

static void value_hyb(uint32_t state, const float *table, float *out)
{
    const uint32_t x = (state + 1) * state, at = x >> (16 - 9 - 1) & (BITSHIFT_TABLE - 1);
    out[0] = x >> 15 & 1 ? -table[2 * at] : table[2 * at];
    out[1] = table[2 * at + 1];
}

/* --- the table of hyb --- */

enum { SAMPLES = 1 << 14, ROUNDS = 8 };
static const double TABLE_RMS = 0.9682458365518543; /* as the authors' */

static void clusters_improve(double *centre, const float *sample, double *sum)
{
    memset(sum, 0, 3 * BITSHIFT_TABLE * sizeof *sum);
    for (int64_t i = 0; i < SAMPLES; i++) {
        const double a = (double)sample[2 * i], b = (double)sample[2 * i + 1];
        double least = INFINITY;
        int best = 0;
        for (int k = 0; k < BITSHIFT_TABLE; k++) {
            const double x = a - centre[2 * k], y = b - centre[2 * k + 1], d = x * x + y * y;
            if (d < least) least = d, best = k;
        }
        sum[3 * best] += a;
        sum[3 * best + 1] += b;
        sum[3 * best + 2]++;
    }
    for (int k = 0; k < BITSHIFT_TABLE; k++)
        for (int d = 0; d < 2 && sum[3 * k + 2] > 0; d++)
            centre[2 * k + d] = sum[3 * k + d] / sum[3 * k + 2];
}

/* Pairs by Lloyd's algorithm for normally distributed ones, which the sign folds in half. */
enum status bitshift_table(float *table, struct err *e)
{
    AUTO_FREE double *centre = NULL;
    double squares = 0;
    AUTO_FREE float *sample = NULL;
    PASS(mem_alloc(&centre, 5 * BITSHIFT_TABLE, sizeof *centre, "a table of pairs", e));
    PASS(mem_alloc(&sample, 2 * SAMPLES, sizeof *sample, "a table of pairs", e));
    rng_normals(rng_stream(0, 0x71A), 0, 2 * SAMPLES, sample);
    for (int64_t i = 0; i < 2 * BITSHIFT_TABLE; i++) centre[i] = (double)sample[i];
    for (int round = 0; round < ROUNDS; round++)
        clusters_improve(centre, sample, centre + 2 * BITSHIFT_TABLE);
    for (int64_t i = 0; i < 2 * BITSHIFT_TABLE; i++) squares += centre[i] * centre[i];
    const double rms = sqrt(squares / (2 * BITSHIFT_TABLE));
    for (int64_t i = 0; i < 2 * BITSHIFT_TABLE; i++)
        table[i] = dtype_round_f16((float)(centre[i] / rms * TABLE_RMS));
    return OK;
}

/* --- codes --- */

static void code_fill(struct bitshift *c, int kind, const float *table)
{
    const int64_t states = (int64_t)1 << c->window;
    double squares = 0;
    for (int64_t s = 0; s < states; s++) {
        float *value = c->value + s * c->values;
        if (kind == BITSHIFT_1MAD) *value = value_1mad((uint32_t)s);
        if (kind == BITSHIFT_3INST) *value = value_3inst((uint32_t)s);
        if (kind == BITSHIFT_HYB) value_hyb((uint32_t)s, table, value);
        for (int64_t k = 0; k < c->values; k++) {
            c->planes[k * states + s] = value[k];
            squares += (double)value[k] * (double)value[k];
        }
    }
    c->rms = sqrt(squares / (double)(states * c->values));
}

enum status bitshift_make(int kind, int64_t window, int64_t bits, const float *table,
                          struct bitshift *out, struct err *e)
{
    const int64_t values = bitshift_values(kind), branch = bits * values;
    const char *what = "the values of a code";
    float own[2 * BITSHIFT_TABLE];
    *out = (struct bitshift){.window = window, .branch = branch, .values = values};
    NEED(window >= 2 * branch, ERR_USAGE,
         "a window of %lld bits is too small for %lld new bits a step; it needs %lld",
         (long long)window, (long long)branch, (long long)(2 * branch));
    out->groups = (int64_t)1 << (window - branch);
    if (kind == BITSHIFT_HYB && !table) {
        PASS(bitshift_table(own, e));
        table = own;
    }
    PASS(mem_alloc(&out->value, values << window, sizeof *out->value, what, e));
    if (mem_alloc(&out->planes, values << window, sizeof *out->planes, what, e) != OK) {
        bitshift_free(out);
        return ERR_NOMEM;
    }
    code_fill(out, kind, table);
    return OK;
}

void bitshift_free(struct bitshift *c)
{
    free(c->value);
    free(c->planes);
    *c = (struct bitshift){0};
}

/* --- packed --- */

/* Bit i of the path: those of the first state, then the new ones. */
static bool bit_of(const struct bitshift *c, const int32_t *state, int64_t i)
{
    if (i < c->window) return state[0] >> (c->window - 1 - i) & 1;
    const int64_t step = (i - c->window) / c->branch + 1, at = (i - c->window) % c->branch;
    return state[step] >> (c->branch - 1 - at) & 1;
}

void bitshift_pack(const struct bitshift *c, const int32_t *state, int64_t steps, uint8_t *packed)
{
    const int64_t n = steps * c->branch;
    memset(packed, 0, (size_t)((n + 7) / 8));
    for (int64_t i = 0; i < n; i++) packed[i / 8] |= (uint8_t)(bit_of(c, state, i) << (7 - i % 8));
}

void bitshift_unpack(const struct bitshift *c, const uint8_t *packed, int64_t steps, int32_t *state)
{
    const int64_t n = steps * c->branch;
    uint32_t s = 0;
    for (int64_t t = 0, at = 0; t < steps; t++) {
        for (const int64_t end = c->window + t * c->branch; at < end; at++)
            s = s << 1 | (packed[at % n / 8] >> (7 - at % n % 8) & 1);
        state[t] = (int32_t)(s & ((1u << c->window) - 1));
    }
}
