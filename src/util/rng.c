#include "util/rng.h"
#include <math.h>

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

uint64_t rng_bits(uint64_t stream, uint64_t i)
{
    return mix(i * 0x9E3779B97F4A7C15u + stream * 0xD1B54A32D192ED03u);
}

uint64_t rng_stream(uint64_t seed, uint64_t index)
{
    return mix(seed * 0x9E3779B97F4A7C15u) + index; /* mix(0) = 0 */
}

void rng_signs(uint64_t stream, int64_t first, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = rng_bits(stream, (uint64_t)(first + i)) >> 63 ? 1.0f : -1.0f;
}

void rng_normals(uint64_t stream, int64_t first, int64_t n, float *out)
{
    const double two_pi = 6.28318530717958647692;
    for (int64_t i = first; i < first + n;) {
        uint64_t even = (uint64_t)i & ~(uint64_t)1;
        /* u in (0, 1], so that its logarithm is finite. */
        double u = (double)((rng_bits(stream, even) >> 11) + 1) * 0x1p-53;
        double angle = two_pi * (double)(rng_bits(stream, even + 1) >> 11) * 0x1p-53;
        double r = sqrt(-2 * log(u));
        if (i == (int64_t)even) {
            out[i++ - first] = (float)(r * cos(angle));
            if (i == first + n) break;
        }
        out[i++ - first] = (float)(r * sin(angle));
    }
}
