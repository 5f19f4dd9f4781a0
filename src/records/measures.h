/* measures: what can be measured. A measure is one const struct, which says all of it: the records
 * that a plan asks for, their fields and names in the cube, what a visit does for them and what
 * that costs. Planner, visits, journal, cube, show, status and docs/cube.md loop over the table of
 * measures.c; no other code depends on which measure a record is of (docs/decisions/0033).
 *
 * A new measure is a file with its struct, and its line in MEASURES; a new quantity is one line of
 * its fields. Types of higher folders are only named here: each hook says which header it is for.
 *
 * If several records have the same key, the view uses a done one rather than a failed one, and the
 * newest of these, and adds the completions that follow it (view_add). */
#pragma once
#include "options/options.h"
#include "records/axes.h"
#include "util/hash.h"

/* --- what records hold --- */

enum field_type { FIELD_REAL, FIELD_INTEGER, FIELD_STATUS, FIELD_TEXT, FIELD_TYPES };

/* STABLE fields have the same bits in two equal runs; VOLATILE ones (times, memory, hosts) may
 * differ. */
enum field_rerun { STABLE, VOLATILE };

/* Location of a field in a record. */
enum field_place {
    IN_RECORD,
    IN_VALUES,     /* record["values"] */
    IN_INNER,      /* record[INNER AXIS][LABEL], once per label, or [LABEL][LABEL WITHIN] */
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
/* The last ones of a table of fields, and its end. */
#define RECORD_FIELDS                                                                              \
    {KEY_FIELD}, {FINGERPRINT_FIELD}, {PROVENANCE_FIELD},                                          \
    {                                                                                              \
        0                                                                                          \
    }
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

/* --- what cubes and tables make of them --- */

/* A variable of cells, that of their replicates, and two of their mean and standard deviation,
 * along the cells' axes. */
struct measure_spread {
    const char *of, *replicate, *mean, *deviation;
    const char *units, *mean_long_name, *deviation_long_name;
};

/* A variable of a kind, its mean over the kind's last axis, and the standard errors of both (NULL:
 * none), which are independent along that axis. */
struct measure_mean {
    const char *of, *of_error, *mean, *error;
    const char *units, *mean_long_name, *error_long_name;
};

/* Form of the progress report. */
enum measure_report {
    REPORT_MODELS, /* a table of models */
    REPORT_ALL,    /* one line */
    REPORT_PARTS,  /* one line per part, with the first failure's message */
    REPORT_NONE
};

/* A number that an iteration approaches, and that may be far from it when the iteration ends. */
struct measure_iterated {
    const char *noun;                         /* "sharpnesses" */
    const char *value, *residual, *converged; /* names of fields IN_VALUES; converged: 1 or 0 */
    const char *remedy;                       /* what to ask for where it did not converge */
};

/* Parts of a record, each of which depends on some of its settings. What a finished record with
 * other settings has of them is taken from there (plan/plan_reuse.c, run/run_compose.c). A list of
 * parts is
 * [{"part": name, ["from": key of the record that has it]}, ...]. */
struct measure_parts {
    /* *list (a new reference) = [{"part": name, "of": what it depends on}, ...] of all that the key
     * of a record hashes. ERR_NOMEM. */
    enum status (*list)(const json_t *own, json_t **list, struct err *e);
    /* Leaves a setup the parts without "from"; provenance.parts of the record is then the list. */
    enum status (*leave)(void *setup, const json_t *parts, struct err *e);
    /* Makes the record one of these parts: those that have a source (in the same order; null: none)
     * are copies of the source's, the others its own. Further ones go. */
    enum status (*compose)(json_t *record, const json_t *parts, const json_t *sources,
                           struct err *e);
};

/* --- a measure --- */

struct cost;             /* memory/cost.h */
struct cost_tokens;      /* memory/cost.h */
struct data_options;     /* config/sweep.h */
struct linear;           /* model/model.h */
struct memory_after;     /* memory/memory_after.h */
struct memory_fit;       /* memory/memory_after.h */
struct memory_sequences; /* memory/memory.h */
struct model_sizes;      /* memory/cost.h */
struct observed;         /* engine/observe.h */
struct part_context;     /* engine/part.h */
struct plan;             /* plan/plan.h, as those that begin so */
struct plan_checkpoint;
struct plan_choice;
struct plan_visits;
struct quant_grids;  /* quant/quant.h */
struct results_view; /* records/results.h */
struct row;          /* records/rows.h */
struct rows;         /* records/rows.h */
struct saved_move;   /* records/saved.h */
struct sweep;        /* config/sweep.h */
struct journal;      /* records/results.h */
struct variant;      /* engine/weights.h */
struct visit;        /* engine/visit_types.h */
struct visit_cache;  /* engine/visit_types.h */

/* Members may be 0. */
struct measure {
    const char *name; /* "type" of its records, and key of its setup in a visit's JSON */

