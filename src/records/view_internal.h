/* view_internal: what the files of the view share. */
#pragma once
#include "records/view.h"

struct results_view {
    json_t *plan;    /* the newest plan; NULL: none yet */
    json_t *before;  /* the inputs of the one before; NULL: none */
    json_t *end;     /* the newest record if it is an end record */
    json_t *records; /* key → record */
    struct journal_mark mark;
    struct journal_damage damage;
    bool lean;       /* what the records are not asked for is left out */
    json_t *weights; /* the newest of each checkpoint (weights_read.h) */
    json_t *stale;   /* key → true of results of other weights, which are left out, and */
    json_t *others;  /* key → [{"record", ["lines"]}], in the order of the journal */
    json_t *losses;  /* key of a visit → the newest of its loss records */
    /* VIEW_BY_LINE, else NULL: the journal; key → where the record and its completions are in it */
    struct journal *journal;
    json_t *lines;
    json_t *former;    /* key of an earlier version → what it is now (scores.h) */
    json_t *waiting;   /* completions whose records may be in further journals */
    json_t *old_plans; /* what plans of earlier versions scored (former_plan) */
};

/* *out (a new reference) = the whole record of line i of j, as this version writes it. Errors of
 * journal_read and former_record. */
MUST_USE enum status view_read_line(const struct results_view *v, struct journal *j, int64_t i,
                                    json_t **out, struct err *e);
/* Leaves out results of other weights than the newest, and takes back those of the newest. */
void view_leave_out_stale(struct results_view *v);
/* --- view_weights.c --- */
/* Remembers a record that is left out, as it comes or before one of other weights replaces it. */
void view_remember(struct results_view *v, const char *key, json_t *record);
