/* stager_internal: what serving visits (stager.c) and sharing the space with others (claims.c)
 * share. */
#pragma once
#include "stage/fetch.h"
#include "stage/ledger.h"
#include "stage/stager.h"
#include "util/texts.h"

struct item {
    const char *name, *model, *path; /* borrowed from the job */
    bool keep;
    char **argv;   // NULL-terminated, borrows its texts from the job
    char *partial; /* the folder that its command fills */
    int64_t tries;
    double not_before; /* clock_seconds of the next try */
    bool mine;         /* claimed by this user, and not there yet */
    bool there, failed;
    bool needed; /* by a visit that has not ended */
    bool shaped; /* its config.json was kept (ledger_shape) */
    bool seen;   /* it has been there since this stager began */
};

struct need {
    int64_t n, *items;
    bool ended;
};

struct stager {
    json_t *job;
    struct ledger ledger;
    int64_t space, tries;
    double pause;
    bool commands, uses;
    int64_t n_items, n_visits;
    struct item *items;  // (n_items)
    struct need *visits; // (n_visits)
    struct fetch fetch;  /* the running command, for item `fetching` */
    int64_t fetching;
    bool begun;  /* the first step is done */
    double next; /* clock_seconds of the next look at the ledger */
    bool full;
    struct item *stalled; /* larger than was claimed for it, without space for the rest; or NULL */
    bool hopeless;   /* nor would there be, with nothing else on disk than what the visit reads */
    double measured; /* clock_seconds of the last look at what has been fetched of it */
    struct texts leaving; /* folders that this user is to remove */
};

/* Where a checkpoint is. */
enum place {
    PLACE_AWAY,
    PLACE_MINE,   /* claimed by this user */
    PLACE_OTHERS, /* claimed by another one that is active */
    PLACE_THERE,
    PLACE_LEAVING, /* being removed */
    PLACE_FAILED
};
enum place stager_place(const struct stager *s, const json_t *state, const struct item *item);

/* The model's checkpoints take as many bytes, or more. */
void stager_note_bytes(json_t *state, const struct item *item, int64_t bytes);

/* A ledger_change with the stager as its context, while a checkpoint is fetched: when it is larger
 * than what is claimed for it, claims more; s->stalled: there is no space for that. */
ledger_change stager_measure;

/* A ledger_change with the stager as its context: registers what its visits need, gives away what
 * nobody needs (s->leaving), and claims what it fetches next (item.mine). */
ledger_change stager_arrange;
