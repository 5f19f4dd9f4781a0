/* status_hand: the visits that runs have in hand, as status tells them. */
#pragma once
#include "cube/results_report.h"

/* One line a visit, the oldest first, of each part that runs or of the one run; none if nothing is
 * known. */
void status_hand_print(const struct report_about *about, FILE *out);
/* The same as a list of objects (records/hand.h), with "part": "3/8" where there are parts: a new
 * reference; NULL: out of memory. */
json_t *status_hand_json(const struct report_about *about);
