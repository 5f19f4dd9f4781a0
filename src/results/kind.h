/* kind: the table of the kinds of result.
 *
 * A kind is a type of journal record. Its struct says which records a plan requests, which fields
 * they have, and the fields' names in the cube. Cube, show, status, counts, rebuild and
 * `qtraj variables` are made from the table `results_kinds`; no other code depends on the kind of a
 * record. A new kind is a file kind_NAME.c and its name in the list of kinds.c (with a new axis
 * also in the list of axes); a new quantity is one line of its kind's fields.
 *
 * If several records have the same key, the view uses a done one rather than a failed one, and the
 * newest of these, and adds the completions that follow it (view_add). */
#pragma once
#include "results/axes.h"
#include "results/results.h"

/* --- what records hold --- */

enum field_type { FIELD_REAL, FIELD_INTEGER, FIELD_STATUS, FIELD_TEXT, FIELD_TYPES };

/* STABLE fields have the same bits in two equal runs; VOLATILE ones (times, memory, hosts) may
 * differ. */
enum field_rerun { STABLE, VOLATILE };

/* Location of a field in a record. */
enum field_place {
    IN_RECORD,
    IN_VALUES,     /* record["values"] */
    IN_INNER,      /* record[INNER AXIS][LABEL], once per label */
    IN_PROVENANCE, /* record["provenance"]: texts */
    IN_LIST,       /* entries of a list or columns of a table */
    IN_LABELS,     /* not in the record but from the plan (struct row) */
    FRAME_KEY,     /* only in the data frame: the record's key, */
    FRAME_TEXT,    /* a text of the record, */
    FRAME_JSON     /* JSON of the record, as a text */
};

struct field {
    const char *name;     /* in records */
    const char *variable; /* in the cube and in tables: docs/decisions/0001 */
    enum field_place place;
    enum field_type type;
    enum field_rerun rerun;
    const char *units, *long_name; /* units: NULL for texts and states */
};

/* Fields that every kind has: the first two with a separate name per kind in the cube, the others
 * in its data frame. Then the time of a part of the work. Each is the inside of a struct field's
 * braces. */
#define STATUS_FIELD(variable)                                                                     \
    "status", variable, IN_RECORD, FIELD_STATUS, STABLE, NULL,                                     \
        "state of the record; in a done record a NaN is a result"
#define TEXT_FIELD(name, variable, place, rerun, long_name)                                        \
    name, variable, place, FIELD_TEXT, rerun, NULL, long_name
#define MESSAGE_FIELD(variable) TEXT_FIELD("message", variable, IN_RECORD, STABLE, "why it failed")
#define KEY_FIELD               TEXT_FIELD("key", "key", FRAME_KEY, STABLE, "digest of settings and inputs")
#define FINGERPRINT_FIELD                                                                          \
    TEXT_FIELD("fingerprint", "fingerprint", FRAME_TEXT, STABLE, "what the last bits may depend on")
#define PROVENANCE_FIELD                                                                           \
    TEXT_FIELD("provenance", "provenance", FRAME_JSON, VOLATILE, "host, times and paths (JSON)")
#define SECONDS_FIELD(name, variable, long_name)                                                   \
    name, variable, IN_VALUES, FIELD_REAL, VOLATILE, "s", long_name

/* A list of objects with the same fields in each record, [{label: text, NAME: number}, ...]: in the
 * cube a group with variables of (record, part). */
struct record_list {
    const char *name, *group; /* in records; in the cube */
    const char *axis, *label; /* dimension of the parts; key of their names in records */
    const char *long_name;    /* of that dimension's coordinate */
    const struct field *fields;
};

/* A long result, {COLUMN: [...], ...} under record["tables"]: in the cube a group of flat columns
 * with the concatenated rows of all records. */
struct record_table {
    const char *name, *group;
    const struct field *columns;
};

/* --- which records there are --- */

/* One row per record or, if its kind has an inner axis, per record and label. */
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

struct kind;
struct rows {
    const struct kind *kind;
    const struct axes *axes;
    int64_t n, capacity, n_records;
    struct row *rows; // (n)
    int64_t n_parts, parts_capacity;
    struct rows_part *parts; // (n_parts)
};

/* Enumerates the rows of a plan in order, with their records in view v (NULL: none). Borrows all
 * three. ERR_FORMAT (malformed plan), ERR_NOMEM. */
MUST_USE enum status rows_make(const struct kind *k, const struct axes *a,
                               const struct results_view *v, struct rows *out, struct err *e);
void rows_free(struct rows *r);

/* For kind.add_rows. rows_add_part: starts a new part, to which later rows belong (kinds on the
 * grid already have the models as parts). rows_add: adds a copy of *like for each label of the
 * inner axis (one if there is none) and retains its labels. ERR_NOMEM. */
MUST_USE enum status rows_add_part(struct rows *r, const char *name, const json_t *labels,
                                   struct err *e);
MUST_USE enum status rows_add(struct rows *r, const struct row *like, struct err *e);

/* First row of the record after row i's record. */
int64_t rows_next(const struct rows *r, int64_t i);
/* Label of the row on an axis: *text for an axis of texts, else *number. */
void row_label(const struct rows *r, const struct row *row, int axis, const char **text,
               int64_t *number);
/* Its label on the inner axis as records have it; number is room for one. NULL: the axis has none.
 */
enum { ROW_NUMBER = 24 };
const char *row_inner_label(const struct rows *r, const struct row *row, char number[ROW_NUMBER]);
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

/* --- the table --- */

