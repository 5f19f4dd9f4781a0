/* text_table: text in aligned columns, split into blocks if it is wider than the page. */
#pragma once
#include "util/err.h"
#include <stdio.h>

struct table {
    int64_t columns, rows, capacity;
    int64_t left;     /* columns that every block repeats */
    bool *align_left; // (columns)
    char **cells;     // (rows, columns), owned; NULL: empty
};

/* Makes a table without rows; call table_free even after a failure. All functions: ERR_NOMEM. */
MUST_USE enum status table_init(struct table *t, int64_t columns, int64_t left, struct err *e);
void table_free(struct table *t);

/* Appends an empty row. */
MUST_USE enum status table_add_row(struct table *t, struct err *e);

/* Sets a cell of the last row. Control characters become blanks. */
MUST_USE enum status table_set(struct table *t, int64_t column, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Prints all rows, in as many blocks as the width asks for; where the repeated columns would take
 * more than half of it, only the first of them is repeated. Columns without text are left out. The
 * caller looks at ferror(out). */
MUST_USE enum status table_print(const struct table *t, int64_t width, FILE *out, struct err *e);

/* Columns of the page that out is (page_width); 120 when it is no terminal. */
int64_t table_page_width(FILE *out);
