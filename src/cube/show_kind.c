/* Results of a kind other than cells as a table for people: a row a record (and label of its inner
 * axis), its numbers as far as their errors let them be known. */
#include "cube/show.h"
#include "cube/text_table.h"
#include "util/mem.h"
#include "util/quantity.h"
#include <math.h>

/* A column of numbers. error: the field with their standard errors or residuals, NULL: none. */
struct column {
    const struct field *field, *error;
    bool with_error; /* which stands beside them: "1234 ± 56" */
    bool is_error;   /* a residual: two digits */
    bool yes;        /* 1 is yes, 0 is no */
};

struct kind_page {
    const struct show *show;
    const struct rows *rows;
    bool inner;     /* a column has numbers for each label of the inner axis: a row for each */
    int64_t labels; /* columns of what a record is called; then its state */
    int64_t n;
    struct column *columns; // (n)
};

static void page_free(struct kind_page *p)
{
    free(p->columns);
}

static bool is_number(const struct field *f)
{
    return (f->type == FIELD_REAL || f->type == FIELD_INTEGER) && f->rerun == STABLE &&
           (f->place == IN_VALUES || f->place == IN_INNER);
}

/* The field whose variable has f's name and that ending; NULL: none. */
static const struct field *beside(const struct measure *k, const struct field *f,
                                  const char *ending)
{
    size_t n = strlen(f->variable);
    for (const struct field *g = k->fields; g->name; g++)
        if (is_number(g) && strncmp(g->variable, f->variable, n) == 0 &&
            strcmp(g->variable + n, ending) == 0)
            return g;
    return NULL;
}

/* Whether it stands beside another field, with that ending. */
static bool is_beside(const struct measure *k, const struct field *f, const char *ending)
{
    for (const struct field *g = k->fields; g->name; g++)
        if (is_number(g) && beside(k, g, ending) == f) return true;
    return false;
}

static bool is_measured(const struct rows *r, const struct field *f)
{
    for (int64_t i = 0; i < r->n; i++)
        if (result_state_of(r->rows[i].record) == STATE_DONE && row_value(r, &r->rows[i], f))
            return true;
    return false;
}

static enum status choose_columns(struct kind_page *p, struct err *e)
{
    const struct measure *k = p->rows->kind;
    int64_t most = 0;
    for (const struct field *f = k->fields; f->name; f++) most++;
    PASS(mem_zero(&p->columns, most, sizeof *p->columns, "a table", e));
    for (const struct field *f = k->fields; f->name; f++) {
        if (!is_number(f) || !is_measured(p->rows, f)) continue;
        if (!show_wants_metric(p->show, f->variable)) continue;
        /* it stands beside its number, unless it is asked for by name */
        if (!p->show->options->metric && is_beside(k, f, "_stderr")) continue;
        p->inner = p->inner || f->place == IN_INNER;
        const struct field *error = beside(k, f, "_stderr"), *residual = beside(k, f, "_residual");
        p->columns[p->n++] =
            (struct column){.field = f,
                            .error = error ? error : residual,
                            .with_error = error != NULL,
                            .is_error = is_beside(k, f, "_residual"),
                            .yes = k->iterated && strcmp(f->name, k->iterated->converged) == 0};
    }
    return OK;
}

static void put_number(const struct kind_page *p, const struct row *row, const struct column *c,
                       struct table *t, int64_t at)
{
    const json_t *value = row_value(p->rows, row, c->field);
    char text[MEASURED];
    const double number = json_number_get(value);
    if (!value) return;
    if (c->yes)
        table_set(t, at, "%s", number != 0 ? "yes" : "no");
    else if (c->field->type == FIELD_INTEGER)
        table_set(t, at, "%lld", (long long)json_integer_value(value));
    else if (!c->error)
        table_set(t, at, c->is_error ? "%.2g" : "%.6g", number);
    else {
        const double error = json_number_get(row_value(p->rows, row, c->error));
        (c->with_error ? measured_text : measured_value)(number, error, text);
        table_set(t, at, "%s", text);
    }
}

