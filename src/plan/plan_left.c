/* What a run or a plan says is left to do. */
#include "plan/plan.h"
#include "util/quantity.h"
#include <stdio.h>

void plan_visits_say(const struct plan_visits *v, const char *before, FILE *out)
{
    const int64_t cells = v->to_make[MEASURE_cell], points = v->to_make[MEASURE_point],
                  replicates = v->to_make[MEASURE_replicate],
                  accuracies = v->to_make[MEASURE_baseline_task] + v->to_make[MEASURE_task];
    char again[64] = "";
    if (v->n_again)
        snprintf(again, sizeof again, ", %lld of them finished before", (long long)v->n_again);
    if (cells || v->n > points)
        fprintf(out, "%s%lld visit%s, %lld cell%s to do%s\n", before, (long long)(v->n - points),
                quantity_plural(v->n - points), (long long)cells, quantity_plural(cells), again);
    if (replicates)
        fprintf(out, "%s%lld replicate%s of cells to do\n", before, (long long)replicates,
                quantity_plural(replicates));
    if (v->n_completions)
        fprintf(out, "%spredictions of %lld scored cell%s to do\n", before,
                (long long)v->n_completions, quantity_plural(v->n_completions));
    if (v->n_texts)
        fprintf(out, "%s%lld score%s of finished results on further texts to do\n", before,
                (long long)v->n_texts, quantity_plural(v->n_texts));
    if (v->n_read)
        fprintf(out, "%s%lld cell%s of them %s read from where exports are\n", before,
                (long long)v->n_read, quantity_plural(v->n_read), v->n_read == 1 ? "is" : "are");
    if (accuracies)
        fprintf(out, "%s%lld %s on tasks to do\n", before, (long long)accuracies,
                accuracies == 1 ? "accuracy" : "accuracies");
    for (int k = 0; k < MEASURES_N; k++)
        if (v->asked[k])
            fprintf(out, "%s%s of %lld cell%s to do\n", before, measures[k]->doing,
                    (long long)v->asked[k], quantity_plural(v->asked[k]));
    for (int k = 0; k < MEASURES_N; k++)
        if (measures[k]->prefix && measures[k]->prefix[0] && v->to_make[k])
            fprintf(out, "%s%s%lld checkpoint%s to do\n", before, measures[k]->prefix,
                    (long long)v->to_make[k], quantity_plural(v->to_make[k]));
    for (int k = 0; k < MEASURES_N; k++)
        if (measures[k]->cell_key && v->to_make[k])
            fprintf(out, "%s%lld %s to do\n", before, (long long)v->to_make[k], measures[k]->noun);
    if (points)
        fprintf(out, "%s%lld point%s of surfaces to do\n", before, (long long)points,
                quantity_plural(points));
}

int64_t plan_more(const struct plan *p)
{
    int64_t n = 0;
    for (int k = 0; k < MEASURES_N; k++) n += p->more[k];
    return n;
}
