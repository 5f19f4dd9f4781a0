/* Cross-entropy and derived metrics: perplexity, bits per byte, and the paired difference from full
 * precision. Statistics over the sequences that have a scored token; formulas:
 * docs/math/statistics.md. */
#include "eval/metric.h"
#include <math.h>

/* Running mean and standard error (Welford 1962: no cancellation if values are close together). */
struct moments {
    int64_t n;
    double mean, squares; /* sum of squared deviations from the mean */
};

/* Adds one observation. */
static void moments_add(struct moments *m, double x)
{
    double before = x - m->mean;
    m->n++;
    m->mean += before / (double)m->n;
    m->squares += before * (x - m->mean);
}

/* NaN if n = 0. */
static double moments_mean(struct moments m)
{
    return m.n ? m.mean : NAN;
}

/* Standard error of the mean; NaN if n < 2. */
static double moments_stderr(struct moments m)
{
    return m.n > 1 ? sqrt(m.squares / (double)(m.n - 1) / (double)m.n) : NAN;
}

static void accumulate(const struct position *p, double *nll)
{
    *nll += p->log_sum - (double)p->logits[p->target];
}

/* Mean over the scored tokens of sequence i; NaN when it has none. */
static double mean_of(const struct scored *x, const double *nll, int64_t i)
{
    int64_t tokens = scored_tokens(x, i);
    return tokens ? nll[i * x->pitch] / (double)tokens : NAN;
}

double value_sequence_loss(const struct scored *x, int64_t i)
{
    return mean_of(x, x->sum, i);
}

static struct moments loss_moments(const struct scored *x, const double *nll)
{
    struct moments m = {0};
    for (int64_t i = 0; i < x->sequences->n; i++)
        if (scored_tokens(x, i)) moments_add(&m, mean_of(x, nll, i));
    return m;
}

double value_loss(const struct scored *x)
{
    return moments_mean(loss_moments(x, x->sum));
}

double value_loss_stderr(const struct scored *x)
{
    return moments_stderr(loss_moments(x, x->sum));
}

double value_perplexity(const struct scored *x)
{
    return exp(value_loss(x));
}

double value_tokens(const struct scored *x)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < x->sequences->n; i++) sum += scored_tokens(x, i);
    return (double)sum;
}

double value_bytes(const struct scored *x)
{
    const struct sequences *s = x->sequences;
    int64_t sum = 0;
    for (int64_t i = 0; s->bytes && i < s->n; i++)
        for (int64_t t = s->offset[i] + 1; t < s->offset[i + 1]; t++) sum += s->bytes[t];
    return (double)sum;
}

/* NaN when bytes are not known. */
double value_bits_per_byte(const struct scored *x)
{
    double nll = 0, of_text = value_bytes(x);
    for (int64_t i = 0; i < x->sequences->n; i++) nll += x->sum[i * x->pitch];
    return of_text > 0 ? nll / (M_LN2 * of_text) : NAN;
}

/* Of v - ratio f over the sequences, v a variant's loss and f that of full precision. */
static struct moments paired(const struct scored *x, double ratio)
{
    struct moments m = {0};
    for (int64_t i = 0; i < x->sequences->n; i++) {
        double f = mean_of(x, x->full, i), v = mean_of(x, x->sum, i);
        if (!isnan(f)) moments_add(&m, v - ratio * f);
    }
    return m;
}

double value_loss_delta(const struct scored *x)
{
    return moments_mean(paired(x, 1));
}

double value_loss_delta_stderr(const struct scored *x)
{
    return moments_stderr(paired(x, 1));
}

static double full_loss(const struct scored *x)
{
    return moments_mean(loss_moments(x, x->full));
}

double value_loss_relative(const struct scored *x)
{
    return value_loss(x) / full_loss(x) - 1;
}

double value_loss_relative_stderr(const struct scored *x)
{
    double f = full_loss(x);
    return moments_stderr(paired(x, value_loss(x) / f)) / fabs(f);
}

const struct metric metric_loss = {.n_sums = 1, .accumulate = accumulate};
