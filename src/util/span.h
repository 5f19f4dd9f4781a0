/* span: lengths of time as people and Slurm write them. */
#pragma once
#include "util/err.h"

enum { SPAN = 32 };

/* Seconds of "90s", "30m", "8h", "1h30m", "2d", or, as sbatch takes them: "30" (minutes), "30:00",
 * "8:00:00", "1-12", "1-12:30", "1-12:30:00". ERR_USAGE, without naming where it stands. */
MUST_USE enum status span_parse(const char *text, double *seconds, struct err *e);
/* As Slurm writes them, in whole minutes, rounded up: "08:00:00", "1-12:30:00". */
void span_slurm(double seconds, char text[SPAN]);