    /* --- its keys of the sweep file --- */

    struct option_table section; /* their struct is sweep.sections[its place]; none: it has none */
    /* What holds between them and the rest of the sweep; NULL: nothing. */
    enum status (*check)(const struct sweep *s, const struct option_scope *scope, struct err *e);

    /* --- its records --- */

    const char *group; /* their data frame in the cube */
    /* Axes that identify a record; if empty, the measure has only a data frame and no grid
     * variables. */
    const struct axis *axes[AXES_MAX];
    const struct axis *inner;   /* records have values for each label of this axis; NULL: none */
    const struct axis *within;  /* and of each of these for each label of this one; NULL: none */
    const struct field *fields; /* ends with a name NULL */
    bool sequences;             /* inner values have a list "sequence_loss" */
    const struct record_list *list;    /* NULL: none */
    const struct record_table *tables; /* ends with a name NULL; NULL: none */

    /* Enumeration of records: one for each checkpoint whose plan entry has the key plan_key, or
     * one of each cell if the measure has cell_key; or those that add_rows adds for checkpoint c of
     * model m (for a measure not on the grid: called once for the whole plan). identity: labels
     * that are fields of the records. */
    const char *plan_key;
    enum status (*add_rows)(const struct axes *a, int64_t m, int64_t c, struct rows *out,
                            struct err *e);
    const char *const *identity; /* ends with NULL; NULL: the labels on the axes */

    /* In the cube: name and long name of the column in which rows of inner axes and tables refer to
     * their record; long names of the axes' columns in lists and tables. */
    const char *number, *number_long_name;
    const char *axis_long_names[AXES_MAX];
    bool whole_grid; /* the data frame also has other measures' variables along these axes */

    const struct measure_spread *spreads; /* ends with a variable NULL; NULL: none */
    const char *spread_count;         /* the variable that counts what the spreads are taken over */
    const struct measure_mean *means; /* ends with a variable NULL; NULL: none */
    const struct measure *means_of;   /* the measure that the means are variables of */
    const struct measure_iterated *iterated; /* NULL: none of its numbers is found so */

    /* For people: "curvature of 3 checkpoints", "9 cells", "7 points of surfaces". */
    enum measure_report report;
    const char *prefix, *noun, *part; /* part: noun of a part (REPORT_PARTS), else NULL */
    const char *json;                 /* key of the counts in JSON; NULL for REPORT_MODELS */

    /* --- how a plan asks for one of each checkpoint (plan/plan.h) --- */

    /* *own (a new reference) = what the record's key hashes besides the checkpoint's names and
     * recipe; NULL: the sweep asks for no record of this checkpoint. Of results that complete the
     * cells' records: all that their digest hashes. */
    enum status (*key)(struct plan *p, const struct plan_checkpoint *c, json_t **own,
                       struct err *e);
    const struct measure_parts *parts; /* NULL: a record is computed as a whole */
    /* Of results that complete records: *settings (a new reference) = {digest of settings for the
     * same tokens: whether results with them have all that is asked for}. */
    enum status (*alike)(struct plan *p, const struct plan_checkpoint *c, json_t **settings,
                         struct err *e);
    /* Makes of that what earlier versions hashed, and says whether it is something else; NULL: they
     * hashed the same. */
    bool (*former)(const struct sweep *s, json_t *own);
    /* Fills its setup, a zeroed struct. */
    enum status (*make_setup)(const struct plan *p, const struct plan_checkpoint *c, void *setup,
                              struct err *e);
    /* Whether weights other than the checkpoint's own differ from those that the record was made
     * with. */
    bool (*stale)(const struct plan *p, const struct plan_checkpoint *c, const json_t *record);
    /* The text that it is measured on, whose tokens its cost follows from, of a model; shallow and
     * with its length. Absent: none is asked for. text_name: what plans and warnings call it; NULL:
     * another measure names it. */
    struct data_options (*text)(const struct plan *p, int64_t model);
    const char *text_name;
    /* The tokens that it adds to those that are evaluated on. reader: a visit with a tokenizer,
     * NULL: none is there. */
    struct cost_tokens (*tokens)(const struct plan *p, const struct visit *reader,
                                 struct visit_cache *cache);
    /* Whether it reads tokens that the files beside a tokenizer name; NULL: no. */
    bool (*names_tokens)(const struct sweep *s);
    /* Sets what a visit of a checkpoint has to know besides setups; NULL: nothing. */
    enum status (*describe)(const struct plan *p, struct visit *v, struct err *e);

    /* --- how a plan asks it to take cells anew, without records of its own --- */

