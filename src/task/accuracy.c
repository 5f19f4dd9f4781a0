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

double answers_log_likelihood(const struct requests *r, const struct answers *a, int64_t request)
{
    return -a->sum[r->list[request].scored * a->pitch + a->nll];
}

bool answers_greedy(const struct requests *r, const struct answers *a, int64_t request)
{
    const struct request *x = &r->list[request];
    return (int64_t)a->sum[x->scored * a->pitch + a->hits] == x->tokens;
}

/* A mean over the items of one or several subjects, of values that are 1, -1 or 0. */
struct tally {
    int64_t subjects, n;
    double sum, pooled; /* pooled: sum over the subjects of (n - 1) times the values' variance */
};

static void tally_add(struct tally *t, int64_t n, int64_t up, int64_t down)
{
    const double mean = (double)(up - down) / (double)n;
    const double squares = (double)up * (1 - mean) * (1 - mean) +
                           (double)down * (1 + mean) * (1 + mean) +
                           (double)(n - up - down) * mean * mean;
    t->subjects++;
    t->n += n;
    t->sum += (double)(up - down);
    t->pooled += (double)(n - 1) * (n > 1 ? squares / (double)(n - 1) : NAN);
}

static double tally_mean(const struct tally *t)
{
    return t->sum / (double)t->n;
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
        double score = answers_log_likelihood(r, a, k);
        if (norm) score /= (double)r->list[k].chars;
        if (choice >= 0 && !(score > best) && !(isnan(score) && !isnan(best))) continue;
        best = score;
        choice = k - item->first;
    }
    return choice == item->gold;
}

static bool is_of(const struct request_task *x, const char *name)
{
    return strcmp(x->name, name) == 0 || (x->task->subjects && strcmp(x->task->name, name) == 0);
}

struct accuracy accuracy_of(const struct requests *r, const struct answers *a, const char *name)
{
    struct tally plain = {0}, norm = {0};
    bool offered = false;
    int64_t truncated = 0;
    for (const struct request_task *x = r->tasks; x < r->tasks + r->n_tasks; x++) {
        int64_t right = 0, right_norm = 0;
        if (!is_of(x, name)) continue;
        for (int64_t i = x[0].first; i < x[1].first; i++) {
            right += is_right(r, a, i, false);
            right_norm += is_right(r, a, i, true);
            truncated += r->items[i].truncated;
        }
        tally_add(&plain, x[1].first - x[0].first, right, 0);
        tally_add(&norm, x[1].first - x[0].first, right_norm, 0);
        offered = x->task->norm;
    }
    return (struct accuracy){.items = plain.n,
                             .truncated = truncated,
                             .accuracy = tally_mean(&plain),
                             .error = tally_stderr(&plain),
                             .norm = offered ? tally_mean(&norm) : NAN,
                             .norm_error = offered ? tally_stderr(&norm) : NAN};
}

double mcnemar_exact(int64_t lost, int64_t gained)
{
    const int64_t least = lost < gained ? lost : gained, n = lost + gained;
    double term = 1, sum = 1; /* of C(n, k) / C(n, least), k = least, ..., 0 */
    for (int64_t k = least; k > 0; k--) {
        term *= (double)k / (double)(n - k + 1);
        sum += term;
    }
    const double largest = lgamma((double)n + 1) - lgamma((double)least + 1) -
                           lgamma((double)(n - least) + 1) - (double)n * M_LN2;
    return fmin(2 * exp(largest) * sum, 1);
}

struct accuracy_change accuracy_compare(const struct requests *r, const struct answers *full,
                                        const struct answers *a, const char *name)
{
    struct accuracy_change c = {0};
    struct tally t = {0};
    for (const struct request_task *x = r->tasks; x < r->tasks + r->n_tasks; x++) {
        int64_t lost = 0, gained = 0;
        if (!is_of(x, name)) continue;
        for (int64_t i = x[0].first; i < x[1].first; i++) {
            const bool before = is_right(r, full, i, false), after = is_right(r, a, i, false);
            lost += before && !after;
            gained += after && !before;
        }
        tally_add(&t, x[1].first - x[0].first, gained, lost);
        c.lost += lost;
        c.gained += gained;
    }
    c.change = tally_mean(&t);
    c.error = tally_stderr(&t);
    c.degradation = (0 - c.change) / (1 - accuracy_of(r, full, name).accuracy);
    c.p = mcnemar_exact(c.lost, c.gained);
    return c;
}

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *entry(const struct requests *r, const struct answers *a, const char *name)
{
    const struct accuracy x = accuracy_of(r, a, name);
    return json_pack("{s:o, s:o, s:o, s:o, s:I, s:I}", "accuracy", number(x.accuracy),
                     "accuracy_stderr", number(x.error), "accuracy_norm", number(x.norm),
                     "accuracy_norm_stderr", number(x.norm_error), "items", (json_int_t)x.items,
                     "items_truncated", (json_int_t)x.truncated);
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
    for (int64_t t = 0; t < r->n_tasks; t++) {
        const struct request_task *x = &r->tasks[t];
        const char *whole = x->task->name;
        json_object_set_new(out, x->name, entry(r, a, x->name));
        if (x->task->subjects && is_last(r, t)) json_object_set_new(out, whole, entry(r, a, whole));
    }
    return out;
}

static void add_answers(const struct requests *r, const struct answers *a,
                        const struct request_task *x, json_t *const *columns)
{
    for (int64_t i = x[0].first; i < x[1].first; i++)
        for (int64_t k = r->items[i].first; k < r->items[i + 1].first; k++) {
            json_array_append_new(columns[0], json_string(x->name));
            json_array_append_new(columns[1], json_integer((json_int_t)(i - x->first)));
            json_array_append_new(columns[2], json_integer((json_int_t)(k - r->items[i].first)));
            json_array_append_new(columns[3], json_number_new(answers_log_likelihood(r, a, k)));
            json_array_append_new(columns[4], json_integer((json_int_t)r->list[k].tokens));
            json_array_append_new(columns[5], json_integer(answers_greedy(r, a, k)));
        }
}

json_t *answers_table(const struct requests *r, const struct answers *a, const char *name)
{
    static const char *const names[] = {"subject",        "item",   "choice",
                                        "log_likelihood", "tokens", "greedy"};
    enum { COLUMNS = sizeof names / sizeof *names };
    json_t *columns[COLUMNS], *out = json_object();
    for (int c = 0; c < COLUMNS; c++) {
        columns[c] = json_array();
        json_object_set_new(out, names[c], columns[c]);
    }
    for (const struct request_task *x = r->tasks; x < r->tasks + r->n_tasks; x++)
        if (is_of(x, name)) add_answers(r, a, x, columns);
    return out;
}
