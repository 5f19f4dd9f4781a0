/* Cells with replicates as a table for people: their mean and standard deviation over the
 * replicates, and how many of these are done. */
#include "cube/show.h"
#include "cube/text_table.h"
#include "util/quantity.h"
#include <math.h>

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
