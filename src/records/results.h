/* results: records, the journal that stores them, and the cube made from it.
 *
 * A record is a JSON object on one journal line. Types:
 *
 *   "plan"        axes and provenance of one start of a run (see below); the newest one says what
 *                 the cube shows
 *   "checkpoint"  full-precision results of one (model, checkpoint)
 *   "cell"        results of one (model, checkpoint, bits, quantizer)
 *   "curvature"   curvature of the full-precision loss of one (model, checkpoint)
 *   "gradient"    mean and variance of the gradient over batches of one (model, checkpoint)
 *   "movement"    how far the weights of one (model, checkpoint) are from the checkpoint before
 *   "point"       the loss at one point of a loss surface
 *   "baseline_task", "task"  accuracy on a multiple-choice task in full precision; of a cell
 *   "completion"  more of a "cell" or "checkpoint" of the same key, which was recorded before
 *   "loss"        ranks died, or made no progress, in a visit: {"type": "loss", "key" (of the
 *                 checkpoint's record, or of the surface's point), "count": how often so far,
 *                 "reason", "utc"}
 *   "end"         how a run ended: {"type": "end", "status": "done" | "stopped" | ..., "utc",
 *                 "exit_code": n}
 *
 * The table of measures (measures.h) says which of the following fields each has:
 *
 *   {"type", "key" (hex), "fingerprint" (text), "model", "checkpoint", ["bits", "quantizer",]
 *    "status": "done" | "failed" | "not_applicable", "message": text,
 *    ["code": word of the status (util/err.h) that a failed one failed with; not in the cube,]
 *    "values": {NAME: number, ...},                       scalars
 *    "datasets": {DIGEST of the text (scores.h): {NAME: number, ..., "sequence_loss": [number,
 * ...]},
 *                 ...},
 *    "layers": [{"name": tensor, NAME: number, ...}, ...],  cells only
 *    "tables": {TABLE: {COLUMN: [...], ...}, ...},          of curvature, gradient and movement
 *    "provenance": {"host", "utc_start", "utc_end", "weights_hash", ...}}
 *
 * point records have "surface" and "point" (the label of an exact point, "" on the grid) in place
 * of model and checkpoint's datasets and layers; their numbers stand in "values".
 *
 * completion record: "key", "fingerprint", ["message"] (which replaces the record's), "values" and
 * "datasets" (added to the record's), "layers": {tensor: {NAME: number, ...}, ...} (to those of the
 * same tensor), "completes": {PART: digest of its settings} (added to the record's "provenance"),
 * "provenance" (of the completion itself; its "weights_hash" must be the record's). The view joins
 * the two.
 *
 * Numbers that JSON lacks are the strings "nan", "inf", "-inf" (util/json.h). A missing number was
 * not measured.
 *
 * plan record:
 *
 *   {"type": "plan", "name", "version", "git", "libraries": {...}, "host", "command", "utc",
 *    "config": {resolved sweep},
 *    "models": [{"name", ["known": its name in keys, if another,] "positions": number,
 * "checkpoints": [{"name", "step", "tokens", "learning_rate", "phase", "kind", "recipe", ["known",
 * "known_recipe": in keys, if others,] ["average"], "key", ["curvature_key"], ["gradient_key"],
 *    ["movement_key"], ["outliers_key"], ["config", "tokenizer": digests of its files in keys,]
 *                ["former": {key of an earlier version: {label of a text: its digest}}]}],
 *                "texts": [digest of each text of "datasets", ..]}],
 *    "bits": [..], "quantizers": [..], "datasets": [..],
 *    "variants": [{"bits", "quantizer", "key", "applicable": bool, "replicates": number}],
 *    "replicates": [1, ..] (neither: there are none), ["sites": [..], "blocks": [0, ..],]
 *    "inputs": {path: hash}, ["seed", "known_seed": in keys of variants, if that is another,]
 *    "meanings": {digest of a config.json or tokenizer.json: that of what it says (plan_alike.c)},
 *    ["read": {USE: hash}: as which text each use of one is taken (plan_grown.c),
 *     "grown": {text: whether that is so of all its uses},]
 *    ["provenance": {"weights_read": {MODEL/CHECKPOINT: digest}}: of those that are on disk again,
 *     whose earlier results count (weights_read.h),]
 *    ["merged": {"START HOST COMMAND": its end, "" without one}: the runs that were merged,]
 *    "tasks": [{"name", "key"}] (none: not asked for),
 *    "of_cells": {MEASURE: digest of what the keys of its records hash} (measures with cell_key),
 *    "surfaces": [{"name", "plane", "model", "checkpoint", "bits", "quantizer", "dataset",
 *                  "columns", "rows", "exact": [label of a point, ...], "key"}]}
 *
 * The key of a checkpoint record is its "key", that of its curvature record its "curvature_key"
 * (none: not asked for), likewise the others; that of a cell is results_cell_key(checkpoint key,
 * variant key), that of its replicate results_replicate_key(cell key, number, seed), that of an
 * accuracy results_task_key(of, key of the task), where `of` is the key of the checkpoint or cell
 * (of an earlier version's plan with "task_key" in place of "key"), likewise
 * that of a measure of cells with its digest in place of the task's, that of a point
 * results_point_key(surface key, place), so a plan is as small as its axes. A record belongs to the
 * newest plan if the plan has its key. */
