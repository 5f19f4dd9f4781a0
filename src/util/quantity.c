#include "util/quantity.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* units: of 1, 1e3, 1e6, ... */
static void put_unit(double x, const char *units, char text[QUANTITY])
{
    int unit = 0;
    while (x >= 999.5 && units[unit + 1]) {
        x /= 1000;
        unit++;
    }
    snprintf(text, QUANTITY, "%.3g%.*s", x, unit > 0, &units[unit]);
}

void quantity_count(double count, char text[QUANTITY])
{
    put_unit(count, " kMBT", text);
}

void quantity_prefix(double x, char text[QUANTITY])
{
    put_unit(x, " kMGTPE", text);
}

void quantity_plain(double x, int digits, char text[QUANTITY])
{
    if (fabs(x) >= pow(10, digits) - 0.5 && fabs(x) < 1e15) {
        snprintf(text, QUANTITY, "%.0f", x);
        return;
    }
    snprintf(text, QUANTITY, "%.*g", digits, x);
    char *power = strstr(text, "e-0");
    if (power) memmove(power + 2, power + 3, strlen(power + 3) + 1);
}

void quantity_time(double seconds, char text[QUANTITY])
{
    static const struct {
        double at_least, unit;
        const char *name;
    } units[] = {{1000 * 86400., 365 * 86400., "years"},
                 {2 * 86400, 86400, "days"},
                 {5400, 3600, "h"},
                 {90, 60, "min"},
                 {0, 1, "s"}};
    enum { SECONDS = sizeof units / sizeof *units - 1 };
    const double least = 1e-6; /* what is below is a rest of rounding */
    int i = 0;
    if (seconds < least) seconds = 0;
    while (i < SECONDS && !(seconds >= units[i].at_least)) i++;
    snprintf(text, QUANTITY, "%.3g %s", seconds / units[i].unit, units[i].name);
}

const char *quantity_plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* --- lengths of time --- */

/* "1h30m": false if it is none. */
static bool parse_units(const char *p, double *seconds)
{
    static const char units[] = "smhd";
    static const double worth[] = {1, 60, 3600, 86400};
    *seconds = 0;
    while (*p) {
        char *end;
        if (*p < '0' || *p > '9') return false;
        const double x = strtod(p, &end);
        const char *unit = *end ? strchr(units, *end) : NULL;
        if (!unit) return false;
        *seconds += x * worth[unit - units];
        p = end + 1;
    }
    return true;
}

/* "[D-]A[:B[:C]]": with days, A are hours; else A alone and A:B begin with minutes. */
static bool parse_slurm(const char *p, double *seconds)
{
    double field[3] = {0};
    int n = 0;
    char *end;
    const bool days = strchr(p, '-') != NULL;
    *seconds = 0;
    if (days) {
        if (*p < '0' || *p > '9') return false;
        *seconds = 86400 * (double)strtol(p, &end, 10);
        if (*end != '-') return false;
        p = end + 1;
    }
    for (; n < 3; p = end + 1) {
        if (*p < '0' || *p > '9') return false;
        field[n++] = (double)strtol(p, &end, 10);
        if (*end == '\0') break;
        if (*end != ':') return false;
    }
    if (*end) return false;
    const bool hours = days || n == 3;
    *seconds += hours ? 3600 * field[0] + 60 * field[1] + field[2] : 60 * field[0] + field[1];
    return true;
}

enum status span_parse(const char *text, double *seconds, struct err *e)
{
    const bool units = *text && strchr("smhd", text[strlen(text) - 1]);
    if (!(units ? parse_units(text, seconds) : parse_slurm(text, seconds))) {
        RAISE(ERR_USAGE,
              "\"%s\" is no length of time: expected 90s, 30m, 8h, 1h30m, 2d, or as in sbatch "
              "30 (minutes), 8:00:00, 1-12:00:00",
              text);
    }
    return OK;
}

void span_slurm(double seconds, char text[SPAN])
{
    const int64_t minutes = (int64_t)ceil(seconds / 60), days = minutes / 1440;
    const int n = days > 0 ? snprintf(text, SPAN, "%lld-", (long long)days) : 0;
    snprintf(text + n, (size_t)(SPAN - n), "%02d:%02d:00", (int)(minutes % 1440 / 60),
             (int)(minutes % 60));
}

/* --- numbers that are known up to an error --- */

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