/* What the row is called: its labels on the axes, that of the inner axis behind them. */
static enum status put_labels(const struct kind_page *p, const struct row *row, bool names,
                              struct table *t, struct err *e)
{
    const struct measure *k = p->rows->kind;
    const bool swap = k->axes[0] && k->axes[1] == &axis_checkpoint;
    int64_t n = 0;
    const char *key;
    json_auto_t *labels = json_object();
    json_t *value;
    PASS(row_identify(p->rows, row, labels, e));
    if (p->inner) {
        const int inner = axis_place_of(k->inner);
        const char *label = NULL;
        int64_t number = 0;
        row_label(p->rows, row, inner, &label, &number);
        json_object_set_new(labels, k->inner->name,
                            label || row->at[inner] < 0 ? json_string(label ? label : "")
                                                        : json_sprintf("%lld", (long long)number));
        if (k->within)
            json_object_set_new(labels, k->within->name,
                                json_string(row_within_label(p->rows, row)));
    }
    json_object_foreach(labels, key, value) {
        int64_t at = swap && n < 2 ? 1 - n : n; /* the checkpoint first, then its model */
        t->align_left[at] = true;
        if (names)
            table_set(t, at, "%s", key);
        else if (json_is_string(value))
            table_set(t, at, "%s", json_string_value(value));
        else
            table_set(t, at, "%.6g", json_number_get(value));
        n++;
    }
    return OK;
}

static int64_t count_labels(const struct kind_page *p)
{
    const struct measure *k = p->rows->kind;
    int64_t n = 0;
    while (k->axes[n]) n++;
    if (p->inner) n += k->within ? 2 : 1;
    for (int i = 0; k->identity && k->identity[i]; i++) n++;
    return n;
}

enum status show_kind(const struct show *s, const struct rows *all, struct err *e)
{
    AUTO_FREE struct row *kept = NULL;
    PASS(mem_alloc(&kept, all->n, sizeof *kept, "rows", e));
    struct rows chosen = *all, *rows = &chosen; /* borrowed, but for the array */
    CLEANUP(page_free) struct kind_page p = {.show = s, .rows = rows};
    int64_t n = 0;
    for (int64_t i = 0; i < all->n; i++)
        if (show_wants(s, all, &all->rows[i])) kept[n++] = all->rows[i];
    chosen.rows = kept;
    if ((chosen.n = n) == 0) return OK;
    PASS(choose_columns(&p, e));
    if (!p.inner) { /* the first row of each record */
        n = 0;
        for (int64_t i = 0; i < rows->n; i++)
            if (n == 0 || rows->rows[i].number != rows->rows[n - 1].number)
                rows->rows[n++] = rows->rows[i];
        rows->n = n;
    }
    p.labels = count_labels(&p);
    CLEANUP(table_free)
    struct table t = {.columns = p.labels + 1 + p.n, .left = p.labels + 1};
    t.align_left[p.labels] = true;
    table_add_row(&t);
    PASS(put_labels(&p, &rows->rows[0], true, &t, e));
    for (int64_t k = 0; k < p.n; k++)
        table_set(&t, p.labels + 1 + k, "%s", p.columns[k].field->variable);
    for (int64_t i = 0; i < rows->n; i++) {
        const struct row *row = &rows->rows[i];
        const enum result_state state =
            p.inner ? row_state_here(rows, row, NULL) : row_state(rows, row, NULL);
        table_add_row(&t);
        PASS(put_labels(&p, row, false, &t, e));
        if (state != STATE_DONE) table_set(&t, p.labels, "%s", result_state_words[state]);
        for (int64_t k = 0; k < p.n && state == STATE_DONE; k++)
            put_number(&p, row, &p.columns[k], &t, p.labels + 1 + k);
    }
    PASS(table_print(&t, table_page_width(s->out), s->out, e));
    verdict_print(rows, "\n", s->out);
    return OK;
}

void verdict_print(const struct rows *r, const char *indent, FILE *out)
{
    const struct measure_iterated *k = r->kind->iterated;
    const struct result_convergence c = rows_convergence(r);
    const long long n = c.n, open = c.open;
    if (c.n == 0) return;
    if (open == 0)
        fprintf(out, "%s%lld of %lld %s converged\n", indent, n, n, k->noun);
    else
        fprintf(out, "%s%lld of %lld %s not converged (residual up to %.2g %% of the value: %s)\n",
                indent, open, n, k->noun, 100 * c.residual, k->remedy);
}

