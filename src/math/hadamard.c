#include "math/hadamard.h"
#include "math/kernel.h"
#include <string.h>

/* --- constructions --- */

static bool is_prime(int64_t n)
{
    for (int64_t d = 2; d * d <= n; d++)
        if (n % d == 0) return false;
    return n > 1;
}

/* The prime p if q is p or p²; otherwise 0. */
static int64_t prime_of(int64_t q)
{
    int64_t root = 1;
    if (is_prime(q)) return q;
    while (root * root < q) root++;
    return root * root == q && is_prime(root) ? root : 0;
}

/* Legendre's symbol of x modulo the odd prime p: x^((p - 1) / 2). */
static int legendre(int64_t x, int64_t p)
{
    int64_t power = 1;
    x = (x % p + p) % p;
    if (x == 0) return 0;
    for (int64_t exponent = (p - 1) / 2; exponent > 0; exponent /= 2, x = x * x % p)
        if (exponent % 2) power = power * x % p;
    return power == 1 ? 1 : -1;
}

/* The quadratic character of the difference i - j of two elements of the field with q elements: 1
 * for a square, -1 for others, 0 for zero. Element a + b p of the field of p² is a + b √r, r not a
 * square modulo p; it is a square if its norm a² - r b² is one modulo p. */
static int character(int64_t i, int64_t j, int64_t q, int64_t p)
{
    int64_t r = 2;
    if (q == p) return legendre(i - j, p);
    while (legendre(r, p) != -1) r++;
    int64_t a = i % p - j % p, b = i / p - j / p;
    return legendre(a * a - r * b * b, p);
}

/* Paley's first construction: k = q + 1, q a prime that is 3 modulo 4. */
static bool first_suits(int64_t k)
{
    return k % 4 == 0 && is_prime(k - 1);
}

static void first_make(int8_t *h, int64_t k)
{
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < k; j++)
            h[i * k + j] = (int8_t)(i == 0   ? 1
                                    : j == 0 ? -1
                                    : i == j ? 1
                                             : character(j - 1, i - 1, k - 1, k - 1));
}

/* Paley's second: k = 2 (q + 1), q = p or p² and 1 modulo 4. */
static bool second_suits(int64_t k)
{
    return k % 4 == 0 && (k / 2 - 1) % 4 == 1 && prime_of(k / 2 - 1) > 0;
}

static void second_make(int8_t *h, int64_t k)
{
    int64_t n = k / 2, q = n - 1, p = prime_of(q);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            int c = i == j ? 0 : i == 0 || j == 0 ? 1 : character(i - 1, j - 1, q, p), d = i == j;
            int8_t *at = h + 2 * i * k + 2 * j;
            at[0] = (int8_t)(c + d);
            at[1] = at[k] = (int8_t)(c - d);
            at[k + 1] = (int8_t)(-c - d);
        }
}

/* Williamson's: symmetric circulant A, B, C, D of order 43 with A² + B² + C² + D² = 172 I. The
 * first half of each first row; entries depend on i⁶ modulo 43 only. */
enum { WILLIAMSON = 43 };
static const char *const williamson[] = {"+---++--++++-+-+++-++-", "++---++++-+--+--++----",
                                         "+++-+-++--+-+-++++-+--", "++-++++++----+-+--++-+"};

static void williamson_make(int8_t *h)
{
    static const int part[4][4] = {{0, 1, 2, 3}, {1, 0, 3, 2}, {2, 3, 0, 1}, {3, 2, 1, 0}};
    static const int sign[4][4] = {{1, 1, 1, 1}, {-1, 1, -1, 1}, {-1, 1, 1, -1}, {-1, -1, 1, 1}};
    const int n = WILLIAMSON, k = 4 * n;
    for (int i = 0; i < k; i++)
        for (int j = 0; j < k; j++) {
            int a = i / n, b = j / n, lag = (j - i + k) % n;
            bool plus = williamson[part[a][b]][lag < n - lag ? lag : n - lag] == '+';
            h[i * k + j] = (int8_t)(plus ? sign[a][b] : -sign[a][b]);
        }
}

int64_t hadamard_factor(int64_t n)
{
    int64_t odd = n;
    if (n < 1) return 0;
    while (odd % 2 == 0) odd /= 2;
    if (odd == 1) return 1;
    for (int64_t k = 4 * odd; n % k == 0 && k <= HADAMARD_FACTOR_MAX; k *= 2)
        if (first_suits(k) || second_suits(k) || k == 4 * WILLIAMSON) return k;
    return 0;
}

void hadamard_make(int8_t *h, int64_t k)
{
    if (k == 1)
        h[0] = 1;
    else if (first_suits(k))
        first_make(h, k);
    else if (second_suits(k))
        second_make(h, k);
    else
        williamson_make(h);
}

/* --- products --- */

/* x <- x (I ⊗ S): sums and differences of halves, in every block of `size`. */
KERNEL_STATIC(void, sylvester, (double *x, int64_t n, int64_t size), (x, n, size))
{
    for (int64_t half = 1; half < size; half *= 2)
        for (int64_t a = 0; a < n; a += 2 * half)
            for (int64_t i = a; i < a + half; i++) {
                double sum = x[i] + x[i + half], difference = x[i] - x[i + half];
                x[i] = sum;
                x[i + half] = difference;
            }
}

/* y <- x (H_k ⊗ I), I of order `size`; transposed: with H_kᵀ. */
KERNEL_STATIC(void, dense,
              (double *y, const double *x, int64_t size, const int8_t *h, int64_t k,
               bool transposed),
              (y, x, size, h, k, transposed))
{
    memset(y, 0, (size_t)(k * size) * sizeof *y);
    for (int64_t to = 0; to < k; to++)
        for (int64_t from = 0; from < k; from++) {
            const double sign = transposed ? h[to * k + from] : h[from * k + to];
            for (int64_t b = 0; b < size; b++) y[to * size + b] += sign * x[from * size + b];
        }
}

void hadamard_row(double *x, int64_t n, const int8_t *h, int64_t k, bool transposed,
                  double *scratch)
{
    sylvester(x, n, n / k);
    if (k == 1) return;
    dense(scratch, x, n / k, h, k, transposed);
    memcpy(x, scratch, (size_t)n * sizeof *x);
}

double hadamard_flop(int64_t n)
{
    int64_t k = hadamard_factor(n);
    double each = k > 1 ? 2 * (double)k : 0;
    for (int64_t size = k > 0 ? n / k : 1; size > 1; size /= 2) each++;
    return each * (double)n;
}
