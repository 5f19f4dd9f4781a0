/* Statistics over sequences; derivations in docs/math/statistics.md. */
#include "eval/head.h"
#include "util/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Running mean and sum of squared deviations (Welford 1962): no cancellation when the losses lie
 * close together. */
struct moments {
    int64_t n;
    double mean, squares;
};

static void moments_add(struct moments *m, double x)
{
    double before = x - m->mean;
    m->n++;
    m->mean += before / (double)m->n;
    m->squares += before * (x - m->mean);
}

static double moments_stderr(const struct moments *m)
{
    return m->n > 1 ? sqrt(m->squares / (double)(m->n - 1) / (double)m->n) : NAN;
}

static int64_t scored_tokens(const struct sequences *s, int64_t i)
{
    int64_t T = s->offset[i + 1] - s->offset[i];
    return T > 1 ? T - 1 : 0;
}

/* Bytes of text of the scored tokens: every token but each sequence's first. */
static int64_t scored_bytes(const struct sequences *s)
{
    int64_t bytes = 0;
    for (int64_t i = 0; s->bytes && i < s->n; i++)
        for (int64_t t = s->offset[i] + 1; t < s->offset[i + 1]; t++) bytes += s->bytes[t];
    return bytes;
}

enum status loss_summarise(const struct sequences *s, const struct scores *scores,
                           struct loss_summary *out, struct err *e)
{
    enum status st = OK;
    struct moments m = {0};
    double nll = 0;
    memset(out, 0, sizeof *out);
    out->n = s->n;
    TRY(mem_alloc(&out->sequence_loss, s->n, sizeof *out->sequence_loss, "losses", e));
    for (int64_t i = 0; i < s->n; i++) {
        int64_t tokens = scored_tokens(s, i);
        out->sequence_loss[i] = tokens ? scores->nll[i] / (double)tokens : NAN;
        out->tokens += tokens;
        nll += scores->nll[i];
        if (tokens) moments_add(&m, out->sequence_loss[i]);
    }
    out->bytes = scored_bytes(s);
    out->loss = m.n ? m.mean : NAN;
    out->loss_stderr = moments_stderr(&m);
    out->perplexity = exp(out->loss);
    out->bits_per_byte = out->bytes > 0 ? nll / (M_LN2 * (double)out->bytes) : NAN;
done:
    return st;
}

void loss_summary_free(struct loss_summary *l)
{
    free(l->sequence_loss);
    memset(l, 0, sizeof *l);
}

void paired_summarise(const struct loss_summary *full, const struct loss_summary *variant,
                      const struct scores *scores, struct paired_summary *out)
{
    struct moments delta = {0}, residual = {0};
    double kl = 0;
    int64_t top1 = 0;
    double ratio = variant->loss / full->loss;
    for (int64_t i = 0; i < full->n; i++) {
        kl += scores->kl[i];
        top1 += scores->top1[i];
        double f = full->sequence_loss[i], v = variant->sequence_loss[i];
        if (isnan(f)) continue; /* too short to be scored */
        moments_add(&delta, v - f);
        moments_add(&residual, v - ratio * f);
    }
    double tokens = full->tokens > 0 ? (double)full->tokens : NAN;
    *out = (struct paired_summary){.delta = delta.n ? delta.mean : NAN,
                                   .delta_stderr = moments_stderr(&delta),
                                   .relative = ratio - 1,
                                   .relative_stderr = moments_stderr(&residual) / fabs(full->loss),
                                   .kl_divergence = kl / tokens,
                                   .top1_agreement = (double)top1 / tokens};
}
