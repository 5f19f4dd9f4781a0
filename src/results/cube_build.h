/* cube_build: makes the variables of a cube from a view's records. Internal to cube_*.c and
 * report/. */
#pragma once
#include "results/cube.h"

/* *out (free with cube_free) = all variables of the file. Borrows texts from the view. ERR_FORMAT
 * (a malformed plan), ERR_NOMEM. */
MUST_USE enum status cube_build(const struct results_view *v, struct cube *out, struct err *e);

/* The steps of cube_build, in this order, with c->all open: the grid; the data frames; lists and
 * tables. */
MUST_USE enum status cube_add_grid(struct cube *c, struct err *e);
MUST_USE enum status cube_add_frames(struct cube *c, struct err *e);
MUST_USE enum status cube_add_lists(struct cube *c, struct err *e);
