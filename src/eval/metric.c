#include "eval/metric.h"
#include <math.h>

#define METRIC_LINE(name) &metric_##name,
static const struct metric *const metrics[] = {METRICS(METRIC_LINE)};
enum { METRICS_N = sizeof metrics / sizeof *metrics };

struct metric_field {
    const struct metric *metric;
    const char *name;
    bool integer;
    double (*value)(const struct scored *x);
};
enum { REAL, INTEGER };
#define CELL_FIELD(metric, name, ...) {&metric_##metric, #name, false, value_##name},
#define CHECKPOINT_FIELD(metric, name, type, ...)                                                  \
    {&metric_##metric, #name, type == INTEGER, value_##name},
static const struct metric_field of_cell[] = {METRIC_CELL_FIELDS(CELL_FIELD){0}};
static const struct metric_field of_checkpoint[] = {METRIC_CHECKPOINT_FIELDS(CHECKPOINT_FIELD){0}};

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
    for (int k = 0; k < METRICS_N; k++) n += metrics[k]->n_sums;
    return n;
}

int64_t metrics_first_sum(const struct metric *m)
{
    int64_t n = 0;
    for (int k = 0; metrics[k] != m; k++) n += metrics[k]->n_sums;
    return n;
}

void metrics_accumulate(const struct position *p, double *sums)
{
    for (int k = 0; k < METRICS_N; sums += metrics[k++]->n_sums) metrics[k]->accumulate(p, sums);
}

json_t *metrics_record(const struct sequences *s, int64_t first, int64_t end, const double *sum,
                       const double *full, enum metric_scope scope)
{
    json_t *record = json_object(), *list = json_array();
    int64_t pitch = metrics_sums();
    const struct sequences dataset = {
        .n = end - first, .offset = s->offset + first, .ids = s->ids, .bytes = s->bytes};
    struct scored x = {.sequences = &dataset, .pitch = pitch};
    for (const struct metric_field *f = scope == METRIC_CELL ? of_cell : of_checkpoint; f->name;
         f++) {
        x.sum = sum + first * pitch + metrics_first_sum(f->metric);
        x.full = full + first * pitch + metrics_first_sum(f->metric);
        const double value = f->value(&x);
        json_object_set_new(record, f->name,
                            f->integer ? json_integer((json_int_t)value) : json_number_new(value));
    }
    x.sum = sum + first * pitch + metrics_first_sum(&metric_loss);
    for (int64_t i = 0; i < dataset.n; i++)
        json_array_append_new(list, json_number_new(value_sequence_loss(&x, i)));
    json_object_set_new(record, "sequence_loss", list);
    return record;
}
