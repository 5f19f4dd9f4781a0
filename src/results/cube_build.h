/* cube_build: a view's records as the variables of a cube. Internal to cube_*.c and report/. */
#pragma once
#include "results/cube.h"

/* Everything that the file will hold. Borrows texts from the view. *out is freed with cube_free.
 * ERR_FORMAT (a malformed plan), ERR_NOMEM. */
MUST_USE enum status cube_build(const struct results_view *v, struct cube *out, struct err *e);

/* Its parts, in this order, where c->all is open: the grid; the data frames; lists and tables. */
MUST_USE enum status cube_add_grid(struct cube *c, struct err *e);
MUST_USE enum status cube_add_frames(struct cube *c, struct err *e);
MUST_USE enum status cube_add_lists(struct cube *c, struct err *e);
