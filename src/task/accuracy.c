#include "task/accuracy.h"
#include "eval/metric.h"
#include <math.h>
#include <string.h>

struct answers answers_of(const double *sum)
{
    return (struct answers){.sum = sum,
                            .pitch = metrics_sums(),
                            .nll = metrics_first_sum(&metric_loss),
                            .hits = metrics_first_sum(&metric_hits)};
}

double answers_log_likelihood(const struct answers *a, int64_t request)
{
    return -a->sum[request * a->pitch + a->nll];
}

/* Number of items, of right ones, and what the pooled variance of a task's subjects needs. */
struct tally {
    int64_t subjects, n;
    double right, pooled; /* pooled: sum of (n - 1) n stderr^2 over the subjects */
};

static double variance(int64_t n, double right)
{
    const double mean = right / (double)n;
    const double squares = right * (1 - mean) * (1 - mean) + ((double)n - right) * mean * mean;
    return n > 1 ? squares / (double)(n - 1) : NAN;
}

static void tally_add(struct tally *t, int64_t n, double right)
{
    t->subjects++;
    t->n += n;
    t->right += right;
    t->pooled += (double)(n - 1) * variance(n, right);
}

static double tally_stderr(const struct tally *t)
{
    return sqrt(t->pooled / (double)(t->n - t->subjects) / (double)t->n);
}

/* Whether the choice of item i with the largest score is the right one. numpy's argmax takes the
 * first of equal ones, and of those that are not numbers. */
static bool is_right(const struct requests *r, const struct answers *a, int64_t i, bool norm)
{
    const struct request_item *item = &r->items[i];
    double best = NAN;
    int64_t choice = -1;
    for (int64_t k = item[0].first; k < item[1].first; k++) {
        double score = answers_log_likelihood(a, k);
        if (norm) score /= (double)r->list[k].chars;
        if (choice >= 0 && !(score > best) && !(isnan(score) && !isnan(best))) continue;
        best = score;
        choice = k - item->first;
    }
    return choice == item->gold;
}

static double count_right(const struct requests *r, const struct answers *a, int64_t first,
                          int64_t end, bool norm)
{
    double right = 0;
    for (int64_t i = first; i < end; i++) right += is_right(r, a, i, norm);
    return right;
}

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

/* norm: NULL if the task does not offer it. */
static json_t *entry(const struct tally *plain, const struct tally *norm)
{
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:I}", "accuracy", number(plain->right / (double)plain->n),
        "accuracy_stderr", number(tally_stderr(plain)), "accuracy_norm",
        norm ? number(norm->right / (double)norm->n) : json_null(), "accuracy_norm_stderr",
        norm ? number(tally_stderr(norm)) : json_null(), "items", (json_int_t)plain->n);
}

/* Whether no later subject is of the same task. */
static bool is_last(const struct requests *r, int64_t t)
{
    for (int64_t k = t + 1; k < r->n_tasks; k++)
        if (r->tasks[k].task == r->tasks[t].task) return false;
    return true;
}

json_t *accuracy_record(const struct requests *r, const struct answers *a)
{
    json_t *out = json_object();
    struct tally whole = {0}; /* of the task with subjects */
    for (int64_t t = 0; t < r->n_tasks; t++) {
        const struct request_task *x = &r->tasks[t];
        const int64_t first = x[0].first, end = x[1].first, n = end - first;
        struct tally plain = {0}, norm = {0};
        const double right = count_right(r, a, first, end, false);
        tally_add(&plain, n, right);
        if (x->task->norm) tally_add(&norm, n, count_right(r, a, first, end, true));
        json_object_set_new(out, x->name, entry(&plain, x->task->norm ? &norm : NULL));
        if (!x->task->subjects) continue;
        tally_add(&whole, n, right);
        if (!is_last(r, t)) continue;
        json_object_set_new(out, x->task->name, entry(&whole, NULL));
        whole = (struct tally){0};
    }
    return out;
}
