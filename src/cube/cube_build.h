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
MUST_USE enum status cube_add_frames(struct cube *c, struct err *e);
MUST_USE enum status cube_add_lists(struct cube *c, struct err *e);

/* The group of training curves, if the plan has some. */
MUST_USE enum status cube_add_training(struct cube *c, struct err *e);

/* The variables that are made of others, and their values, once those that they are made of are
 * full. */
MUST_USE enum status cube_add_derived(struct cube *c, struct err *e);
void cube_fill_derived(struct cube *c);

/* The common tokens of the plan, if it has some, and the losses per common token; the values of
 * these, once bits per byte are there. */
MUST_USE enum status cube_add_common(struct cube *c, struct err *e);
void cube_fill_common(struct cube *c);

/* Fills the variables that there are with what the view's records have; lists, tables and sequences
 * grow to what they hold. Takes one record at a time (results_view_read). */
MUST_USE enum status cube_fill(struct cube *c, const struct results_view *v, struct err *e);

/* The variables of a group that are filled from fields of a kind's records. */
struct cube_fields {
    int64_t n, capacity;
    struct cube_variable **x; // (n)
};
/* The caller frees out->x, also after a failure. ERR_NOMEM. */
MUST_USE enum status cube_fields_of(const struct cube *c, const struct measure *k,
                                    const char *group, struct cube_fields *out, struct err *e);

/* The list of a kind while it is filled; *out is NULL if the kind or the cube has none. ERR_NOMEM.
 */
struct cube_list;
MUST_USE enum status cube_list_begin(struct cube *c, const struct rows *r, struct cube_list **out,
                                     struct err *e);
MUST_USE enum status cube_list_take(struct cube_list *l, const struct row *row, struct err *e);
void cube_list_end(struct cube_list *l);
CLEANUP_BY_VALUE(struct cube_list, cube_list_end);

/* Adds the row's record to the tables of its kind that the cube has. ERR_NOMEM. */
MUST_USE enum status cube_tables_take(struct cube *c, const struct measure *k,
                                      const struct row *row, struct err *e);
