/* What a view leaves out of records. */
#include "records/measures.h"
#include "records/view.h"
#include "util/words.h"
#include <string.h>

/* What a reader is interested in. */
struct interest {
    enum view_content content;
    const char *metrics; /* NULL: all */
};

/* Whether it is one of the metrics, the error of one, or the full-precision loss beside which they
 * are shown. */
static bool is_metric(const char *metrics, const char *variable)
{
    static const char *const endings[] = {"", "_stderr", "_residual", "_converged"};
    const size_t n = strlen(variable);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t m = strlen(endings[i]);
        if (n > m && strcmp(variable + n - m, endings[i]) == 0 &&
            words_have(metrics, ",", variable, n - m))
            return true;
    }
    return strcmp(variable, "baseline_loss") == 0;
}

static bool is_listed(const char *metrics, const char *name)
{
    return name && words_have(metrics, ",", name, strlen(name));
}

/* Whether one of the metrics is made of the variable: a mean, a spread, or the error of one. */
static bool feeds_metric(const char *metrics, const struct measure *k, const char *variable)
{
    for (const struct measure_mean *m = k->means; m && m->of; m++)
        if ((strcmp(variable, m->of) == 0 || (m->of_error && strcmp(variable, m->of_error) == 0)) &&
            (is_listed(metrics, m->mean) || is_listed(metrics, m->error)))
            return true;
    for (int i = 0; recorded_measures[i]; i++)
        for (const struct measure_spread *s = recorded_measures[i]->spreads; s && s->of; s++)
            if ((strcmp(variable, s->of) == 0 || strcmp(variable, s->replicate) == 0) &&
                (is_listed(metrics, s->mean) || is_listed(metrics, s->deviation)))
                return true;
    return false;
}

/* States: times, from which plans learn, and what tells whether an iteration converged. */
static bool wants_field(const struct interest *w, const struct measure *k, const struct field *f)
{
    const struct measure_iterated *i = k->iterated;
    if (i && (strcmp(f->name, i->value) == 0 || strcmp(f->name, i->residual) == 0 ||
              strcmp(f->name, i->converged) == 0))
        return true;
    if (w->content != VIEW_NUMBERS) return f->units && strcmp(f->units, "s") == 0;
    return !w->metrics || is_metric(w->metrics, f->variable) ||
           feeds_metric(w->metrics, k, f->variable);
}

/* Whether a field of any kind has this name in records and is wanted. */
static bool wants_name(const struct interest *w, const char *name)
{
    /* What planning looks for in provenance has that name too. */
    if (strcmp(name, "second_order") == 0) return true;
    for (int k = 0; recorded_measures[k]; k++)
        for (const struct field *f = recorded_measures[k]->fields; f->name; f++)
            if (strcmp(f->name, name) == 0 && wants_field(w, recorded_measures[k], f)) return true;
    return false;
}

/* Whether records have numbers under this name, for each label of their inner axis. */
static bool has_numbers(const char *name)
{
    for (int k = 0; recorded_measures[k]; k++) {
        const struct axis *inner = recorded_measures[k]->inner;
        if (inner && strcmp(inner->plan, name) == 0) return true;
    }
    return false;
}

enum status view_leave_out(enum view_content content, const char *metrics, struct texts *names,
                           struct err *e)
{
    const struct interest w = {content, metrics};
    if (content == VIEW_ALL) return OK;
    /* Labels are known from the plan. */
    static const char *const texts[] = {"host", "path", "utc_start"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) PASS(texts_add(names, texts[i], e));
    const bool numbers = w.content == VIEW_NUMBERS;
    for (int i = 0; results_axes[i]; i++)
        if (!numbers || !has_numbers(results_axes[i]->name))
            PASS(texts_add(names, results_axes[i]->name, e));
    PASS(texts_add(names, numbers ? "inputs" : "fingerprint", e));
    for (const struct measure *const *at = recorded_measures; *at; at++) {
        const struct measure *k = *at;
        for (const struct field *f = k->fields; f->name; f++)
            if ((f->place == IN_VALUES || f->place == IN_INNER) && !wants_name(&w, f->name))
                PASS(texts_add(names, f->name, e));
        if (k->sequences) PASS(texts_add(names, "sequence_loss", e));
        if (k->tables) PASS(texts_add(names, "tables", e));
        if (k->list) PASS(texts_add(names, k->list->name, e));
        if (k->inner && !numbers) PASS(texts_add(names, k->inner->plan, e));
    }
    return OK;
}
