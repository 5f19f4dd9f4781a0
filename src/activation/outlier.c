#include "activation/outlier.h"
#include "activation/activation.h"
#include "math/kernel.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>
#include <omp.h>

const int64_t outlier_widths[OUTLIER_WIDTHS] = {4, 8};

/* Partial sums, so that the compiler may compute them side by side. */
enum { LANES = 8 };

static double lanes_sum(const double *lane)
{
    double sum = 0;
    for (int k = 0; k < LANES; k++) sum += lane[k];
    return sum;
}

/* out[p][k] += x^(p + 1) of the numbers at places k + a multiple of LANES. */
KERNEL_STATIC(void, add_powers, (const float *x, int64_t n, double (*out)[LANES]), (x, n, out))
{
    for (int64_t i = 0; i + LANES <= n; i += LANES)
#pragma omp simd
        for (int k = 0; k < LANES; k++) {
            const double a = x[i + k], square = a * a;
            out[0][k] += a;
            out[1][k] += square;
            out[2][k] += square * a;
            out[3][k] += square * square;
        }
    for (int64_t i = n - n % LANES; i < n; i++) {
        const double a = x[i], square = a * a;
        out[0][i % LANES] += a;
        out[1][i % LANES] += square;
        out[2][i % LANES] += square * a;
        out[3][i % LANES] += square * square;
    }
}

/* out[k] += (y - x)^2 likewise. */
KERNEL_STATIC(void, add_squares, (const float *x, const float *y, int64_t n, double *out),
              (x, y, n, out))
{
    for (int64_t i = 0; i + LANES <= n; i += LANES)
#pragma omp simd
        for (int k = 0; k < LANES; k++)
            out[k] += ((double)y[i + k] - x[i + k]) * ((double)y[i + k] - x[i + k]);
    for (int64_t i = n - n % LANES; i < n; i++)
        out[i % LANES] += ((double)y[i] - x[i]) * ((double)y[i] - x[i]);
}

KERNEL_STATIC(void, raise_channels, (const float *x, int64_t n, float *most), (x, n, most))
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float a = x[i] < 0 ? -x[i] : x[i];
        most[i] = a > most[i] ? a : most[i];
    }
}

static uint32_t bin_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & 0x7fffffff) >> 16;
}

/* The least number of a bin. */
static double bin_from(uint32_t bin)
{
    float x;
    bin <<= 16;
    memcpy(&x, &bin, sizeof x);
    return x;
}

/* --- a token --- */

/* What a thread works with. */
struct worker {
    float *x, *rounded, *channel; // (channels)
    uint32_t *bin;                // (OUTLIER_BINS)
};

static double rounding_error(const struct outlier_rows *r, int64_t bits, struct worker *w)
{
    const struct activation_grid g = {
        .bits = bits, .symmetric = r->grid == OUTLIER_TOKEN, .clip = 1};
    const int64_t n = outlier_channels(r);
    double lane[LANES] = {0};
    memcpy(w->rounded, w->x, (size_t)n * sizeof *w->x);
    for (int64_t h = 0; h < r->heads; h++)
        activation_row(&g, r->grid == OUTLIER_VALUES ? r->columns : -1, w->rounded + h * r->columns,
                       r->columns);
    add_squares(w->x, w->rounded, n, lane);
    return lanes_sum(lane);
}

static void find_largest(const float *x, int64_t n, struct outlier_sums *out)
{
    struct activation_range r = ACTIVATION_EMPTY;
    activation_extend(&r, x, n);
    const float most = fmaxf(-r.low, r.high);
    int64_t i = 0;
    while (i + 1 < n && fabsf(x[i]) != most) i++;
    out->largest = (double)most;
    out->channel = (double)i;
}

static void add_token(const struct outlier_rows *r, int64_t t, struct worker *w,
                      struct outlier_sums *out)
{
    const int64_t n = outlier_channels(r);
    double power[4][LANES] = {{0}};
    for (int64_t h = 0; h < r->heads; h++)
        memcpy(w->x + h * r->columns, r->x + t * r->pitch + h * r->stride,
               (size_t)r->columns * sizeof *w->x);
    *out = (struct outlier_sums){.numbers = (double)n};
    if (!activation_finite(w->x, n)) {
        for (int64_t i = 0; i < n; i++) out->broken += !isfinite(w->x[i]);
        return;
    }
    add_powers(w->x, n, power);
    for (int p = 0; p < 4; p++) out->power[p] = lanes_sum(power[p]);
    raise_channels(w->x, n, w->channel);
    for (int64_t i = 0; i < n; i++) w->bin[bin_of(w->x[i])]++;
    find_largest(w->x, n, out);
    for (int k = 0; k < OUTLIER_WIDTHS && r->grid != OUTLIER_PLAIN; k++)
        out->error[k] = rounding_error(r, outlier_widths[k], w);
}

/* --- sequences --- */

struct team {
    int threads;
    float *rows;                // (threads, 3, channels)
    uint32_t *bins;             // (threads, OUTLIER_BINS)
    struct outlier_sums *token; // (tokens)
};

static struct worker worker_of(const struct team *t, int64_t channels, int thread)
{
    float *rows = t->rows + 3 * thread * channels;
    return (struct worker){rows, rows + channels, rows + 2 * channels,
                           t->bins + (int64_t)thread * OUTLIER_BINS};
}

