/* cube_build: makes the variables of a cube from a view's records. Internal to
 * cube/. */
#pragma once
#include "cube/cube.h"

/* *out (free with cube_free) = all variables of the file. Borrows texts from the view. ERR_FORMAT
 * (a malformed plan), ERR_NOMEM. */
MUST_USE enum status cube_build(const struct results_view *v, struct cube *out, struct err *e);

/* The steps of cube_build, in this order, with c->all open: the variables of the grid; of the data
 * frames; of lists and tables. */
MUST_USE enum status cube_add_grid(struct cube *c, struct err *e);
MUST_USE enum status cube_add_lists(struct cube *c, struct err *e);

/* Fills the variables of the grid that are made of others, once those are full. */
void cube_fill_derived(struct cube *c);

/* Fills the variables that there are with what the view's records have; lists, tables and sequences
 * grow to what they hold. Takes one record at a time (results_view_read). */
MUST_USE enum status cube_fill(struct cube *c, const struct results_view *v, struct err *e);
