/* quantity: numbers and times as people read them, and lengths of time as they write them. */
#pragma once
#include "util/err.h"
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

/* --- lengths of time as people and Slurm write them --- */

enum { SPAN = 32 };

/* Seconds of "90s", "30m", "8h", "1h30m", "2d", or, as sbatch takes them: "30" (minutes), "30:00",
 * "8:00:00", "1-12", "1-12:30", "1-12:30:00". ERR_USAGE, without naming where it stands. */
MUST_USE enum status span_parse(const char *text, double *seconds, struct err *e);
/* As Slurm writes them, in whole minutes, rounded up: "08:00:00", "1-12:30:00". */
void span_slurm(double seconds, char text[SPAN]);

/* --- numbers that are known up to an error --- */

enum { MEASURED = 64 };

/* text = value and standard error to the second digit of the error: "1234 ± 56",
 * "0.0123 ± 0.0045", "(1.234 ± 0.056)e7". At most nine digits of the value. error NaN, unknown: the
 * value to four digits; 0, exact: to nine. */
void measured_text(double value, double error, char text[MEASURED]);
/* The same without the error: "1234". */
void measured_value(double value, double error, char text[MEASURED]);
