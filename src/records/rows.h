/* rows: which records a plan asks for, and their states. */
#pragma once
#include "records/measures.h"
#include "records/results.h"

/* --- which records there are --- */

/* One row per record or, if its kind has inner axes, per record and label or two. */
struct row {
    int64_t at[AXES_MAX]; /* by index in results_axes; -1: not on that axis */
    int64_t number;       /* index of the record */
    int64_t part;         /* index into rows.parts */
    char key[HASH_HEX];
    const json_t *record; /* NULL: pending */
    json_t *labels;       /* values of fields IN_LABELS in addition to the part's; NULL: none */
};

/* Unit by which records are counted: a trajectory, a surface. */
struct rows_part {
    const char *name;
    const json_t *labels; /* values of fields IN_LABELS that its rows share, borrowed; NULL: none */
    int64_t not_applicable; /* combinations on the axes that the plan does not request */
};

struct rows {
    const struct measure *kind;
    const struct axes *axes;
    int64_t n, capacity, n_records;
    struct row *rows; // (n)
    int64_t n_parts, parts_capacity;
    struct rows_part *parts; // (n_parts)
};

/* Enumerates the rows of a plan in order, with their records in view v (NULL: none). Borrows all
 * three; rows_free *out, also after a failure. ERR_FORMAT (malformed plan), ERR_NOMEM. */
MUST_USE enum status rows_make(const struct measure *k, const struct axes *a,
                               const struct results_view *v, struct rows *out, struct err *e);
void rows_free(struct rows *r);

/* For kind.add_rows. rows_add_part: starts a new part, to which later rows belong (kinds on the
 * grid already have the models as parts). rows_add: adds a copy of *like for each label of the
 * inner axis (one if there is none) and retains its labels. ERR_NOMEM. */
MUST_USE enum status rows_add_part(struct rows *r, const char *name, const json_t *labels,
                                   struct err *e);
MUST_USE enum status rows_add(struct rows *r, const struct row *like, struct err *e);
/* Adds the rows of the checkpoint's cells, and counts those that are not applicable. The key of a
 * row is the cell's (results_cell_key of `base`); with own, that of the measure's record of the
 * cell (results_task_key). ERR_NOMEM. */
MUST_USE enum status rows_add_cells(struct rows *r, int64_t m, int64_t c, const char *base,
                                    const char *own, struct err *e);

/* First row of the record after row i's record. */
int64_t rows_next(const struct rows *r, int64_t i);
/* Label of the row on an axis: *text for an axis of texts, else *number. */
void row_label(const struct rows *r, const struct row *row, int axis, const char **text,
               int64_t *number);
/* Its label on the inner axis as records have it; number is room for one. NULL: the axis has none.
 */
enum { ROW_NUMBER = 24 };
const char *row_inner_label(const struct rows *r, const struct row *row, char number[ROW_NUMBER]);
/* The same on the axis within it; "": it has no such axis. */
const char *row_within_label(const struct rows *r, const struct row *row);
/* The row's checkpoint, of a kind whose first two axes are model and checkpoint. */
const struct axis_checkpoint *row_checkpoint(const struct rows *r, const struct row *row);
/* Sets the identifying fields of a record. ERR_NOMEM. */
MUST_USE enum status row_identify(const struct rows *r, const struct row *row, json_t *record,
                                  struct err *e);
/* The object of the row's record that has its fields of a place, borrowed; NULL: none. Not for
 * IN_LABELS. */
const json_t *row_object(const struct rows *r, const struct row *row, enum field_place place);
/* A field of the row's record, borrowed; NULL: none. Not for the FRAME_ ones. */
const json_t *row_value(const struct rows *r, const struct row *row, const struct field *f);

/* --- states and counts --- */

/* The state of a row's record with all texts of the plan: pending if it lacks the scores of one;
 * *message (may be NULL) = why it failed. */
enum result_state row_state(const struct rows *r, const struct row *row, const char **message);
/* The same with the row's text alone, if it is of one. */
enum result_state row_state_here(const struct rows *r, const struct row *row, const char **message);

struct result_counts {
    int64_t by_state[STATE_N];
    int64_t records;     /* number of applicable records */
    int64_t to_score;    /* those that are pending only since they lack scores on added texts */
    const char *message; /* message of the first failed record; NULL: none failed */
};
/* Counts the records of a part (-1: all parts). */
struct result_counts rows_count(const struct rows *r, int64_t part);

/* How many of a kind's iterated numbers there are, and how many did not converge. */
struct result_convergence {
    int64_t n, open;
    double residual; /* the largest of those that did not, relative to the number; 0: none */
};
struct result_convergence rows_convergence(const struct rows *r);

/* --- all kinds of a plan --- */

/* The rows of all kinds of a plan, with their records. */
struct inventory {
    json_t *plan; /* retained */
    struct axes axes;
    struct rows rows[RECORDED_N]; /* by index in recorded_measures */
};

/* Borrows the view's records (v NULL: nothing is finished). Do not move *out: its rows point into
 * it. inventory_close it, also after a failure. ERR_FORMAT (malformed plan), ERR_NOMEM. */
MUST_USE enum status inventory_open(const json_t *plan, const struct results_view *v,
                                    struct inventory *out, struct err *e);
/* Drops the rows of all but the visits first to end - 1 of the whole plan: of its checkpoints, then
 * one per point of a surface. */
void inventory_cut(struct inventory *all, int64_t first, int64_t end);
/* Counts the records of all kinds that are reported, of those visits; without messages. */
struct result_counts inventory_count(const struct inventory *all, int64_t first, int64_t end);
void inventory_close(struct inventory *all);

/* out = "cell small step100 gptq 3 bits", as far as a record says it. */
void result_describe(const json_t *record, char *out, size_t size);

/* Says how many results of its plan the view leaves out (its `stale`), and the first of
 * them: for who shows the others. ERR_FORMAT, ERR_NOMEM. */
MUST_USE enum status results_warn_of_stale(const struct results_view *v, struct err *e);