    /* *asks = whether it takes the cell of that variant, finished or not; then it makes the visit's
     * setup, if there is none. */
    enum status (*of_cell)(const struct plan *p, const struct plan_checkpoint *c, int64_t variant,
                           struct visit *v, bool *asks, struct err *e);
    /* *path (the caller frees) = where the quantized weights of that finished cell are, by digests
     * of what they are of; NULL: nowhere. */
    enum status (*stored)(const struct plan *p, const struct plan_checkpoint *c, int64_t variant,
                          char **path, struct err *e);
    /* Adds how many of all cells it is to take, and the bytes of disk that they need, of models
     * whose shape is known. */
    enum status (*disk)(const struct plan *p, int64_t *n, double *bytes, struct err *e);
    /* What is left to do at the end of a run, with all its records. Called on rank 0 only. */
    enum status (*ended)(const struct plan *p, struct journal *j, struct err *e);

    /* --- how a plan asks for records that are neither of a checkpoint nor of a cell --- */

    /* Sets the measure's p->own, records of cells with labels (plan_add_record), number of visits
     * (p->more) and entry of the plan record (p->lists: a list GROUP of objects with "name" and
     * "model", if `--only PART=` chooses among them). The plan has its variants, and its
     * checkpoints without keys. */
    enum status (*plan)(struct plan *p, struct err *e);
    /* Adds its visits that are to be made; first: its first one's number in the whole plan. */
    enum status (*visits)(const struct plan *p, const struct results_view *view,
                          const struct plan_choice *choice, int64_t first, struct plan_visits *out,
                          struct err *e);
    void (*plan_free)(void *own);

    /* --- how a plan asks for one of each cell --- */

    /* *own (a new reference) = what the keys of the records hash besides their cells; NULL: the
     * sweep asks for none. Its visits need no setup (NULL where a hook gets one): `linear` receives
     * the weights of the variants that lack a record, and `fill` makes the records. */
    enum status (*cell_key)(const struct sweep *s, json_t **own, struct err *e);
    bool scored; /* its records are made by the cells' run, from scores */
    /* Adds its numbers to the record of a variant whose cell has not failed. Called on rank 0 only.
     */
    enum status (*fill)(const struct part_context *c, const struct variant *v, json_t *record,
                        struct err *e);

    /* --- what a visit does for them (engine/part.h) --- */

    /* Measures that a visit requests run one after the other in the order of the table, each on all
     * ranks of the group. Functions that take a context are collective on it unless noted. */

    const char *doing; /* what progress and messages call the work */
    bool of_model;     /* needs the visit's checkpoint open */
    bool by_ranks;     /* last bits depend on the group's ranks, whatever run.reproducible says */
    bool of_cells;     /* its results complete the cells' records, */
    bool (*of_checkpoint)(const void *setup); /* and whether the checkpoint's too; NULL: never */

    /* Adds to a digest (engine/stamp.h) the input files of its records other than the visit's
     * weights and tokenizer. */
    void (*inputs)(const struct visit *v, char stamp[HASH_HEX]);

    /* Whether `linear` takes the weights of a variant. NULL: those of all that the part is of. */
    bool (*takes)(const struct visit *v, const struct variant *variant);
    /* Whether the visit requests this work; NULL: it does if it has a setup for it and, where there
     * is `takes`, a variant that is taken. */
    bool (*wanted)(const struct visit *v);
    const struct option_table *setup; /* fields of its setup; NULL: it has no setup */

    /* Work that it adds to a visit on a text t: once, and for each cell. kept: activations are
     * retained, as `memory` decides. */
    void (*cost)(const void *setup, const struct model_sizes *m, const struct cost_tokens *t,
                 bool kept, struct cost *once, struct cost *cell);
    /* Memory that it takes after the blocks (memory_after.h), for plans and for running visits.
     * may_keep: activations may be retained. ERR_NOMEM, ERR_USAGE: a limit is too small; *out is
     * set anyway. */
    enum status (*memory)(const void *setup, const struct memory_after *a, bool may_keep,
                          struct memory_fit *out, struct err *e);
    int phase;           /* enum cost_phase that has all its work; 0: its work has several */
    bool in_fixed_order; /* with run.reproducible one rank does it, so that no bit depends on the
                            number of ranks */