#pragma once
#include "records/lock.h"
#include "util/err.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/texts.h"

/* The key of the cell of a checkpoint and a variant. */
void results_cell_key(const char *checkpoint_key, const char *variant_key, char out[HASH_HEX]);
/* The key of the record of an accuracy; of: the key that all accuracies of the checkpoint or cell
 * have in common. */
void results_task_key(const char *of, const char *task_key, char out[HASH_HEX]);
/* The key of a replicate (from 1) of a cell. seed: by which it is drawn, if that is not the one in
 * the cell's key; else -1. */
void results_replicate_key(const char *cell_key, int64_t replicate, int64_t seed,
                           char out[HASH_HEX]);

/* Key of the plan record: {NAME: digest of what its keys hash} of the measures of cells. */
#define PLAN_OF_CELLS "of_cells"

/* The points of a loss surface: exact points (a checkpoint or the quantized weights) by their
 * labels, then the grid points, row by row. */
struct results_surface {
    const char *key;
    int64_t n_exact, columns, rows;
    const char **exact; // (n_exact), borrowed
};
/* A point: an exact one by its label, or (label NULL) column i of `columns` and row j of `rows`. */
struct results_point {
    const char *label;
    int64_t i, j, columns, rows;
};
int64_t results_surface_points(const struct results_surface *s);
struct results_point results_surface_point(const struct results_surface *s, int64_t k);
/* The key contains the point's relative position, so that a grid of twice the density reuses the
 * existing points. */
void results_point_key(const char *surface_key, const struct results_point *p, char out[HASH_HEX]);
/* The point's relative position on the grid, 0 to 1. */
void results_point_place(const struct results_point *p, double *x, double *y);

/* --- journal: append-only lines "CHECKSUM JSON\n" --- */
struct journal;

/* "x.h5" -> "x.journal"; a name without .h5 gets ".journal" added. Of results that are a symbolic
 * link, what is beside the file that it leads to. The caller frees. ERR_IO, ERR_NOMEM. */
MUST_USE enum status journal_path(const char *results, char **out, struct err *e);

/* Opens or creates a journal for appending; the caller has its lock. Removes a torn tail (an
 * incomplete or damaged last line) with a warning. Skips damaged lines between others and lines
 * that repeat the one before, with a warning that counts them. ERR_IO, ERR_FULL, ERR_FORMAT (not a
 * journal). */
MUST_USE enum status journal_open(const char *path, struct journal **out, struct err *e);
/* Opens a journal for reading, with the same warnings; leaves a torn tail out (a run may be writing
 * it). */
