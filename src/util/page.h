/* page: text for people, laid out in the width of their terminal. */
#pragma once
#include <stdint.h>
#include <stdio.h>

/* Columns of a page: the environment variable COLUMNS, else those of the terminal that `out` is,
 * else `otherwise`; at least 40. */
int64_t page_width(FILE *out, int64_t otherwise);

/* Columns that a UTF-8 text takes, each character one; NULL takes none. */
int64_t page_columns(const char *text);

/* Prints the words of the text and a newline, broken at blanks into lines of at most `width`
 * columns. The first line begins at column `at`, where the cursor is; the others are indented to
 * column `indent`. A word longer than a line stays whole. */
void page_print(FILE *out, int64_t width, int64_t indent, int64_t at, const char *text);

/* Prints the lines of the text, each of which ends with a newline: those longer than `width` as
 * page_print does, the others as they are. */
void page_print_lines(FILE *out, int64_t width, int64_t indent, char *text);