/* A variable of cells, that of their replicates, and two of their mean and standard deviation,
 * along the cells' axes. */
struct kind_spread {
    const char *of, *replicate, *mean, *deviation;
    const char *units, *mean_long_name, *deviation_long_name;
};

/* A variable of a kind, its mean over the kind's last axis, and the standard errors of both (NULL:
 * none), which are independent along that axis. */
struct kind_mean {
    const char *of, *of_error, *mean, *error;
    const char *units, *mean_long_name, *error_long_name;
};

/* Form of the progress report. */
enum kind_report {
    REPORT_MODELS, /* a table of models */
    REPORT_ALL,    /* one line */
    REPORT_PARTS,  /* one line per part, with the first failure's message */
    REPORT_NONE
};

/* A number that an iteration approaches, and that may be far from it when the iteration ends. */
struct kind_iterated {
    const char *noun;                         /* "sharpnesses" */
    const char *value, *residual, *converged; /* names of fields IN_VALUES; converged: 1 or 0 */
    const char *remedy;                       /* what to ask for where it did not converge */
};

struct kind {
    const char *name;  /* "type" of its records */
    const char *group; /* its data frame in the cube */
    /* Axes that identify a record; if empty, the kind has only a data frame and no grid variables.
     */
    const struct axis *axes[AXES_MAX];
    const struct axis *inner; /* records have values for each label of this axis; NULL: none */
    const struct field *fields;
    bool sequences;                    /* inner values have a list "sequence_loss" */
    const struct record_list *list;    /* NULL: none */
    const struct record_table *tables; /* ends with a name NULL; NULL: none */

    /* Enumeration of records: one for each checkpoint whose plan entry has the key plan_key, or
     * those that add_rows adds for checkpoint c of model m (for a kind not on the grid: called once
     * for the whole plan). identity: labels that are fields of the records. */
    const char *plan_key;
    enum status (*add_rows)(const struct axes *a, int64_t m, int64_t c, struct rows *out,
                            struct err *e);
    const char *const *identity; /* ends with NULL; NULL: the labels on the axes */

    /* In the cube: name and long name of the column in which rows of inner axes and tables refer to
     * their record; long names of the axes' columns in lists and tables. */
    const char *number, *number_long_name;
    const char *axis_long_names[AXES_MAX];
    bool whole_grid; /* the data frame also has other kinds' variables along these axes */

    const struct kind_spread *spreads; /* ends with a variable NULL; NULL: none */
    const char *spread_count;      /* the variable that counts what the spreads are taken over */
    const struct kind_mean *means; /* ends with a variable NULL; NULL: none */
    const struct kind *means_of;   /* the kind that the means are variables of */
    const struct kind_iterated *iterated; /* NULL: none of its numbers is found so */

    /* For people: "curvature of 3 checkpoints", "9 cells", "7 points of surfaces". */
    enum kind_report report;
    const char *prefix, *noun, *part; /* part: noun of a part (REPORT_PARTS), else NULL */
    const char *json;                 /* key of the counts in JSON; NULL for REPORT_MODELS */
};

/* The kinds; a new one is one name here. */
#define KINDS(X)                                                                                   \
    X(checkpoint) X(cell) X(replicate) X(curvature) X(movement) X(point) X(baseline_task) X(task)
#define KIND_COUNT(name) +1
enum { KINDS_N = 0 KINDS(KIND_COUNT) };
/* NULL after the last (kinds.c). */
extern const struct kind *const results_kinds[KINDS_N + 1];
extern const char *const results_kind_names[KINDS_N + 1];
extern const struct kind kind_cell; /* the kind that `show` prints as tables */
extern const struct kind kind_checkpoint, kind_replicate, kind_baseline_task, kind_task;
extern const struct axis axis_model, axis_checkpoint, axis_bits, axis_quantizer, axis_replicate,
    axis_dataset, axis_task;

/* kind_find: the kind of a record type; NULL: unknown. kind_place_of: its index in results_kinds.
 */
const struct kind *kind_find(const char *type);
int kind_place_of(const struct kind *k);
/* Whether the axis is one of the kind's axes or its inner axis. */
bool kind_has_axis(const struct kind *k, const struct axis *axis);
/* Whether a cube with these axes has variables of the kind. */
bool kind_is_there(const struct kind *k, const struct axes *a);
/* Whether the cube has the field on the grid, along the axes of its kind. */
bool kind_on_grid(const struct kind *k, const struct field *f);

/* --- states and counts --- */

/* State of a record; NULL: pending. */
enum result_state { STATE_PENDING, STATE_DONE, STATE_FAILED, STATE_NOT_APPLICABLE, STATE_N };
extern const char *const result_state_words[STATE_N];
enum result_state result_state_of(const json_t *record);

struct result_counts {
    int64_t by_state[STATE_N];
    int64_t records;     /* number of applicable records */
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
    struct rows rows[KINDS_N]; /* by index in results_kinds */
};

/* Borrows the view's records (v NULL: nothing is finished). Do not move *out: its rows point into
 * it. ERR_FORMAT (malformed plan), ERR_NOMEM. */
MUST_USE enum status inventory_open(const json_t *plan, const struct results_view *v,
                                    struct inventory *out, struct err *e);
/* Drops the rows of all but the visits first to end - 1 of the whole plan: of its checkpoints, then
 * one per point of a surface. */
void inventory_cut(struct inventory *all, int64_t first, int64_t end);
/* Counts the records of all kinds that are reported, of those visits; without messages. */
struct result_counts inventory_count(const struct inventory *all, int64_t first, int64_t end);
void inventory_close(struct inventory *all);
