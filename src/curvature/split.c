#include "curvature/split.h"
#include "util/mem.h"
#include <stdio.h>

/* "model.layers.3.mlp.up_proj.weight" of layer 3 is of the kind "mlp.up_proj.weight"; outside the
 * blocks each tensor is a separate kind. */
static const char *kind_of(const struct hvp_tensor *t)
{
    char number[32];
    if (t->layer < 0) return t->name;
    snprintf(number, sizeof number, ".%lld.", (long long)t->layer);
    const char *at = strstr(t->name, number);
    return at ? at + strlen(number) : t->name;
}

/* The part of that layer (by_layer) or kind, a new one if there is none yet. */
static int64_t part_of(struct trace_split *s, int64_t first, const struct hvp_tensor *t,
                       bool by_layer)
{
    const char *kind = by_layer ? "" : kind_of(t);
    int64_t layer = by_layer ? t->layer : -1, i = first;
    while (i < s->n && (s->parts[i].layer != layer || strcmp(s->parts[i].kind, kind) != 0)) i++;
    if (i == s->n) s->parts[s->n++] = (struct trace_part){.kind = kind, .layer = layer};
    s->parts[i].elements += t->elements;
    return i;
}

static int by_layer(const void *a, const void *b)
{
    const struct trace_part *x = a, *y = b;
    return (x->layer > y->layer) - (x->layer < y->layer);
}

/* Appends the parts of one way of splitting. */
static enum status add_parts(const struct subject *s, const struct trace_estimate *t, bool layers,
                             struct trace_split *out, struct err *e)
{
    int64_t first = out->n;
    AUTO_FREE int64_t *group = NULL;
    AUTO_FREE double *mean = NULL; // (n), and then the errors (n)
    PASS(mem_alloc(&group, s->n_tensors, sizeof *group, "parts of a trace", e));
    for (int64_t i = 0; i < s->n_tensors; i++)
        group[i] = part_of(out, first, &s->tensors[i], layers) - first;
    int64_t n = out->n - first;
    PASS(mem_alloc(&mean, 2 * n, sizeof *mean, "parts of a trace", e));
    PASS(trace_group(t, group, n, mean, mean + n, e));
    for (int64_t i = 0; i < n; i++) {
        out->parts[first + i].trace = mean[i];
        out->parts[first + i].error = mean[n + i];
    }
    if (layers) qsort(out->parts + first, (size_t)n, sizeof *out->parts, by_layer);
    return OK;
}

enum status trace_split(const struct subject *s, const struct trace_estimate *t,
                        struct trace_split *out, struct err *e)
{
    *out = (struct trace_split){0};
    PASS(mem_zero(&out->parts, 2 * s->n_tensors, sizeof *out->parts, "parts of a trace", e));
    PASS(add_parts(s, t, true, out, e));
    return add_parts(s, t, false, out, e);
}

void trace_split_free(struct trace_split *s)
{
    free(s->parts);
    *s = (struct trace_split){0};
}