    size_t state; /* bytes of its zero-initialised state, */
    /* or of what it has of each variant: its state is an array of them, whose memory plans count
     * and which saved states of the blocks hold. */
    size_t state_of_variant;
    /* Initialises its state; called even if the checkpoint could not be opened. */
    enum status (*open)(struct part_context *c, struct err *e);
    /* Called before the blocks: prepares what `linear` needs. */
    enum status (*begin)(struct part_context *c, struct err *e);
    bool grids; /* `linear` wants grids */
    /* Receives a quantized linear of one of the visit's variants, as struct weights_sink. */
    enum status (*linear)(struct part_context *c, const struct variant *v, const struct linear *l,
                          const float *q, const struct quant_grids *grids, struct err *e);
    /* Moves what `linear` has received of a variant into a saved state of the blocks or out of one
     * (saved.h). Without it and state_of_variant, blocks of visits that request the measure save
     * none. Not collective. */
    void (*move)(struct part_context *c, const struct variant *v, struct saved_move *m);
    /* Receives what the full-precision model computes of evaluation sequences at one place of a
     * block (engine/observe.h), from all ranks' own ones; not collective. Its error ends the cells.
     * The blocks run for it too where no cell is missing, and its `move` is called once, without a
     * variant. */
    enum status (*observe)(struct part_context *c, const struct observed *o, struct err *e);
    /* Called after each block, with nothing in `o` but the block and the texts. */
    enum status (*observed)(struct part_context *c, const struct observed *o, struct err *e);
    /* Bytes that it takes meanwhile, for such sequences of a rank. */
    int64_t (*observing)(const struct model_sizes *m, const struct memory_sequences *s,
                         int64_t threads);
    /* Does its work. An error becomes the failure of its records, except ERR_STOPPED, ERR_FULL and
     * ERR_MPI, which end the visit. */
    enum status (*run)(struct part_context *c, struct err *e);
    /* Adds its fields to the completion of a cell's record (variant NULL: of the checkpoint's), and
     * to "completes" the digest of its settings, also if they could not be computed. failure: why
     * the part was not run; code OK for none. Called on rank 0 only. */
    void (*annotate)(const struct part_context *c, const struct variant *v,
                     const struct err *failure, json_t *record);
    /* Emits its records. failure: code OK for none. Called on rank 0 only. */
    enum status (*emit)(struct part_context *c, const struct err *failure, struct err *e);
    void (*close)(struct part_context *c); /* frees what its state owns */
};

/* What measures have in common that make one record of each checkpoint. */
#define MEASURE_OF_CHECKPOINTS(measure)                                                            \
    .name = #measure, .json = #measure, .doing = #measure, .prefix = #measure " of ",              \
    .noun = "checkpoints", .report = REPORT_ALL, .of_model = true, .plan_key = #measure "_key",    \
    .number = #measure "_row", .axes = {&axis_model, &axis_checkpoint},                            \
    .axis_long_names = {"trajectory of the checkpoint", "name of the checkpoint"}

/* --- the table --- */

/* The measures, in the order in which a visit does their work: X, or R if they have records of
 * their own. A new one is one line here; nothing else has to know how many there are. */
#define MEASURES(X, R)                                                                             \
    R(checkpoint)                                                                                  \
    R(cell)                                                                                        \
    R(replicate)                                                                                   \
    X(export)                                                                                      \
    X(second_order)                                                                                \
    R(curvature)                                                                                   \
    R(gradient)                                                                                    \
    R(movement)                                                                                    \
    R(outliers)                                                                                    \
    R(point)                                                                                       \
    R(baseline_task)                                                                               \
    R(task)

/* MEASURE_movement, ...: their places in `measures`. */
#define MEASURE_PLACE(name) MEASURE_##name,
enum measure_place { MEASURES(MEASURE_PLACE, MEASURE_PLACE) MEASURES_N };

/* Those that have records, in the same order, and their names; NULL after the last. */
#define MEASURE_NONE(name)
#define MEASURE_ONE(name) +1
enum { RECORDED_N = 0 MEASURES(MEASURE_NONE, MEASURE_ONE) };

#define MEASURE_DECLARE(name) extern const struct measure measure_##name;
MEASURES(MEASURE_DECLARE, MEASURE_DECLARE)
extern const struct measure *const measures[MEASURES_N];
extern const struct measure *const recorded_measures[RECORDED_N + 1];
extern const char *const recorded_names[RECORDED_N + 1];
extern const struct axis axis_model, axis_checkpoint, axis_bits, axis_quantizer, axis_replicate,
    axis_dataset, axis_task, axis_block, axis_site;

/* measure_find: the measure of a record type; NULL: unknown. measure_place_of: its index in
 * recorded_measures. */
const struct measure *measure_find(const char *type);
int measure_place_of(const struct measure *k);
/* Whether the axis is one of the measure's axes or its inner axis. */
bool measure_has_axis(const struct measure *k, const struct axis *axis);
/* Whether a cube with these axes has variables of the measure. */
bool measure_is_there(const struct measure *k, const struct axes *a);
/* Whether the cube has the field on the grid, along the axes of its measure. */
bool measure_on_grid(const struct measure *k, const struct field *f);
