#include "curvature/space.h"
#include <stdbool.h>

struct space space_alone(int64_t n)
{
    return (struct space){.total = n, .n = n, .n_max = n};
}

struct space space_cut(int64_t total, int rank, int size)
{
    int64_t each = total / size, more = total % size, before = rank < more ? rank : more;
    return (struct space){.total = total,
                          .first = rank * each + before,
                          .n = each + (rank < more),
                          .n_max = each + (more > 0)};
}

void space_clip(const struct space *s, int64_t *begin, int64_t *end)
{
    int64_t a = *begin - s->first, b = *end - s->first;
    *begin = a < 0 ? 0 : a > s->n ? s->n : a;
    *end = b < *begin ? *begin : b > s->n ? s->n : b;
}

void space_sum(const struct space *s, int64_t k, double *x)
{
    if (s->sum) s->sum(s->context, k, x);
}

void space_agree(const struct space *s, int64_t k, double *x)
{
    bool first = s->first == 0 && s->n > 0;
    if (!s->sum) return;
    for (int64_t i = 0; !first && i < k; i++) x[i] = 0;
    s->sum(s->context, k, x);
}
