/* What a run or a plan says is left to do. */
#include "plan/plan_internal.h"
#include "util/quantity.h"
#include <stdio.h>

struct speaker {
    void (*say)(void *context, const char *line);
    void *context;
};

static void say(const struct speaker *l, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void say(const struct speaker *l, const char *fmt, ...)
{
    char line[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    l->say(l->context, line);
}

void plan_visits_say(const struct plan_visits *v, void (*line)(void *context, const char *line),
                     void *context)
{
    const struct speaker l = {line, context};
    const int64_t cells = v->to_make[MEASURE_cell], points = v->to_make[MEASURE_point],
                  replicates = v->to_make[MEASURE_replicate],
                  accuracies = v->to_make[MEASURE_baseline_task] + v->to_make[MEASURE_task];
    char again[64] = "";
    if (v->n_again)
        snprintf(again, sizeof again, ", %lld of them finished before", (long long)v->n_again);
    if (cells || v->n > points)
        say(&l, "%lld visit%s, %lld cell%s to do%s", (long long)(v->n - points),
            quantity_plural(v->n - points), (long long)cells, quantity_plural(cells), again);
    if (replicates)
        say(&l, "%lld replicate%s of cells to do", (long long)replicates,
            quantity_plural(replicates));
    if (v->n_completions)
        say(&l, "predictions of %lld scored cell%s to do", (long long)v->n_completions,
            quantity_plural(v->n_completions));
    if (v->n_texts)
        say(&l, "%lld score%s of finished results on further texts to do", (long long)v->n_texts,
            quantity_plural(v->n_texts));
    if (v->n_read)
        say(&l, "%lld cell%s of them %s read from where exports are", (long long)v->n_read,
            quantity_plural(v->n_read), v->n_read == 1 ? "is" : "are");
    if (accuracies)
        say(&l, "%lld %s on tasks to do", (long long)accuracies,
            accuracies == 1 ? "accuracy" : "accuracies");
    for (int k = 0; k < MEASURES_N; k++)
        if (v->asked[k])
            say(&l, "%s of %lld cell%s to do", measures[k]->doing, (long long)v->asked[k],
                quantity_plural(v->asked[k]));
    for (int k = 0; k < MEASURES_N; k++)
        if (measures[k]->prefix && measures[k]->prefix[0] && v->to_make[k])
            say(&l, "%s%lld checkpoint%s to do", measures[k]->prefix, (long long)v->to_make[k],
                quantity_plural(v->to_make[k]));
    for (int k = 0; k < MEASURES_N; k++)
        if (measures[k]->cell_key && v->to_make[k])
            say(&l, "%lld %s to do", (long long)v->to_make[k], measures[k]->noun);
    if (points)
        say(&l, "%lld point%s of surfaces to do", (long long)points, quantity_plural(points));
}

int64_t plan_more(const struct plan *p)
{
    int64_t n = 0;
    for (int k = 0; k < MEASURES_N; k++) n += p->more[k];
    return n;
}
