/* view: how a view is put together, from a journal or from a cube. */
#pragma once
#include "results/results.h"

/* An empty view; close it also after a failure. ERR_NOMEM. */
MUST_USE enum status view_new(struct results_view **out, struct err *e);

/* The next record in the order of the journal; the view keeps references. Records of unknown types
 * are left alone. ERR_NOMEM. */
MUST_USE enum status view_add(struct results_view *v, const json_t *record, struct err *e);

/* Reads a cube back into the records that made it. NaN and absent numbers are one in a cube: such
 * values are left out. ERR_IO, ERR_FORMAT. */
MUST_USE enum status cube_read(const char *path, struct results_view **out, struct err *e);
