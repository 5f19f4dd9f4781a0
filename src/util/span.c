#include "util/span.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
