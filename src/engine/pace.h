/* pace: how far a visit is, and how many seconds its rest takes. Parts report the share of their
 * work that is done. The seconds follow from the planned ones, corrected by the ratio of measured
 * to planned seconds so far, in this visit and in earlier ones of the same model; a part that has
 * not been measured takes as much of the others' ratio as util/ratio.h says. Local to a rank.
 */
#pragma once
#include "engine/visit_types.h"

struct pace {
    const struct visit_hooks *hooks;
    struct pace_past *past;
    double planned[MEASURES_N];           /* seconds of each part */
    double ahead[MEASURES_N];             /* share of each part's work that is not done yet */
    struct pace_measured own[MEASURES_N]; /* of this visit */
    int part;                             /* that is running; -1: none */
    double since;                         /* clock_seconds of the last account of its time */
    double once;    /* seconds of work whose results are cached for later visits */
    bool preparing; /* such work is running */
};

/* At the start of a visit: reads hooks.planned and the cache. If hooks.progress is NULL, nothing is
 * reported. Borrows hooks and cache. */
void pace_open(struct pace *p, const struct visit *v, const struct visit_hooks *hooks,
               struct visit_cache *cache);
/* At the end of a visit that succeeded: sends the last report and adds to the cache what was
 * measured. */
void pace_close(struct pace *p);

/* A part starts; the one before it has ended. */
void pace_begin(struct pace *p, int part);
/* A share of the running part's work is done. Here and below p may be NULL. */
void pace_step(struct pace *p, double share);
/* A share of it will never be done. */
void pace_skip(struct pace *p, double share);
/* No more than that share of it is still to be done. */
void pace_ahead(struct pace *p, double share);
/* Work whose results are cached for later visits begins, or ends. */
void pace_prepare(struct pace *p, bool begins);
/* Seconds that the rest of the visit takes. */
double pace_left(const struct pace *p);
