/* cube_variables: what a cube can hold, from the tables that it is made from. */
#pragma once
#include "util/err.h"
#include "util/json.h"
#include <stdio.h>

/* *out = an object for each variable of a cube with all kinds of result and all axes, with its
 * group, name, axes, type, units and meaning; the caller frees it, also after a failure. Columns of
 * data frames that repeat other variables are left out. ERR_NOMEM. */
MUST_USE enum status cube_variables(json_t **out, struct err *e);
/* Prints them by group and axes. */
void cube_variables_print(const json_t *variables, FILE *out);
