/* part_files: where the results of a sweep's parts are (qtraj run --part k/n): beside the results
 * of the sweep, RESULTS, the folder RESULTS.parts with part-003-of-008.h5, its journal and its
 * lock. */
#pragma once
#include "records/results.h"
#include "records/view.h"

/* *out (the caller frees) = the folder of the parts of these results, the cube of part k of n in
 * it. ERR_NOMEM. */
MUST_USE enum status parts_folder(const char *results, char **out, struct err *e);
MUST_USE enum status parts_path(const char *results, int64_t k, int64_t n, char **out,
                                struct err *e);

/* A part that has a journal. */
struct part_place {
    int64_t k, n;
    char *cube, *journal; /* the cube may not be there yet */
};
/* Zero-initialise; free with parts_free. */
struct part_places {
    int64_t n, capacity;
    struct part_place *part; // (n) in the order of their n, then k
};
void parts_free(struct part_places *p);

/* *out = the parts in a folder; none if there is no folder. parts_free *out, also after a failure.
 * ERR_IO: the folder cannot be read; ERR_NOMEM. */
MUST_USE enum status parts_list(const char *folder, struct part_places *out, struct err *e);

/* *out = where the results have records: their own journal, which may not be there, as part 0 of 0
 * without a cube, and then those of their parts. Errors as above. */
MUST_USE enum status parts_of(const char *results, struct part_places *out, struct err *e);

/* Adds to a view what the journal of the results and those of their parts hold, but for the journal
 * `own` (NULL: none) and those of the parts of `but` (0: none): records of keys that the view has
 * none of, or a failed one of where theirs is done. sink: who is given them, whole; NULL: nobody.
 * Only reads the journals; other runs may be writing them. ERR_IO, ERR_FORMAT, ERR_NOMEM. */
MUST_USE enum status parts_add_records(const char *results, const char *own, int64_t but,
                                       enum view_content content, const struct view_sink *sink,
                                       struct results_view *v, struct err *e);
/* *out = a view of all of them, without a plan; closed with results_view_close. */
MUST_USE enum status parts_view(const char *results, enum view_content content,
                                struct results_view **out, struct err *e);

/* How far a part is, by its lock and its journal. */
struct part_look {
    struct lock_holder holder;
    json_t *plan;       /* the newest; NULL: none yet */
    int64_t first, end; /* its visits; 0, 0: unknown */
    bool ended;         /* its journal ends with an end record: */
    bool stopped;       /* one that says that something was left */
    int64_t recent;     /* results since the running process took the lock */
    bool alone;         /* it has results that `merged` lacks */
    json_t *running;    /* the visits that it is computing (running.h); NULL: unknown */
};
/* Zero-initialise. merged: what the sweep's own journal holds; NULL: `alone` stays false. ERR_IO,
 * ERR_FORMAT, ERR_NOMEM. */
MUST_USE enum status part_look(const char *journal, const struct results_view *merged,
                               struct part_look *out, struct err *e);
void part_look_free(struct part_look *l);

/* *out = a view of the parts' journals together, and of `journal` (NULL: none), with the newest of
 * their plans; looks (p->n): what part_look says of each. ERR_FORMAT: none has a plan yet; others
 * as parts_view. */
MUST_USE enum status parts_join(const struct part_places *p, const char *journal,
                                enum view_content content, struct part_look *looks,
                                struct results_view **out, struct err *e);
