#include "cube/show.h"
#include "cube/cube_build.h"
#include "options/nearest.h"
#include "util/mem.h"
#include "util/texts.h"
#include "util/words.h"
#include <errno.h>
#include <math.h>
#include <string.h>

/* --- which results and numbers were asked for --- */

enum { LABEL = 24 }; /* room for a number */

static const char *const keys[] = {"model",   "checkpoint", "bits",   "quantizer",
                                   "dataset", "task",       "surface"};
enum { KEYS = sizeof keys / sizeof *keys };

/* What a row is called by that key; NULL: its kind has none. number is room for one. */
static const char *label_of(const struct rows *r, const struct row *row, const char *key,
                            char number[LABEL])
{
    const struct measure *k = r->kind;
    for (int i = 0; results_axes[i]; i++) {
        const char *text = NULL;
        int64_t value = 0;
        if (strcmp(results_axes[i]->name, key) != 0 || !measure_has_axis(k, results_axes[i]))
            continue;
        if (results_axes[i] == &axis_checkpoint) return row_checkpoint(r, row)->name;
        row_label(r, row, i, &text, &value);
        if (!text) snprintf(number, LABEL, "%lld", (long long)value);
        return text ? text : number;
    }
    for (const struct field *f = k->fields; f->name; f++) {
        if (f->place != IN_LABELS || strcmp(f->name, key) != 0) continue;
        const json_t *value = row_value(r, row, f);
        if (!json_is_integer(value)) return json_is_string(value) ? json_string_value(value) : "";
        snprintf(number, LABEL, "%lld", (long long)json_integer_value(value));
        return number;
    }
    return NULL;
}

bool show_wants_label(const struct show *s, const char *key, const char *label)
{
    return choices_take(s->options->only, s->options->n_only, key, label);
}

bool show_wants(const struct show *s, const struct rows *r, const struct row *row)
{
    char number[LABEL];
    for (int i = 0; i < KEYS; i++) {
        const char *label = label_of(r, row, keys[i], number);
        if (label && !show_wants_label(s, keys[i], label)) return false;
    }
    return true;
}

bool show_wants_metric(const struct show *s, const char *name)
{
    const char *asked = s->options->metric;
    return !asked || words_have(asked, ",", name, strlen(name));
}

double show_number(const struct show *s, const struct cube_variable *x, const struct row *row)
{
    const int64_t i = x ? cube_place(s->cube, x, row) : -1;
    if (i < 0) return NAN;
    if (x->type == FIELD_REAL) return x->data.d[i];
    return x->data.i[i] < 0 ? NAN : (double)x->data.i[i];
}

/* --- what there is --- */

/* ERR_USAGE: what was asked for, and what there is of it. */
static enum status fail_absent(const char *what, const char *name, const struct texts *there,
                               struct err *e)
{
    char advice[sizeof e->text - 100]; /* the rest is for the name */
    nearest_advice(name, (const char *const *)there->text, there->n, advice, sizeof advice);
    RAISE(ERR_USAGE, "no %s %s in these results%s", what, name, advice);
}

static enum status check_choice(const struct rows *r, const char *key, const char *choice,
                                struct err *e)
{
    CLEANUP(texts_free) struct texts there = {0};
    char number[LABEL];
    bool any = false;
    for (int64_t i = 0; i < r->n && !any; i++) {
        const char *label = label_of(r, &r->rows[i], key, number);
        NEED(label, ERR_USAGE, "--only %s: results of kind %s have no %s", choice, r->kind->name,
             key);
        any = choices_take(&choice, 1, key, label);
        PASS(texts_add(&there, label, e));
    }
    if (!any && r->n) PASS(fail_absent(key, choice_pattern(choice, key), &there, e));
    return OK;
}

