/* cube: the variables of a results file, before they are written and when they are compared with
 * what was. Only cube_write.c, cube_read.c and h5.c know HDF5; docs/cube.md is the schema.
 */
#pragma once
#include "results/axes.h"
#include "results/results.h"

enum { CUBE_SCHEMA = 1, CUBE_RANK = 5 };

enum cube_type { CUBE_DOUBLE, CUBE_INTEGER, CUBE_STATUS, CUBE_TEXT };

/* What `status` variables hold; the words are the flag_meanings. */
enum cube_status { STATUS_PENDING, STATUS_DONE, STATUS_FAILED, STATUS_NOT_APPLICABLE, STATUS_N };
extern const char *const cube_status_words[STATUS_N];

/* The first five are the axes of the grid, in the order in which variables have them. */
enum cube_dim_place {
    DIM_MODEL,
    DIM_CHECKPOINT,
    DIM_BITS,
    DIM_QUANTIZER,
    DIM_DATASET,
    DIM_CHECKPOINT_ROW,
    DIM_CELL_ROW,
    DIM_SEQUENCE,
    DIM_CELL,
    DIM_LAYER,
    DIM_POINT,
    DIM_CURVATURE_ROW,
    DIM_TABLE, /* rows of the first of record_tables; the others follow */
    DIM_N = DIM_TABLE + RECORD_TABLES
};

struct cube_dim {
    const char *group, *name; /* group "": the root */
    int64_t n;
};

union cube_data {
    void *any;
    double *d;
    int64_t *i;
    uint8_t *s; /* enum cube_status */
    const char **t;
};

struct cube_variable {
    const char *group, *name;
    enum cube_type type;
    int rank; /* 0: one value */
    enum cube_dim_place dims[CUBE_RANK];
    bool is_scale;     /* the coordinate of its only dimension */
    bool in_cells;     /* of (model, checkpoint), but wanted as a column of the other frames too */
    bool of_curvature; /* of (model, checkpoint), and a column of curvature/ */
    bool volatile_;
    bool may_miss; /* has a fill value: NaN or -1 */
    int64_t n;     /* product of the extents */
    union cube_data data;
    const char *units, *long_name, *coordinates; /* NULL: none */
};

struct cube {
    struct cube_dim dims[DIM_N];
    int64_t n, capacity;
    struct cube_variable **variables;
    int64_t n_owned, owned_capacity;
    char **owned; /* texts made for the cube; all others are borrowed from the view */
    const char *title, *history, *source;
};

/* Everything that the file will hold. Borrows texts from the view. ERR_FORMAT (a malformed plan),
 * ERR_NOMEM. */
MUST_USE enum status cube_build(const struct results_view *v, struct cube *out, struct err *e);
void cube_free(struct cube *c);

/* --- for the parts of cube_build --- */

/* A new variable of like's group, name, type, dims and texts, filled with NaN, -1, not applicable
 * or
 * "". *out is owned by the cube. */
MUST_USE enum status cube_add(struct cube *c, const struct cube_variable *like,
                              struct cube_variable **out, struct err *e);
/* The cube frees the text. */
MUST_USE enum status cube_own(struct cube *c, char *text, struct err *e);
/* The JSON text of a value ("" for NULL), owned by the cube. */
MUST_USE enum status cube_json(struct cube *c, const json_t *value, const char **out,
                               struct err *e);

/* One (checkpoint, dataset) or (cell, dataset): where it is on the grid and what is known of it. A
 * plan without datasets has one row a checkpoint or cell, its dataset -1. */
struct cube_row {
    int64_t at[CUBE_RANK]; /* by enum cube_dim_place; -1: not on that axis */
    int64_t cell;          /* running number of the checkpoint or cell */
    char key[HASH_HEX];
    const json_t *record; /* NULL: pending */
};

struct cube_rows {
    int64_t n, n_cells;
    struct cube_row *rows;
};

/* All rows of the plan's checkpoints, or of its applicable cells, in the order of the axes. v may
 * be NULL: no records. rows is freed with free(). ERR_NOMEM. */
MUST_USE enum status cube_rows_of_checkpoints(const struct axes *a, const struct results_view *v,
                                              struct cube_rows *out, struct err *e);
MUST_USE enum status cube_rows_of_cells(const struct axes *a, const struct results_view *v,
                                        struct cube_rows *out, struct err *e);
/* One row a checkpoint whose curvature the plan asks for, its dataset -1. */
MUST_USE enum status cube_rows_of_curvature(const struct axes *a, const struct results_view *v,
                                            struct cube_rows *out, struct err *e);

/* Pending for NULL. */
enum cube_status cube_status_of(const json_t *record);
/* The element of a grid variable at a row's place; -1 when the row is not on one of its axes. */
int64_t cube_place(const struct cube *c, const struct cube_variable *x, const struct cube_row *row);

/* The variables on the grid, the data frames, the long tables behind curvature/, layers/ and
 * provenance/. Texts are borrowed from the records. ERR_NOMEM. */
MUST_USE enum status cube_build_grid(struct cube *c, const struct axes *a,
                                     const struct cube_rows *checkpoints,
                                     const struct cube_rows *cells,
                                     const struct cube_rows *curvature, struct err *e);
MUST_USE enum status cube_build_frames(struct cube *c, const struct axes *a,
                                       const struct cube_rows *checkpoints,
                                       const struct cube_rows *cells,
                                       const struct cube_rows *curvature, struct err *e);
MUST_USE enum status cube_build_tables(struct cube *c, const struct axes *a,
                                       const struct cube_rows *curvature, struct err *e);
MUST_USE enum status cube_build_layers(struct cube *c, const struct axes *a,
                                       const struct cube_rows *cells, struct err *e);
/* surfaces/, one row a point, exact ones first; and back, into records. */
MUST_USE enum status cube_build_surfaces(struct cube *c, const struct axes *a,
                                         const struct results_view *v, struct err *e);
int64_t cube_n_points(const struct axes *a);
/* How many points of a surface are how far; *message: why the first of those failed, NULL: none. */
MUST_USE enum status cube_surface_state(const struct axis_surface *s, const struct results_view *v,
                                        int64_t by_status[STATUS_N], const char **message,
                                        struct err *e);
MUST_USE enum status cube_build_provenance(struct cube *c, const struct results_view *v,
                                           struct err *e);