/* --- cells with replicates: mean and standard deviation, and how many of them are done --- */

enum { NAME, MODEL, BITS, QUANTIZER, DATASET, COUNT, LEFT };

static const int axes[] = {[NAME] = AXIS_CHECKPOINT,
                           [MODEL] = AXIS_MODEL,
                           [BITS] = AXIS_BITS,
                           [QUANTIZER] = AXIS_QUANTIZER,
                           [DATASET] = AXIS_DATASET};

static bool wants(const struct show *s, const struct measure_spread *x)
{
    return show_wants_metric(s, x->of) || show_wants_metric(s, x->replicate) ||
           show_wants_metric(s, x->mean) || show_wants_metric(s, x->deviation);
}

/* Whether both rows are of replicates of one cell. */
static bool same_cell(const struct row *a, const struct row *b)
{
    for (int k = NAME; k < DATASET; k++)
        if (a->at[axes[k]] != b->at[axes[k]]) return false;
    return true;
}

static double number_at(const struct show *s, const char *name, const struct row *row)
{
    return show_number(s, cube_find(s->cube, name), row);
}

/* row: of the first replicate and a text; n: replicates that were asked for, the cell included. */
static void put_cell(const struct show *s, const struct rows *rows, const struct row *row,
                     int64_t n, struct table *t)
{
    const double done = fmax(number_at(s, rows->kind->spread_count, row), 0);
    int64_t column = LEFT;
    table_add_row(t);
    for (int k = NAME; k <= DATASET; k++) {
        const char *text = NULL;
        int64_t number = 0;
        row_label(rows, row, axes[k], &text, &number);
        if (k == NAME) text = row_checkpoint(rows, row)->name;
        if (text)
            table_set(t, k, "%s", text);
        else
            table_set(t, k, "%lld", (long long)number);
    }
    table_set(t, COUNT, done < (double)n ? "%.0f of %lld" : "%.0f", done, (long long)n);
    for (const struct measure_spread *x = rows->kind->spreads; x->of; x++) {
        const double scale = show_scale(x->of), mean = scale * number_at(s, x->mean, row);
        char text[MEASURED];
        if (!wants(s, x)) continue;
        measured_text(mean, scale * number_at(s, x->deviation, row), text);
        table_set(t, column++, "%s", isnan(mean) ? "-" : text);
    }
}

enum status show_spread(const struct show *s, const struct rows *rows, struct err *e)
{
    CLEANUP(table_free) struct table t = {.columns = LEFT, .left = LEFT};
    int64_t shown = 0;
    for (const struct measure_spread *x = rows->kind->spreads; x->of; x++) t.columns += wants(s, x);
    static const char *const names[LEFT] = {"checkpoint", "model",   "bits",
                                            "quantizer",  "dataset", "number"};
    int64_t column = LEFT;
    table_add_row(&t);
    for (int k = 0; k < LEFT; k++) table_set(&t, k, "%s", names[k]);
    for (const struct measure_spread *x = rows->kind->spreads; x->of; x++)
        if (wants(s, x))
            table_set(&t, column++, "%s%s", x->of, show_scale(x->of) == 1 ? "" : " (%)");
    t.align_left[NAME] = t.align_left[MODEL] = true;
    t.align_left[QUANTIZER] = t.align_left[DATASET] = true;
    for (int64_t from = 0, to; from < rows->n; from = to) {
        int64_t n = 1;
        for (to = from; to < rows->n && same_cell(&rows->rows[from], &rows->rows[to]); to++)
            if (rows->rows[to].at[AXIS_REPLICATE] + 2 > n)
                n = rows->rows[to].at[AXIS_REPLICATE] + 2;
        for (int64_t i = from; i < to && rows->rows[i].at[AXIS_REPLICATE] == 0; i++) {
            if (!show_wants(s, rows, &rows->rows[i])) continue;
            put_cell(s, rows, &rows->rows[i], n, &t);
            shown++;
        }
    }
    if (shown) {
        fprintf(s->out, "mean ± standard deviation over so many replicates, the cell included\n\n");
        PASS(table_print(&t, table_page_width(s->out), s->out, e));
    }
    return OK;
}
