#include "eval/metric.h"
#include <math.h>

extern const struct metric metric_kl_divergence, metric_top1_agreement;

const struct metric *const metrics[] = {
    &metric_loss, &metric_kl_divergence, &metric_top1_agreement, &metric_hits, NULL,
};

double scored_mean(const struct scored *x)
{
    double sum = 0;
    int64_t tokens = 0;
    for (int64_t i = 0; i < x->sequences->n; i++) {
        sum += x->sum[i * x->pitch];
        tokens += scored_tokens(x, i);
    }
    return tokens > 0 ? sum / (double)tokens : NAN;
}

int64_t metrics_sums(void)
{
    int64_t n = 0;
    for (int k = 0; metrics[k]; k++) n += metrics[k]->n_sums;
    return n;
}

int64_t metrics_first_sum(const struct metric *m)
{
    int64_t n = 0;
    for (int k = 0; metrics[k] && metrics[k] != m; k++) n += metrics[k]->n_sums;
    return n;
}

void metrics_accumulate(const struct position *p, double *sums)
{
    for (int k = 0; metrics[k]; sums += metrics[k++]->n_sums) metrics[k]->accumulate(p, sums);
}

static json_t *field_value(const struct metric_field *f, const struct scored *x)
{
    if (f->value)
        return f->integer ? json_integer((json_int_t)f->value(x)) : json_number_new(f->value(x));
    json_t *list = json_array();
    for (int64_t i = 0; i < x->sequences->n; i++)
        json_array_append_new(list, json_number_new(f->each(x, i)));
    return list;
}

json_t *metrics_record(const struct sequences *s, int64_t first, int64_t end, const double *sum,
                       const double *full, enum metric_scope scope)
{
    json_t *record = json_object();
    int64_t pitch = metrics_sums();
    const struct sequences dataset = {
        .n = end - first, .offset = s->offset + first, .ids = s->ids, .bytes = s->bytes};
    struct scored x = {.sequences = &dataset,
                       .sum = sum + first * pitch,
                       .full = full + first * pitch,
                       .pitch = pitch};
    for (int k = 0; metrics[k]; k++) {
        for (const struct metric_field *f = metrics[k]->fields; f && f->name; f++)
            if (f->scopes & scope) json_object_set_new(record, f->name, field_value(f, &x));
        x.sum += metrics[k]->n_sums;
        x.full += metrics[k]->n_sums;
    }
    return record;
}
