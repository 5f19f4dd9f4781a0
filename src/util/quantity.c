#include "util/quantity.h"
#include <math.h>
#include <stdio.h>
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
