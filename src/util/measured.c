#include "util/measured.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

enum { DIGITS = 9, PART = 24 };

/* Place of the first digit of x: 0 for 1 to 9.99, 1 for 10 to 99.9. */
static int first_place(double x)
{
    return (int)floor(log10(x));
}

/* x rounded to the place, with as many decimals as that has. */
static void put(char text[PART], double x, int place)
{
    double unit = pow(10, place);
    if (place > 0) x = round(x / unit) * unit;
    snprintf(text, PART, "%.*f", place < 0 ? -place : 0, x);
}

static void write_text(double value, double error, bool with_error, char text[MEASURED])
{
    if (error > 0 && isfinite(error) && isfinite(value)) {
        /* error > 0, finite */
        char v[PART], e[PART];
        double size = fmax(fabs(value), error);
        int first = first_place(size), last = first_place(error) - 1;
        if (last < first - DIGITS + 1) last = first - DIGITS + 1;
        const bool scaled = first >= 7 || first <= -5;
        const double by = scaled ? pow(10, -first) : 1;
        put(v, value * by, last - (scaled ? first : 0));
        put(e, error * by, last - (scaled ? first : 0));
        if (!with_error && scaled)
            snprintf(text, MEASURED, "%se%d", v, first);
        else if (!with_error)
            snprintf(text, MEASURED, "%s", v);
        else if (scaled)
            snprintf(text, MEASURED, "(%s ± %s)e%d", v, e, first);
        else
            snprintf(text, MEASURED, "%s ± %s", v, e);
    } else
        snprintf(text, MEASURED, "%.*g", error == 0 ? DIGITS : 4, value);
}

void measured_text(double value, double error, char text[MEASURED])
{
    write_text(value, error, true, text);
}

void measured_value(double value, double error, char text[MEASURED])
{
    write_text(value, error, false, text);
}
