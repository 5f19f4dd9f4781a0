/* view: builds a view from a journal or from a cube. */
#pragma once
#include "records/results.h"

/* An empty view; close it also after a failure. ERR_NOMEM. */
MUST_USE enum status view_new(struct results_view **out, struct err *e);

/* Adds the next record in the order of the journal; retains it. Ignores records of unknown types.
 * ERR_NOMEM. */
MUST_USE enum status view_add(struct results_view *v, const json_t *record, struct err *e);

/* The same of a record that is not of the view's own journal, whose end stays the newest; not if it
 * is of other weights than the newest. */
MUST_USE enum status view_add_beside(struct results_view *v, const json_t *record, struct err *e);

/* Who is given the records that a view takes from other journals, whole. */
struct view_sink {
    enum status (*take)(void *context, const json_t *record, struct err *e);
    void *context;
};

/* Adds what another journal holds: the records of keys that the view has none of, or has a failed
 * one of where the journal's is done; no plan, loss or end. sink: NULL for none. Appends its
 * completions to the array `late`, since the records that they complete may be in further journals.
 * ERR_IO, ERR_NOMEM. */
MUST_USE enum status view_add_elsewhere(struct results_view *v, struct journal *j,
                                        enum view_content content, const struct view_sink *sink,
                                        json_t *late, struct err *e);
/* Adds those completions, and those of the view's own journal whose records are from elsewhere, to
 * records that have none. ERR_NOMEM. */
MUST_USE enum status view_add_late(struct results_view *v, const struct view_sink *sink,
                                   const json_t *late, struct err *e);

/* Adds to *names the members that a view leaves out, wherever they are in a record. content and
 * metrics: as for results_view_open. ERR_NOMEM. */
MUST_USE enum status view_leave_out(enum view_content content, const char *metrics,
                                    struct texts *names, struct err *e);

/* Reconstructs the records that a cube was made from, without NaN values, because a cube does not
 * distinguish them from missing ones. Warns of a cube without its seal. ERR_IO, ERR_FORMAT. */
MUST_USE enum status cube_read(const char *path, enum view_content content,
                               const struct texts *without, struct results_view **out,
                               struct err *e);

/* --- what the files of the view share --- */

/* *out (a new reference) = the whole record of line i of j, as this version writes it. Errors of
 * journal_read and former_record. */
MUST_USE enum status view_read_line(const struct results_view *v, struct journal *j, int64_t i,
                                    json_t **out, struct err *e);
/* Leaves out results of other weights than the newest, and takes back those of the newest. */
void view_leave_out_stale(struct results_view *v);
/* Remembers a record that is left out, as it comes or before one of other weights replaces it. */
void view_remember(struct results_view *v, const char *key, json_t *record);
