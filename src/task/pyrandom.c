#include "task/pyrandom.h"
#include "util/mem.h"

enum { N = PYRANDOM_STATE, M = 397 };

static void init(uint32_t *s, uint32_t seed)
{
    s[0] = seed;
    for (int i = 1; i < N; i++) s[i] = 1812433253U * (s[i - 1] ^ (s[i - 1] >> 30)) + (uint32_t)i;
}

/* init_by_array with the 32-bit words of the seed, the lowest first. */
void pyrandom_seed(struct pyrandom *r, uint64_t seed)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const int words = key[1] ? 2 : 1;
    uint32_t *s = r->state;
    int i = 1, j = 0;
    init(s, 19650218U);
    for (int k = 0; k < N; k++) {
        s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1664525U)) + key[j] + (uint32_t)j;
        j = (j + 1) % words;
        if (++i == N) s[0] = s[N - 1], i = 1;
    }
    for (int k = 0; k < N - 1; k++) {
        s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1566083941U)) - (uint32_t)i;
        if (++i == N) s[0] = s[N - 1], i = 1;
    }
    s[0] = 0x80000000U;
    r->at = N;
}

uint32_t pyrandom_bits(struct pyrandom *r)
{
    uint32_t *s = r->state, y;
    for (int i = 0; r->at == N && i < N; i++) { /* all are used: the next ones */
        y = (s[i] & 0x80000000U) | (s[(i + 1) % N] & 0x7fffffffU);
        s[i] = s[(i + M) % N] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfU : 0);
    }
    r->at %= N;
    y = s[r->at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680U;
    y ^= (y << 15) & 0xefc60000U;
    return y ^ (y >> 18);
}

/* _randbelow: as many bits as n has, drawn until they are below n (0 < n < 2^32). */
static int64_t below(struct pyrandom *r, int64_t n)
{
    int bits = 0;
    uint32_t x;
    while (n >> bits) bits++;
    do x = pyrandom_bits(r) >> (32 - bits);
    while (x >= n);
    return x;
}

/* Up to this n a list of all numbers is shuffled; above it, numbers drawn before are drawn again.
 */
static int64_t largest_list(int64_t k)
{
    int64_t size = 21, power = 1;
    if (k <= 5) return size;
    while (power < 3 * k) power *= 4;
    return size + power;
}

static bool is_among(const int64_t *list, int64_t n, int64_t x)
{
    for (int64_t i = 0; i < n; i++)
        if (list[i] == x) return true;
    return false;
}

enum status pyrandom_sample(struct pyrandom *r, int64_t n, int64_t k, int64_t *out, struct err *e)
{
    AUTO_FREE int64_t *pool = NULL;
    if (n > largest_list(k)) {
        for (int64_t i = 0; i < k; i++) {
            do out[i] = below(r, n);
            while (is_among(out, i, out[i]));
        }
        return OK;
    }
    PASS(mem_alloc(&pool, n, sizeof *pool, "a sample", e));
    for (int64_t i = 0; i < n; i++) pool[i] = i;
    for (int64_t i = 0; i < k; i++) {
        const int64_t j = below(r, n - i);
        out[i] = pool[j];
        pool[j] = pool[n - i - 1];
    }
    return OK;
}