MUST_USE enum status journal_open_readonly(const char *path, struct journal **out, struct err *e);
/* The same without the warnings, of a journal that another run may be writing. */
MUST_USE enum status journal_open_beside(const char *path, struct journal **out, struct err *e);
/* Warns of the lines that were left out: which file, how many and why. */
void journal_warn(const struct journal *j);
void journal_close(struct journal *j);
CLEANUP_BY_VALUE(struct journal, journal_close);

/* The number of its records, in file order. */
int64_t journal_n(const struct journal *j);
/* Reads record i from the file; *out is owned by the caller (json_decref). Leaves out members with
 * the names in `without` (ends with NULL; NULL: none), wherever they are in the record, but nothing
 * of a plan. ERR_IO also if the file was changed by another program. */
MUST_USE enum status journal_read(struct journal *j, int64_t i, const char *const *without,
                                  json_t **out, struct err *e);

/* Appends a record. Not durable before journal_sync. After ERR_FULL or ERR_IO the file has no torn
 * line (it is truncated) and the journal is still readable. ERR_IO also when the file is not as it
 * was left: removed, moved, replaced, truncated or grown. */
MUST_USE enum status journal_append(struct journal *j, const json_t *record, struct err *e);
MUST_USE enum status journal_sync(struct journal *j, struct err *e);

/* What was left out as it was opened. */
struct journal_damage {
    int64_t lines, first; /* damaged ones between others; number of the first, from 1 */
    int64_t repeated, first_repeated;
    int64_t tail, tail_lines; /* bytes behind the last good line, and whole lines among them */
};
struct journal_damage journal_damage(const struct journal *j);

/* A place in a journal: behind its last good line. A cube says up to where it was made. */
struct journal_mark {
    int64_t bytes, line; /* of the journal up to here; where its last line begins. bytes 0: none */
    char checksum[17];   /* of that line */
};
struct journal_mark journal_mark(const struct journal *j);

/* How the journal at path goes on behind a mark: it is not there, or the mark says nothing; not;
 * with *lines further lines; or the mark is of another journal, or of more than this one has. */
enum journal_since { JOURNAL_UNKNOWN, JOURNAL_SAME, JOURNAL_LONGER, JOURNAL_OTHER };
enum journal_since journal_since(const char *path, const struct journal_mark *mark, int64_t *lines);

/* "1.10.8": the HDF5 library in use. Static string. */
const char *results_hdf5_version(void);

/* --- a view: the newest plan and the records that belong to it --- */

/* Readers look at the first members, as long as the view is open; the others are of records/. */
struct results_view {
    json_t *plan; /* the newest; NULL: the journal holds none, since a run was killed at its start,
                     or its line is damaged */
    json_t *before; /* the inputs of the plan before (digests by path); NULL: none */
    json_t *end;    /* the end record of the last run; NULL while a run is active or was killed */
    struct journal_mark mark;     /* where in the journal it was made */
    struct journal_damage damage; /* what was left out of that; zeros for a cube */
    json_t *stale;     /* {key: true} of the results of its own journal that it leaves out because a
                          newer one was made from other weights of the same checkpoint */
    json_t *old_plans; /* [{"evaluation", "inputs"}] of plans of earlier versions (former_plan) */

    json_t *records; /* key → record */
    bool lean;       /* what the records are not asked for is left out */
    json_t *weights; /* the newest of each checkpoint (weights_read.h) */
    json_t *others;  /* key → [{"record", ["lines"]}] of other weights, in the journal's order */
    json_t *losses;  /* key of a visit → the newest of its loss records */
    /* VIEW_BY_LINE, else NULL: the journal; key → where the record and its completions are in it */
    struct journal *journal;
    json_t *lines;
    json_t *former;  /* key of an earlier version → what it is now (scores.h) */
    json_t *waiting; /* completions whose records may be in further journals */
};
/* What a view holds of each record. Most of a record are lists and tables: what was measured per
 * sequence, layer or tensor. */
