/* text_table: text in aligned columns, split into blocks if it is wider than the page. */
#pragma once
#include "util/err.h"
#include <stdio.h>

enum { TABLE_ALIGNED = 16 };

/* Set the first two; free with table_free. */
struct table {
    int64_t columns;
    int64_t left;                   /* columns that every block repeats */
    bool align_left[TABLE_ALIGNED]; /* of the first columns; others stand at the right */
    int64_t rows, capacity;
    bool lacks;   /* there was no memory for a cell: table_print says so */
    char **cells; // (rows, columns), owned; NULL: empty
};
void table_free(struct table *t);

/* Appends an empty row; one of these texts (columns; NULL: empty). */
void table_add_row(struct table *t);
void table_add_texts(struct table *t, const char *const *texts);

/* Sets a cell of the last row. Control characters become blanks. */
void table_set(struct table *t, int64_t column, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Prints all rows, in as many blocks as the width asks for; where the repeated columns would take
 * more than half of it, only the first of them is repeated. Columns without text are left out. The
 * caller looks at ferror(out). ERR_NOMEM. */
MUST_USE enum status table_print(const struct table *t, int64_t width, FILE *out, struct err *e);

/* Columns of the page that out is (page_width); 120 when it is no terminal. */
int64_t table_page_width(FILE *out);
