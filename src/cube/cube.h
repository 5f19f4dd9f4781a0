/* cube: the variables of a results file in memory. Only cube_write.c, cube_read.c and h5.c use
 * HDF5; docs/cube.md describes the file. */
#pragma once
#include "records/rows.h"

enum { CUBE_SCHEMA = 1, CUBE_RANK = AXES_MAX };

struct cube_dim {
    const char *group, *name; /* group "": the root */
    int64_t n;
    bool absent; /* of an axis that the plan does not have: it is not in the file */
};

union cube_data {
    void *any;
    double *d;
    int64_t *i;
    uint8_t *s; /* enum result_state */
    const char **t;
};
/* Bytes of an element in memory. */
extern const size_t cube_element_size[FIELD_TYPES];

struct cube_variable {
    const char *group, *name;
    enum field_type type;
    int rank;                  /* 0: one value */
    int dims[CUBE_RANK];       /* indices into cube.dims */
    bool is_scale;             /* the coordinate of its only dimension */
    const struct measure *of;  /* kind of the records that it is filled from; NULL: from the plan */
    const struct field *field; /* of these records */
    const struct cube_variable *from; /* a column that repeats this grid variable; NULL: none */
    bool volatile_;
    bool may_miss; /* has a fill value: NaN or -1 */
    int64_t n;     /* product of the extents */
    int64_t capacity;
    union cube_data data;
    const char *units, *long_name, *coordinates; /* NULL: none */
};

struct cube {
    struct inventory all;
    int64_t n_dims, dims_capacity;
    struct cube_dim *dims; // (n_dims), the axes in the order of results_axes first
    int64_t n, capacity;
    struct cube_variable **variables; // (n)
    int64_t n_owned, owned_capacity;
    char **owned; /* texts made for the cube; all others are borrowed from the plan and the rows */
    const char *title, *history, *source;
    const char *coordinates; /* names of the trajectory tables' variables, with blanks between */
};

/* Frees what the cube owns. */
void cube_free(struct cube *c);

/* Adds a dimension; *out: its index. ERR_NOMEM. */
MUST_USE enum status cube_add_dim(struct cube *c, const char *group, const char *name, int64_t n,
                                  int *out, struct err *e);

/* Adds a variable with like's group, name, type, dims and texts, filled with NaN, -1, not
 * applicable or "". *out is owned by the cube. ERR_NOMEM. */
MUST_USE enum status cube_add(struct cube *c, const struct cube_variable *like,
                              struct cube_variable **out, struct err *e);
/* The same, along one dimension (dim, in its group) or none (dim -1, in a group). */
MUST_USE enum status cube_add_column(struct cube *c, const char *group, int dim, const char *name,
                                     enum field_type type, const char *long_name,
                                     struct cube_variable **out, struct err *e);
/* The same for a field, with its texts and fill value, along some dimensions. */
MUST_USE enum status cube_add_field(struct cube *c, const struct field *f, const char *group,
                                    int rank, const int *dims, struct cube_variable **out,
                                    struct err *e);
/* Makes a variable of one dimension longer, and the dimension with it; new elements are missing.
 * ERR_NOMEM. */
MUST_USE enum status cube_extend(struct cube *c, struct cube_variable *x, int64_t n, struct err *e);
/* Gives a variable of two dimensions, of which the second had `before` elements, the extents that
 * they have now; new elements are missing. ERR_NOMEM. */
MUST_USE enum status cube_widen(const struct cube *c, struct cube_variable *x, int64_t before,
                                struct err *e);
/* The coordinate of a dimension: 0, 1, .... */
MUST_USE enum status cube_add_count(struct cube *c, int dim, const char *long_name, struct err *e);

/* The cube frees the text. ERR_NOMEM (it is freed then too). */
MUST_USE enum status cube_own(struct cube *c, char *text, struct err *e);
/* The JSON text of a value ("" for NULL), owned by the cube. */
MUST_USE enum status cube_json(struct cube *c, const json_t *value, const char **out,
                               struct err *e);

/* Sets element i of a variable of numbers or texts; a value of another type leaves it missing.
 * Texts are borrowed. */
void cube_put(struct cube_variable *x, int64_t i, const json_t *value);
/* The same with texts that are the cube's own. ERR_NOMEM. */
MUST_USE enum status cube_put_copy(struct cube *c, struct cube_variable *x, int64_t i,
                                   const json_t *value, struct err *e);

/* Sets element i to element j (-1: none, i stays) of a variable of the same type. */
void cube_copy(struct cube_variable *x, int64_t i, const struct cube_variable *from, int64_t j);

/* Whether a cube may have a group, or a variable on the grid or in a data frame, of that name: then
 * no column of a trajectory table can have it. */
bool cube_reserves(const char *name);

/* The grid variable (or coordinate) of that name; NULL: there is none. */
const struct cube_variable *cube_find(const struct cube *c, const char *name);
/* The variable of that name in a group; NULL: there is none. */
struct cube_variable *cube_find_in(const struct cube *c, const char *group, const char *name);
/* Whether all axes of a grid variable are axes of the kind. */
bool cube_is_along(const struct cube_variable *x, const struct measure *k);
/* Index of a grid variable's element for a row; -1: the row is not on one of its axes. */
int64_t cube_place(const struct cube *c, const struct cube_variable *x, const struct row *row);
