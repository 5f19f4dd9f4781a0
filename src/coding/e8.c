#include "coding/e8.h"
#include "math/kernel.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Which of eight magnitudes are 3/2, the others 1/2, of the 29 with norm 12. */
static const uint8_t norm_12[] = {0xF1, 0xF2, 0xF4, 0xF8, 0x37, 0x57, 0x67, 0x97, 0xA7, 0xC7,
                                  0x3B, 0x5B, 0x6B, 0x9B, 0xAB, 0xCB, 0x3D, 0x5D, 0x6D, 0x9D,
                                  0xAD, 0xCE, 0x3E, 0x5E, 0x6E, 0x9E, 0xAE, 0xEC, 0x73};

static void size_add(struct e8 *t, int *n, const float *size)
{
    float sum = 0, norm = 0;
    for (int i = 0; i < E8_DIM; i++) {
        t->size[*n][i] = size[i];
        sum += size[i];
        norm += size[i] * size[i];
    }
    t->size_norm[*n] = norm;
    t->odd[*n] = (int32_t)sum % 2;
    (*n)++;
}

static void sizes_fill(struct e8 *t)
{
    enum { HALVES = 3, ALL = 6561 /* 3^8 */, NORM_MOST = 10 };
    int n = 0;
    for (int code = 0; code < ALL; code++) {
        float size[E8_DIM], norm = 0;
        for (int i = 0, rest = code; i < E8_DIM; i++, rest /= HALVES) {
            size[i] = (float)(rest % HALVES) + 0.5f;
            norm += size[i] * size[i];
        }
        if (norm <= NORM_MOST) size_add(t, &n, size);
    }
    for (size_t k = 0; k < sizeof norm_12; k++) {
        float size[E8_DIM];
        for (int i = 0; i < E8_DIM; i++) size[i] = norm_12[k] >> i & 1 ? 1.5f : 0.5f;
        size_add(t, &n, size);
    }
}

static void small_add(struct e8 *t, int *n, const float *x)
{
    float norm = 0;
    for (int i = 0; i < E8_DIM; i++) norm += x[i] * x[i];
    memcpy(t->small[*n], x, sizeof t->small[*n]);
    t->small_norm[(*n)++] = norm;
}

/* 0; ±1 at two places; ±1/2 everywhere with an even number of minus signs; ±2 at one. */
static void small_fill(struct e8 *t)
{
    int n = 0;
    float x[E8_DIM] = {0};
    small_add(t, &n, x);
    for (int i = 0; i < E8_DIM; i++)
        for (int j = 0; j < i; j++)
            for (int s = 0; s < 4; s++) {
                memset(x, 0, sizeof x);
                x[i] = s & 1 ? -1 : 1;
                x[j] = s & 2 ? -1 : 1;
                small_add(t, &n, x);
            }
    for (int s = 0; s < 256; s++) {
        int minus = 0;
        for (int i = 0; i < E8_DIM; i++) {
            x[i] = s >> i & 1 ? -0.5f : 0.5f;
            minus += s >> i & 1;
        }
        if (minus % 2 == 0) small_add(t, &n, x);
    }
    for (int i = 0; n < E8_TABLE; i++) {
        memset(x, 0, sizeof x);
        x[i % E8_DIM] = i < E8_DIM ? 2 : -2;
        small_add(t, &n, x);
    }
}

void e8_fill(struct e8 *t)
{
    sizes_fill(t);
    small_fill(t);
}

/* --- the nearest --- */

/* best (rows) = number of the magnitudes nearest to the numbers with magnitudes x (E8_DIM, rows),
 * an odd number of which are negative where odd is 1. The sign of one number is then wrong, that
 * where it costs least. */
KERNEL_STATIC(void, sizes_nearest,
              (int32_t * best, const struct e8 *t, const float *x, const int32_t *odd),
              (best, t, x, odd))
{
    float most[E8_ROWS];
    for (int r = 0; r < E8_ROWS; r++) {
        most[r] = -INFINITY;
        best[r] = 0;
    }
    for (int32_t k = 0; k < E8_TABLE; k++) {
        const float *size = t->size[k], norm = t->size_norm[k];
        float dot[E8_ROWS] = {0}, least[E8_ROWS];
        for (int r = 0; r < E8_ROWS; r++) least[r] = INFINITY;
        for (int i = 0; i < E8_DIM; i++)
            for (int r = 0; r < E8_ROWS; r++) {
                const float product = size[i] * x[i * E8_ROWS + r];
                dot[r] += product;
                least[r] = product < least[r] ? product : least[r];
            }
        for (int r = 0; r < E8_ROWS; r++) {
            const float wrong = odd[r] == t->odd[k] ? 0 : 4 * least[r];
            const float score = 2 * dot[r] - norm - wrong;
            best[r] = score > most[r] ? k : best[r];
            most[r] = score > most[r] ? score : most[r];
        }
    }
}

