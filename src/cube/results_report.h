/* results_report: prints results as tables for people and as rows for programs. */
#pragma once
#include "records/rows.h"

struct show_options {
    bool csv, json;
    const char *kind; /* which kind of result (measures.h); NULL: cells */
    int64_t n_only;
    const char *const *only; /* (n_only) "KEY=PATTERN" (util/words.h); all must hold */
    const char *metric; /* "NAME,NAME,...", which numbers; NULL: of tables of cells loss_relative,
                           else all */
};
/* The metric of tables of cells if none is asked for. */
extern const char show_default_metric[];
/* Tables of cells (relative errors) or of another kind, or one row a record (and dataset) with the
 * numbers of the cube along its axes, as CSV or JSON. ERR_USAGE: an option that chooses nothing
 * says what there is. */
MUST_USE enum status report_show(const struct results_view *v, const struct show_options *o,
                                 FILE *out, struct err *e);

/* How far a sweep is: all is done; done, but records failed; a run goes on, or was stopped. */
enum report_verdict { VERDICT_DONE, VERDICT_FAILED, VERDICT_OPEN };

/* How a cube compares with its journal. */
enum cube_state {
    CUBE_NOT_COMPARED, /* a run goes on, or there is no journal */
    CUBE_CURRENT,
    CUBE_OLDER,   /* the journal goes on behind it */
    CUBE_OTHER,   /* the journal was cut, changed or replaced */
    CUBE_UNKNOWN, /* damaged, without its seal or of an earlier version */
    CUBE_MISSING
};

struct part_table;
/* What status tells of results beside their records. */
struct report_about {
    struct lock_holder holder; /* of their lock */
    const json_t *running;     /* the holder's running visits (running.h); NULL: unknown */
    const json_t *coming;      /* coming.h; NULL: nothing */
    const char *jobs;          /* ids of Slurm jobs that wait or run to compute more; NULL: none */
    enum cube_state cube;
    int64_t lacks;                  /* of an older cube: records of the journal behind it */
    const struct part_table *parts; /* (part_table.h) whose records they are; NULL: one journal's */
    bool parts_run; /* parts that are not shown, beside merged results, are computed now */
};

/* Counts of done, failed, not applicable and pending records of every kind; the messages of failed
 * ones; whether a run goes on, else how the last one ended. As JSON also what was left out. */
MUST_USE enum status report_status(const struct results_view *v, const struct report_about *about,
                                   bool json, FILE *out, enum report_verdict *verdict,
                                   struct err *e);

/* One line on the numbers that iterations approach: "3 of 5 sharpnesses not converged (residual up
 * to 4.8 % of the value: more products or a looser tolerance)"; nothing for a kind without such
 * numbers, or where none is measured. */
void verdict_print(const struct rows *r, const char *indent, FILE *out);