static enum status check(const struct show *s, const struct rows *r, struct err *e)
{
    const struct show_options *o = s->options;
    for (int64_t i = 0; i < o->n_only; i++) {
        int k = 0;
        while (k < KEYS && !choice_pattern(o->only[i], keys[k])) k++;
        NEED(k < KEYS, ERR_USAGE,
             "--only %s: expected model=, checkpoint=, bits=, quantizer=, dataset=, task= or "
             "surface= and a shell pattern",
             o->only[i]);
        PASS(check_choice(r, keys[k], o->only[i], e));
    }
    CLEANUP(texts_free) struct texts there = {0};
    AUTO_FREE char *name = NULL;
    /* The names of the numbers that rows of the kind have. */
    for (const struct field *f = r->kind->fields; f->name; f++) {
        bool number = f->type == FIELD_REAL || f->type == FIELD_INTEGER;
        if (number && (f->place == IN_VALUES || f->place == IN_INNER))
            PASS(texts_add(&there, f->variable, e));
    }
    for (int64_t i = 0; r->kind->axes[0] && i < s->cube->n; i++) {
        const struct cube_variable *x = s->cube->variables[i];
        bool number = x->type == FIELD_REAL || x->type == FIELD_INTEGER;
        if (x->of && number && cube_is_along(x, r->kind)) PASS(texts_add(&there, x->name, e));
    }
    for (const char *p = s->options->metric; p && *p;) {
        size_t n = strcspn(p, ",");
        bool known = false;
        for (int64_t i = 0; i < there.n; i++)
            known = known || (strlen(there.text[i]) == n && memcmp(there.text[i], p, n) == 0);
        mem_drop(&name);
        PASS(mem_format(&name, e, "%.*s", (int)n, p));
        if (!known) PASS(fail_absent("metric", name, &there, e));
        p += n + (p[n] != '\0');
    }
    return OK;
}

/* --- all forms --- */

/* The rows of the kind asked for; if none is, of the one that all metrics asked for belong to, so
 * that a sharpness is printed once for each checkpoint and not for each of its cells. */
static enum status choose_kind(const struct show *s, const struct rows **out, struct err *e)
{
    const struct measure *of = NULL;
    const char *name = s->options->kind;
    char advice[200];
    int64_t n = 0;
    for (int64_t i = 0; !name && s->options->metric && i < s->cube->n; i++) {
        const struct cube_variable *x = s->cube->variables[i];
        if (!x->of || !show_wants_metric(s, x->name)) continue;
        /* what is made of several records is in no row of one */
        if ((of && of != x->of) || !x->field) of = &measure_cell;
        if (of == &measure_cell) break;
        of = x->of;
    }
    if (!name) name = of ? of->name : measure_cell.name;
    for (; recorded_names[n]; n++) {
        *out = &s->cube->all.rows[n];
        if (strcmp(recorded_names[n], name) == 0) return OK;
    }
    nearest_advice(name, recorded_names, n, advice, sizeof advice);
    RAISE(ERR_USAGE, "no kind of result %s%s", name, advice);
}

enum status report_show(const struct results_view *v, const struct show_options *o, FILE *out,
                        struct err *e)
{
    CLEANUP(cube_free) struct cube cube = {0};
    const struct rows *rows = NULL;
    struct show s = {.cube = &cube, .options = o, .out = out};
    PASS(inventory_open(v->plan, v, &cube.all, e));
    PASS(cube_add_grid(&cube, e));
    PASS(cube_fill(&cube, v, e));
    PASS(choose_kind(&s, &rows, e));
    PASS(check(&s, rows, e));
    if (o->csv || o->json)
        PASS(show_rows(&s, rows, e));
    else if (rows->kind == &measure_cell)
        PASS(show_tables(&s, e));
    else if (rows->kind->spreads)
        PASS(show_spread(&s, rows, e));
    else
        PASS(show_kind(&s, rows, e));
    NEED(fflush(out) == 0 && !ferror(out), ERR_FULL, "cannot write the table: %s", strerror(errno));
    return OK;
}
