/* coming: what a law of other runs says of runs that are still trained. No law is known here:
 * analysis/predict.py --ahead writes it into a file beside the results. */
#pragma once
#include "util/json.h"
#include <stdio.h>

/* The object of the file RESULTS.coming.json (docs/fits.md), NULL: there is none; the caller's
 * (json_decref). One that cannot be read is told of in a warning. */
json_t *coming_read(const char *results);

/* A line for each of its runs, method and bit-width (nats a token), or nothing of NULL. */
void coming_print(const json_t *coming, FILE *out);
