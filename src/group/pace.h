/* pace: how far a visit is, and the seconds that its rest takes. Parts say which share of their
 * work is done; seconds follow from what was planned and from how long planned work has taken so
 * far, in this visit and in earlier ones of the same model. Everything is local to a rank. */
#pragma once
#include "group/task.h"

struct pace {
    const struct visit_hooks *hooks;
    struct pace_past *past;
    double planned[PART_N]; /* seconds */
    double ahead[PART_N];   /* shares that are still to do */
    struct pace_measured own[PART_N];
    int part;       /* in hand; -1: none */
    double since;   /* clock_seconds from which the part in hand has taken time */
    double once;    /* seconds spent on what later visits find ready */
    bool preparing; /* such work is in hand */
};

/* At the start of a visit, whose hooks (visit_hooks.planned) and cache give what is known. Those of
 * hooks without progress give a pace that says nothing. */
void pace_open(struct pace *p, const struct visit *v, const struct visit_hooks *hooks,
               struct visit_cache *cache);
/* The visit is done: later ones learn from it. */
void pace_close(struct pace *p);

/* A part begins; the one before has ended. */
void pace_begin(struct pace *p, int part);
/* A share of the part in hand is done. p may be NULL in these. */
void pace_step(struct pace *p, double share);
/* A share of it will not be done. */
void pace_skip(struct pace *p, double share);
/* Only that share of it is still to do. */
void pace_ahead(struct pace *p, double share);
/* From now on, or no longer, the time goes into what later visits find ready. */
void pace_prepare(struct pace *p, bool begins);
/* Seconds that the visit still takes. */
double pace_left(const struct pace *p);
