/* quantity: numbers and times as people read them. */
#pragma once
#include <stdint.h>

enum { QUANTITY = 32 };

/* Three digits and a unit: 819200 is "819k", 2.5e12 "2.5T". */
void quantity_count(double count, char text[QUANTITY]);
/* The same with the prefix of a unit: "819k", "2.5T", "37.1P". */
void quantity_prefix(double x, char text[QUANTITY]);
/* So many significant digits at least, without an exponent from 1e-4 to 1e15: 6690 with three
 * digits is "6690", 3e-5 "3e-5". digits: 1 to 15. */
void quantity_plain(double x, int digits, char text[QUANTITY]);
/* "12.3 s", "4.5 min", "6.7 h", "8.9 days"; "0 s" below a microsecond. */
void quantity_time(double seconds, char text[QUANTITY]);
/* The ending of a noun behind a number: "" for 1, else "s". */
const char *quantity_plural(int64_t n);
