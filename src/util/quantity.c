#include "util/quantity.h"
#include <stdio.h>

void quantity_count(double count, char text[QUANTITY])
{
    static const char units[] = " kMBT";
    int unit = 0;
    while (count >= 999.5 && unit < 4) {
        count /= 1000;
        unit++;
    }
    snprintf(text, QUANTITY, "%.3g%.*s", count, unit > 0, &units[unit]);
}

void quantity_time(double seconds, char text[QUANTITY])
{
    static const struct {
        double at_least, unit;
        const char *name;
    } units[] = {{2 * 86400, 86400, "days"}, {5400, 3600, "h"}, {90, 60, "min"}, {0, 1, "s"}};
    int i = 0;
    while (i < 3 && !(seconds >= units[i].at_least)) i++;
    snprintf(text, QUANTITY, "%.3g %s", seconds / units[i].unit, units[i].name);
}

const char *quantity_plural(int64_t n)
{
    return n == 1 ? "" : "s";
}