/* A code of E8P as a vector. */
static void e8p_value(const struct e8 *t, const uint8_t *code, float *q)
{
    const float by = code[1] & 1 ? -0.25f : 0.25f;
    int odd = 0;
    for (int i = 0; i < E8_DIM; i++) {
        const int minus = i < E8_DIM - 1 ? code[1] >> (7 - i) & 1 : odd ^ t->odd[code[0]];
        odd ^= minus;
        q[i] = (minus ? -t->size[code[0]][i] : t->size[code[0]][i]) + by;
    }
}

/* code = that of the magnitudes k with the signs of x, but for one if they are odd in the other
 * way; the squared distance of the vector. */
static float signs_set(const struct e8 *t, int32_t k, const float *x, int32_t odd, uint8_t *code)
{
    const float *size = t->size[k];
    int worst = 0;
    float distance = 0;
    for (int i = 0; i < E8_DIM; i++)
        if (size[i] * fabsf(x[i]) < size[worst] * fabsf(x[worst])) worst = i;
    code[0] = (uint8_t)k;
    code[1] = 0;
    for (int i = 0; i < E8_DIM; i++) {
        const bool minus = (x[i] < 0) != (i == worst && odd != t->odd[k]);
        const float left = x[i] - (minus ? -size[i] : size[i]);
        distance += left * left;
        if (i < E8_DIM - 1) code[1] |= (uint8_t)(minus << (7 - i));
    }
    return distance;
}

/* Codes of E8P are `pitch` bytes apart. */
static void e8p_nearest(const struct e8 *t, const float *x, uint8_t *code, int64_t pitch)
{
    float distance[E8_ROWS];
    for (int side = 0; side < 2; side++) {
        const float by = side ? -0.25f : 0.25f;
        float moved[E8_ROWS][E8_DIM], size[E8_DIM * E8_ROWS];
        int32_t odd[E8_ROWS] = {0}, best[E8_ROWS];
        for (int r = 0; r < E8_ROWS; r++)
            for (int i = 0; i < E8_DIM; i++) {
                moved[r][i] = x[r * E8_DIM + i] - by;
                size[i * E8_ROWS + r] = fabsf(moved[r][i]);
                odd[r] ^= moved[r][i] < 0;
            }
        sizes_nearest(best, t, size, odd);
        for (int r = 0; r < E8_ROWS; r++) {
            uint8_t trial[2];
            const float d = signs_set(t, best[r], moved[r], odd[r], trial);
            if (side && !(d < distance[r])) continue;
            distance[r] = d;
            code[r * pitch] = trial[0];
            code[r * pitch + 1] = (uint8_t)(trial[1] | side);
        }
    }
}

static uint8_t e8b_nearest(const struct e8 *t, const float *x)
{
    float most = -INFINITY;
    int best = 0;
    for (int k = 0; k < E8_TABLE; k++) {
        float dot = 0;
        for (int i = 0; i < E8_DIM; i++) dot += x[i] * t->small[k][i];
        const float score = 2 * dot - t->small_norm[k];
        if (score > most) most = score, best = k;
    }
    return (uint8_t)best;
}

static float finer(int64_t bits)
{
    return bits == 3 ? 2.04f : 3.45f;
}

void e8_nearest(const struct e8 *t, int64_t bits, const float *x, uint8_t *code)
{
    float left[E8_ROWS * E8_DIM], q[E8_DIM];
    e8p_nearest(t, x, code, bits);
    if (bits == 2) return;
    for (int k = 0; k < E8_ROWS * E8_DIM; k++) {
        if (k % E8_DIM == 0) e8p_value(t, code + k / E8_DIM * bits, q);
        left[k] = (x[k] - q[k % E8_DIM]) * finer(bits);
    }
    if (bits == 4) e8p_nearest(t, left, code + 2, bits);
    for (int r = 0; r < E8_ROWS && bits == 3; r++)
        code[r * bits + 2] = e8b_nearest(t, left + r * E8_DIM);
}

void e8_values(const struct e8 *t, int64_t bits, const uint8_t *code, float *q)
{
    for (int r = 0; r < E8_ROWS; r++, code += bits, q += E8_DIM) {
        float own[E8_DIM];
        const float *more = bits == 3 ? t->small[code[2]] : own;
        e8p_value(t, code, q);
        if (bits == 2) continue;
        if (bits == 4) e8p_value(t, code + 2, own);
        for (int i = 0; i < E8_DIM; i++) q[i] += more[i] / finer(bits);
    }
}

double e8_rms(int64_t bits)
{
    return bits == 3 ? 0.98 : 1.03;
}
