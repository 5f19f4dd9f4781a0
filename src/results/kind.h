/* kind: the kinds of result, one table.
 *
 * A kind is a type of record in the journal: which records a plan asks for, what they hold, and
 * under which names the cube has it. Cube, show, status, counts, rebuild and docs/cube.md follow
 * the table `results_kinds`; no code elsewhere asks which kind a record is of. A new kind is a file
 * kind_NAME.c and its name in the list of kinds.c (an axis of its own: in that of the axes, too); a
 * new quantity is one line of its kind's fields.
 *
 * Two records of one key are one result: the view keeps one that is done before one that failed,
 * then the newer (view_add, the only place that decides it). */
#pragma once
#include "results/axes.h"
#include "results/results.h"

/* --- what records hold --- */

enum field_type { FIELD_REAL, FIELD_INTEGER, FIELD_STATUS, FIELD_TEXT, FIELD_TYPES };

/* Whether two runs that are otherwise equal give the same bits: not timings, memory, hosts. */
enum field_rerun { STABLE, VOLATILE };

/* Where a record has a field. */
enum field_place {
    IN_RECORD,
    IN_VALUES,     /* record["values"] */
    IN_INNER,      /* record[INNER AXIS][LABEL], once a label */
    IN_PROVENANCE, /* record["provenance"]: texts */
    IN_LIST,       /* entries of a list or columns of a table */
    IN_LABELS,     /* not in the record: what the plan says of it (struct row) */
    FRAME_KEY,     /* not on the grid: the record's key, */
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

/* Fields that every kind has: the first two by a name of its own in the cube, the others on its
 * data frame. Then the time of a part of the work. In braces, an entry of a table. */
#define STATUS_FIELD(variable)                                                                     \
    "status", variable, IN_RECORD, FIELD_STATUS, STABLE, NULL,                                     \
        "how far it is; NaN beside done is a result"
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

/* A list of equal parts in each record, [{label: text, NAME: number}, ...]: in the cube a group
 * with variables of (record, part). */
struct record_list {
    const char *name, *group; /* in records; in the cube */
    const char *axis, *label; /* dimension of the parts; key of their names in records */
    const char *long_name;    /* of that dimension's coordinate */
    const struct field *fields;
};

/* A long result, {COLUMN: [...], ...} under record["tables"]: in the cube a group of flat columns,
 * where the rows of all records lie behind each other. */
struct record_table {
    const char *name, *group;
    const struct field *columns;
};

/* --- which records there are --- */

/* One record, or, if its kind has an inner axis, one for each label of that. */
struct row {
    int64_t at[AXES_MAX]; /* by place in results_axes; -1: not on that axis */
    int64_t number;       /* running number of the record */
    int64_t part;         /* of rows.parts */
    char key[HASH_HEX];
    const json_t *record; /* NULL: pending */
    json_t *labels;       /* of fields IN_LABELS, beside those of its part; NULL: none */
};

/* What records are counted by: a trajectory, a surface. */
struct rows_part {
    const char *name;
    const json_t *labels;   /* of fields IN_LABELS that all its rows share, borrowed; NULL: none */
    int64_t not_applicable; /* records that the axes have a place for but the plan does not want */
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

/* All rows of a plan in its order, with the records that a view (NULL: none) has of them. Borrows
 * all three. ERR_FORMAT (malformed plan), ERR_NOMEM. */
MUST_USE enum status rows_make(const struct kind *k, const struct axes *a,
                               const struct results_view *v, struct rows *out, struct err *e);
void rows_free(struct rows *r);

/* For kind.add_rows: a new part, which later rows belong to (of a kind on the grid: the models,
 * made before); a row like that one for each label of the inner axis (one, if there is none).
 * Copies *like and takes a reference of its labels. ERR_NOMEM. */
MUST_USE enum status rows_add_part(struct rows *r, const char *name, const json_t *labels,
                                   struct err *e);
MUST_USE enum status rows_add(struct rows *r, const struct row *like, struct err *e);

/* The first row of the record behind that of row i. */
int64_t rows_next(const struct rows *r, int64_t i);
/* What an axis says of a row: for an axis of texts *text, else *number. */
void row_label(const struct rows *r, const struct row *row, int axis, const char **text,
               int64_t *number);
/* The row's checkpoint, of a kind whose first two axes are model and checkpoint. */
const struct axis_checkpoint *row_checkpoint(const struct rows *r, const struct row *row);
/* Sets the fields by which a record says which one it is. ERR_NOMEM. */
MUST_USE enum status row_identify(const struct rows *r, const struct row *row, json_t *record,
                                  struct err *e);
/* A field of the row's record, borrowed; NULL: none. Not for the FRAME_ ones. */
const json_t *row_value(const struct rows *r, const struct row *row, const struct field *f);

/* --- the table --- */

/* How people are told how many records are how far. */
enum kind_report {
    REPORT_MODELS, /* a table of models */
    REPORT_ALL,    /* one line */
    REPORT_PARTS,  /* a line a part, with the first failure's message */
    REPORT_NONE
};

struct kind {
    const char *name;  /* "type" of its records */
    const char *group; /* its data frame in the cube */
    /* The axes that tell its records apart; none: it is not on the grid, only a data frame. */
    const struct axis *axes[AXES_MAX];
    const struct axis *inner; /* records have values for each label of this axis; NULL: none */
    const struct field *fields;
    bool sequences;                    /* inner values have a list "sequence_loss" */
    const struct record_list *list;    /* NULL: none */
    const struct record_table *tables; /* ends with a name NULL; NULL: none */