enum view_content {
    VIEW_STATES, /* states, messages, times, digests of inputs, convergence: for plans and counts */
    VIEW_NUMBERS, /* all but lists, tables, hosts and dates: what the cube has on its grid */
    VIEW_ALL,
    VIEW_BY_LINE /* states, and where in the journal the records are: results_view_read reads each
                    as a whole when it is wanted, so that a cube of 10^5 needs little memory */
};
/* From a journal or cube file (recognised by its first bytes). metrics: of VIEW_NUMBERS only these
 * variables of the cube, as "a,b", their errors and the full-precision loss; NULL: all. ERR_IO,
 * ERR_FORMAT (neither; no plan in it). */
MUST_USE enum status results_view_open(const char *path, enum view_content content,
                                       const char *metrics, struct results_view **out,
                                       struct err *e);
/* Whether a file is a cube rather than a journal, by its first bytes. ERR_IO. */
MUST_USE enum status results_is_hdf5(const char *path, bool *is, struct err *e);
/* Also of a journal without a plan. VIEW_BY_LINE, which only this one takes, borrows the journal.
 * ERR_IO. */
MUST_USE enum status results_view_of_journal(struct journal *j, enum view_content content,
                                             struct results_view **out, struct err *e);
void results_view_close(struct results_view *v);
CLEANUP_BY_VALUE(struct results_view, results_view_close);
/* Takes records of earlier versions under the keys of this plan record, as it says ("former_keys",
 * "former"; scores.h); plans that the view has it knows. view NULL: nothing. ERR_NOMEM, ERR_FORMAT.
 */
MUST_USE enum status results_view_former(struct results_view *v, const json_t *plan, struct err *e);
/* Adds the paths whose digests differ between the inputs of two plans, but for those that `grown`
 * of the later one (NULL: none) names. ERR_NOMEM. */
MUST_USE enum status results_view_changed(const json_t *before, const json_t *now,
                                          const json_t *grown, struct texts *out, struct err *e);
/* The newest record of the key that the view leaves out and that was made from weights of that
 * sampled digest (checkpoint.h); NULL: none. Borrowed. */
const json_t *results_view_other(const struct results_view *v, const char *key,
                                 const char *weights_hash);
/* Has those weights count that a plan record names (weights_read.h), as if it were the next of the
 * journal. */
void results_view_choose(struct results_view *v, const json_t *plan);
/* The record with this key (done before failed, then the newest); NULL: none. Also finds records of
 * earlier plans: loop over the plan, not over records. */
const json_t *results_view_find(const struct results_view *v, const char *key);
/* The same record with all that the view's content has of it, with VIEW_BY_LINE read from the
 * journal; *out is owned by the caller (json_decref), NULL: none. ERR_IO, ERR_NOMEM. */
MUST_USE enum status results_view_read(const struct results_view *v, const char *key, json_t **out,
                                       struct err *e);

/* --- cube: one HDF5 file, see docs/cube.md --- */
/* Writes a temporary file, reads it back, compares every variable, and renames it to path. On an
 * error the old file is unchanged and the temporary one is removed. The same view gives the same
 * bytes. lock: checked before the renaming; NULL: none. ERR_FULL, ERR_IO (also lock_check's),
 * ERR_FORMAT (a malformed plan), ERR_NOMEM. */
MUST_USE enum status cube_write(const char *path, const struct results_view *v, struct lock *lock,
                                struct err *e);
/* Fails if there is something at path that is no cube, damaged or not: ERR_USAGE, `what` in front.
 */
MUST_USE enum status cube_check_place(const char *what, const char *path, struct err *e);
/* Where in its journal a cube was made; zeros: it is damaged, unsealed or of an earlier version.
 * ERR_IO, ERR_NOMEM. */
MUST_USE enum status cube_mark(const char *path, struct journal_mark *out, struct err *e);

/* State of a record; NULL: pending. */
enum result_state { STATE_PENDING, STATE_DONE, STATE_FAILED, STATE_NOT_APPLICABLE, STATE_N };
extern const char *const result_state_words[STATE_N];
enum result_state result_state_of(const json_t *record);