static enum status team_open(struct team *t, int64_t tokens, int64_t channels, struct err *e)
{
    t->threads = omp_get_max_threads();
    PASS(mem_zero(&t->rows, t->threads * 3 * channels, sizeof *t->rows, "outliers", e));
    PASS(mem_zero(&t->bins, (int64_t)t->threads * OUTLIER_BINS, sizeof *t->bins, "outliers", e));
    return mem_zero(&t->token, tokens, sizeof *t->token, "outliers", e);
}

int64_t outliers_bytes(int64_t tokens, int64_t channels, int64_t threads)
{
    return threads *
               (3 * channels * (int64_t)sizeof(float) + OUTLIER_BINS * (int64_t)sizeof(uint32_t)) +
           tokens * (int64_t)sizeof(struct outlier_sums);
}

static void sum_token(const struct outlier_sums *from, int64_t position, struct outlier_sums *to)
{
    to->numbers += from->numbers;
    to->broken += from->broken;
    for (int p = 0; p < 4; p++) to->power[p] += from->power[p];
    for (int k = 0; k < OUTLIER_WIDTHS; k++) to->error[k] += from->error[k];
    if (from->largest <= to->largest) return;
    to->largest = from->largest;
    to->channel = from->channel;
    to->position = (double)position;
}

static void merge(const struct team *t, int64_t channels, float *channel, int64_t *bin)
{
    for (int k = 0; k < t->threads; k++) {
        const struct worker w = worker_of(t, channels, k);
        raise_channels(w.channel, channels, channel);
        for (int64_t i = 0; i < OUTLIER_BINS; i++) bin[i] += w.bin[i];
    }
}

enum status outliers_add(const struct outlier_rows *r, int64_t n, const int64_t *offset,
                         const int64_t *valid, struct outlier_sums *sums, float *channel,
                         int64_t *bin, struct err *e)
{
    enum status st = OK;
    const int64_t first = offset[0], tokens = offset[n] - first, channels = outlier_channels(r);
    struct team team = {0};
    TRY(team_open(&team, tokens, channels, e));
    for (int64_t i = 0; i < n; i++) /* padding, which nobody looks at */
        for (int64_t t = offset[i]; valid && valid[i] && t < offset[i + 1]; t++)
            if (t - offset[i] >= valid[i]) team.token[t - first].numbers = -1;
#pragma omp parallel for schedule(static) num_threads(team.threads)
    for (int64_t t = 0; t < tokens; t++) {
        struct worker w = worker_of(&team, channels, omp_get_thread_num());
        if (team.token[t].numbers == 0) add_token(r, first + t, &w, &team.token[t]);
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t t = offset[i]; t < offset[i + 1]; t++)
            if (team.token[t - first].numbers > 0)
                sum_token(&team.token[t - first], t - offset[i], &sums[i]);
    merge(&team, channels, channel, bin);
done:
    free(team.rows);
    free(team.bins);
    free(team.token);
    return st;
}

/* --- what they say --- */

/* The lower median of what is counted, its bin's numbers taken as evenly apart. */
static double median_of(const int64_t *bin)
{
    int64_t n = 0, before = 0;
    uint32_t i = 0;
    for (int64_t k = 0; k < OUTLIER_BINS; k++) n += bin[k];
    if (n == 0) return NAN;
    while (before + bin[i] <= (n - 1) / 2) before += bin[i++];
    const double from = bin_from(i), to = bin_from(i + 1);
    return i == 0 ? 0
                  : from + (to - from) * ((double)((n - 1) / 2 - before) + 0.5) / (double)bin[i];
}

static int descending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* The fewest channels whose ranges make 99 % of the sum, as a share of all. */
static double channels_of(float *channel, int64_t n)
{
    double all = 0, sum = 0;
    int64_t k = 0;
    qsort(channel, (size_t)n, sizeof *channel, descending);
    for (int64_t i = n; i-- > 0;) all += channel[i];
    while (k < n && sum < 0.99 * all) sum += channel[k++];
    return all > 0 ? (double)k / (double)n : NAN;
}

static double kurtosis_of(const struct outlier_sums *s)
{
    const double n = s->numbers, m = s->power[0] / n, square = s->power[1] / n;
    const double variance = square - m * m;
    const double fourth =
        s->power[3] / n - 4 * m * s->power[2] / n + 6 * m * m * square - 3 * m * m * m * m;
    return fourth / (variance * variance);
}

struct outliers outliers_of(const struct outlier_sums *sums, int64_t n, float *channel,
                            int64_t channels, const int64_t *bin)
{
    struct outlier_sums all = {0};
    for (int64_t i = 0; i < n; i++) sum_token(&sums[i], (int64_t)sums[i].position, &all);
    struct outliers o = {.kurtosis = kurtosis_of(&all),
                         .largest = all.largest,
                         .channel = (int64_t)all.channel,
                         .position = (int64_t)all.position,
                         .largest_over_median = all.largest / median_of(bin),
                         .channels = channels_of(channel, channels),
                         .broken = (int64_t)all.broken};
    for (int k = 0; k < OUTLIER_WIDTHS; k++) o.error[k] = sqrt(all.error[k] / all.power[1]);
    return o;
}