    /* Its records: one for each checkpoint whose entry in the plan has this key, or what add_rows
     * finds for checkpoint c of model m (of a kind not on the grid: called once, for the whole
     * plan). identity: which of its labels records have. */
    const char *plan_key;
    enum status (*add_rows)(const struct axes *a, int64_t m, int64_t c, struct rows *out,
                            struct err *e);
    const char *const *identity; /* ends with NULL; NULL: the labels on the axes */

    /* In the cube: the column by which rows of an inner axis and of tables name their record, and
     * what it is; what the axes mean to the rows of lists and tables. */
    const char *number, *number_long_name;
    const char *axis_long_names[AXES_MAX];
    bool whole_grid; /* the data frame has all variables along these axes, whatever their kind */

    /* For people: "curvature of 3 checkpoints", "9 cells", "7 points of surfaces". */
    enum kind_report report;
    const char *prefix, *noun, *part; /* part: what REPORT_PARTS counts by; else NULL */
    const char *json;                 /* key of the counts in JSON; NULL of REPORT_MODELS */
};

/* NULL behind the last (kinds.c). */
enum { KINDS_MAX = 8 };
extern const struct kind *const results_kinds[KINDS_MAX + 1];
extern const char *const results_kind_names[KINDS_MAX + 1];
extern const struct kind kind_cell; /* what tables for people are about */
extern const struct axis axis_model, axis_checkpoint, axis_bits, axis_quantizer, axis_dataset;

/* The kind of records of that type; NULL: it is none. Its place in results_kinds. */
const struct kind *kind_find(const char *type);
int kind_place_of(const struct kind *k);
/* Whether it is one of its axes or its inner one. */
bool kind_has_axis(const struct kind *k, const struct axis *axis);
/* Whether the cube has the field on the grid, along the axes of its kind. */
bool kind_on_grid(const struct kind *k, const struct field *f);

/* --- how far they are --- */

/* Of a record; pending for NULL. */
enum result_state { STATE_PENDING, STATE_DONE, STATE_FAILED, STATE_NOT_APPLICABLE, STATE_N };
extern const char *const result_state_words[STATE_N];
enum result_state result_state_of(const json_t *record);

struct result_counts {
    int64_t by_state[STATE_N];
    int64_t records;     /* all but those that are not applicable */
    const char *message; /* why the first failed one did; NULL: none failed */
};
/* Records of a part (-1: of all). */
struct result_counts rows_count(const struct rows *r, int64_t part);

/* --- all kinds of a plan --- */

/* What a plan asks for, and what there is of it. */
struct inventory {
    json_t *plan; /* a reference of its own */
    struct axes axes;
    struct rows rows[KINDS_MAX]; /* by place in results_kinds */
};

/* Borrows the view's records (v NULL: nothing is finished). *out stays where it is: rows point into
 * it. ERR_FORMAT (malformed plan), ERR_NOMEM. */
MUST_USE enum status inventory_open(const json_t *plan, const struct results_view *v,
                                    struct inventory *out, struct err *e);
void inventory_close(struct inventory *all);
