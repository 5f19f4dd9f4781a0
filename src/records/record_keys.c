/* Keys of records that follow from those of others; the points of a loss surface and their keys. */
#include "records/results.h"
#include <stdio.h>
#include <string.h>

/* Of two texts: digests of equal length, so that (ab, c) and (a, bc) give different keys. */
static void key_of(const char *kind, const char *a, const char *b, char out[HASH_HEX])
{
    char text[8 + 2 * HASH_HEX], first[HASH_HEX], second[HASH_HEX];
    hash_text(a, first);
    hash_text(b, second);
    snprintf(text, sizeof text, "%s %s%s", kind, first, second);
    hash_text(text, out);
}

void results_cell_key(const char *checkpoint_key, const char *variant_key, char out[HASH_HEX])
{
    key_of("cell", checkpoint_key, variant_key, out);
}

void results_task_key(const char *of, const char *task_key, char out[HASH_HEX])
{
    key_of("task", of, task_key, out);
}

void results_replicate_key(const char *cell_key, int64_t replicate, int64_t seed,
                           char out[HASH_HEX])
{
    char text[96 + HASH_HEX];
    const int n =
        snprintf(text, sizeof text, "replicate %lld of %s", (long long)replicate, cell_key);
    if (seed >= 0) snprintf(text + n, sizeof text - (size_t)n, ", seed %lld", (long long)seed);
    hash_text(text, out);
}

/* --- surfaces --- */

int64_t results_surface_points(const struct results_surface *s)
{
    return s->n_exact + s->columns * s->rows;
}

struct results_point results_surface_point(const struct results_surface *s, int64_t k)
{
    struct results_point p = {.columns = s->columns, .rows = s->rows};
    if (k < s->n_exact) {
        p.label = s->exact[k];
    } else {
        p.i = (k - s->n_exact) % s->columns;
        p.j = (k - s->n_exact) / s->columns;
    }
    return p;
}

void results_point_place(const struct results_point *p, double *x, double *y)
{
    *x = p->columns > 1 ? (double)p->i / (double)(p->columns - 1) : 0;
    *y = p->rows > 1 ? (double)p->j / (double)(p->rows - 1) : 0;
}

void results_point_key(const char *surface_key, const struct results_point *p, char out[HASH_HEX])
{
    char place[64];
    double x, y;
    results_point_place(p, &x, &y);
    snprintf(place, sizeof place, "/grid %.17g %.17g", x, y); /* labels do not begin with a slash */
    key_of("point", surface_key, p->label ? p->label : place, out);
}

const char *const result_state_words[STATE_N] = {
    [STATE_PENDING] = "pending",
    [STATE_DONE] = "done",
    [STATE_FAILED] = "failed",
    [STATE_NOT_APPLICABLE] = "not_applicable",
};

enum result_state result_state_of(const json_t *record)
{
    const char *word = json_text(record, "status", "");
    if (!record) return STATE_PENDING;
    for (int i = 0; i < STATE_N; i++)
        if (strcmp(word, result_state_words[i]) == 0) return (enum result_state)i;
    return STATE_FAILED;
}
