#include "report/show.h"
#include <errno.h>
#include <string.h>

bool show_wants_model(const struct show *s, int64_t model)
{
    const char *name = s->options->model;
    return !name || strcmp(name, s->axes.models[model].name) == 0;
}

bool show_wants_dataset(const struct show *s, int64_t dataset)
{
    const char *name = s->options->dataset;
    return !name || (dataset >= 0 && strcmp(name, s->axes.datasets[dataset]) == 0);
}

bool show_wants_variant(const struct show *s, const struct axis_variant *v)
{
    const char *name = s->options->quantizer;
    return v->applicable && (!name || strcmp(name, s->axes.quantizers[v->quantizer_at]) == 0) &&
           (!s->options->bits || s->options->bits == s->axes.bits[v->bits_at]);
}

/* --- options that choose nothing --- */

static void append(char *list, size_t size, const char *name)
{
    size_t n = strlen(list);
    snprintf(list + n, size - n, "%s%s", n ? ", " : "", name);
}

static enum status refuse(const char *axis, const char *wanted, const char *list, struct err *e)
{
    enum status st = OK;
    FAIL(ERR_USAGE, "no %s %s in these results; there are: %s", axis, wanted, list);
done:
    return st;
}

static enum status check_label(const char *axis, const char *wanted, const char *const *labels,
                               int64_t n, struct err *e)
{
    char list[256] = "";
    if (!wanted) return OK;
    for (int64_t i = 0; i < n; i++) {
        if (strcmp(wanted, labels[i]) == 0) return OK;
        append(list, sizeof list, labels[i]);
    }
    return refuse(axis, wanted, list, e);
}

static enum status check_model(const struct show *s, struct err *e)
{
    char list[256] = "";
    for (int64_t i = 0; i < s->axes.n_models; i++) {
        if (show_wants_model(s, i)) return OK;
        append(list, sizeof list, s->axes.models[i].name);
    }
    return s->options->model ? refuse("model", s->options->model, list, e) : OK;
}

static enum status check_bits(const struct show *s, struct err *e)
{
    char list[256] = "", number[32];
    if (!s->options->bits) return OK;
    for (int64_t i = 0; i < s->axes.n_bits; i++) {
        if (s->axes.bits[i] == s->options->bits) return OK;
        snprintf(number, sizeof number, "%lld", (long long)s->axes.bits[i]);
        append(list, sizeof list, number);
    }
    snprintf(number, sizeof number, "%lld", (long long)s->options->bits);
    return refuse("bit-width", number, list, e);
}

enum status results_show(const struct results_view *v, const struct show_options *o, FILE *out,
                         struct err *e)
{
    enum status st = OK;
    struct show s = {.view = v, .options = o, .out = out};
    TRY(axes_of_plan(results_view_plan(v), &s.axes, e));
    TRY(check_model(&s, e));
    TRY(check_bits(&s, e));
    TRY(check_label("quantizer", o->quantizer, s.axes.quantizers, s.axes.n_quantizers, e));
    TRY(check_label("dataset", o->dataset, s.axes.datasets, s.axes.n_datasets, e));
    if (o->csv || o->json)
        TRY(show_rows(&s, e));
    else
        TRY(show_tables(&s, e));
    ENSURE(fflush(out) == 0 && !ferror(out), ERR_IO, "cannot write the table: %s", strerror(errno));
done:
    axes_free(&s.axes);
    return st;
}
