/* measured: numbers that are known up to an error, printed no further than that. */
#pragma once

enum { MEASURED = 64 };

/* text = value and standard error to the second digit of the error: "1234 ± 56",
 * "0.0123 ± 0.0045", "(1.234 ± 0.056)e7". At most nine digits of the value. error NaN, unknown: the
 * value to four digits; 0, exact: to nine. */
void measured_text(double value, double error, char text[MEASURED]);
/* The same without the error: "1234". */
void measured_value(double value, double error, char text[MEASURED]);
