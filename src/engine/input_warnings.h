/* input_warnings: says which texts of a visit overlap (eval/doubts.h: what else is doubtful). */
#pragma once
#include "engine/inputs.h"

/* Logs a warning for each evaluation text of v of which sequences are also calibrated on
 * (overlap.h). ERR_NOMEM. */
MUST_USE enum status warn_of_overlap(const struct visit *v, const struct visit_inputs *in,
                                     struct err *e);
