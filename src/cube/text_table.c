#include "cube/text_table.h"
#include "util/mem.h"
#include "util/page.h"
#include <stdarg.h>

enum { GAP = 2, PAGE = 120 };

void table_free(struct table *t)
{
    for (int64_t i = 0; i < t->rows * t->columns; i++) free(t->cells[i]);
    mem_drop(&t->cells);
    t->rows = 0;
}

void table_add_row(struct table *t)
{
    const int64_t most = (t->rows + 1) * t->columns;
    t->lacks = t->lacks || mem_grow(&t->cells, most, &t->capacity, sizeof *t->cells, NULL) != OK;
    if (t->lacks) return;
    for (int64_t k = 0; k < t->columns; k++) t->cells[t->rows * t->columns + k] = NULL;
    t->rows++;
}

void table_add_texts(struct table *t, const char *const *texts)
{
    table_add_row(t);
    for (int64_t k = 0; k < t->columns; k++)
        if (texts[k]) table_set(t, k, "%s", texts[k]);
}

void table_set(struct table *t, int64_t column, const char *fmt, ...)
{
    if (t->lacks) return;
    char **cell = &t->cells[(t->rows - 1) * t->columns + column];
    va_list ap;
    va_start(ap, fmt);
    free(*cell);
    if (vasprintf(cell, fmt, ap) < 0) *cell = NULL;
    va_end(ap);
    t->lacks = !*cell;
    for (char *p = *cell; p && *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127) *p = ' ';
}

static void print_cell(const struct table *t, int64_t row, int64_t column, int64_t width, bool last,
                       FILE *out)
{
    const char *text = t->cells[row * t->columns + column];
    int pad = (int)(width - page_columns(text));
    if (!text) text = "";
    if (column >= TABLE_ALIGNED || !t->align_left[column])
        fprintf(out, "%*s%s", pad, "", text);
    else
        fprintf(out, "%s%*s", text, last ? 0 : pad, "");
    if (!last) fprintf(out, "%*s", GAP, "");
}

/* The columns before `left` and those from `from` to before `to`. */
static void print_block(const struct table *t, const int64_t *widths, int64_t left, int64_t from,
                        int64_t to, FILE *out)
{
    int64_t last = left - 1;
    for (int64_t k = from; k < to; k++)
        if (widths[k]) last = k;
    for (int64_t row = 0; row < t->rows; row++) {
        for (int64_t k = 0; k < to; k++) {
            if (k == left && k < from) k = from;
            if (widths[k]) print_cell(t, row, k, widths[k], k == last, out);
        }
        putc('\n', out);
    }
}

enum status table_print(const struct table *t, int64_t width, FILE *out, struct err *e)
{
    AUTO_FREE int64_t *widths = NULL;
    int64_t used_left = 0;
    NEED(!t->lacks, ERR_NOMEM, "out of memory for a table");
    PASS(mem_zero(&widths, t->columns, sizeof *widths, "a table", e));
    for (int64_t i = 0; i < t->rows * t->columns; i++) {
        int64_t n = page_columns(t->cells[i]), k = i % t->columns;
        if (n > widths[k]) widths[k] = n;
    }
    /* Columns that each block repeats: those of the table, or only the first if they would take
     * more than half of the page. */
    int64_t taken = 0, all = 0;
    for (int64_t k = 0; k < t->columns; k++) {
        all += widths[k] ? widths[k] + GAP : 0;
        if (k < t->left) taken = all;
    }
    const int64_t left =
        all - GAP <= width || taken <= width / 2 || t->left == t->columns ? t->left : 1;
    for (int64_t k = 0; k < left; k++) used_left += widths[k] ? widths[k] + GAP : 0;
    for (int64_t from = left, to; from < t->columns || from == left; from = to) {
        int64_t used = used_left;
        for (to = from; to < t->columns; to++) {
            used += widths[to] ? widths[to] + GAP : 0;
            if (used - GAP > width && to > from) break;
        }
        if (from > left) putc('\n', out);
        print_block(t, widths, left, from, to, out);
        if (to == from) break;
    }
    return OK;
}

int64_t table_page_width(FILE *out)
{
    return page_width(out, PAGE);
}
