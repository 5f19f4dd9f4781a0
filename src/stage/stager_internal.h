/* stager_internal: what serving visits (stager.c), claiming and removing checkpoints (claims.c) and
 * sharing the space with others (grants.c) share. */
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
    bool unwanted;     /* mine, but the space for it is no longer this user's */
    bool there, failed;
    bool needed; /* by a visit that has not ended */
    bool shaped; /* its config.json was kept (ledger_shape) */
    bool seen;   /* it has been there since this stager began */
};

struct need {
    int64_t n, *items;
    bool ended;
    bool granted; /* the space for all that it reads is its own */
    bool ready;   /* all of it is there: it may begin, and keeps the space until it has ended */
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
    bool held, told; /* no visit of this user can begin before others have ended theirs; said so */
    struct item *stalled; /* larger than was claimed for it, without space for the rest; or NULL */
    bool hopeless;   /* nor would there be, with nothing else on disk than what the visit reads */
    double measured; /* clock_seconds of the last look at what has been fetched of it */
    struct texts leaving; /* folders that this user is to remove */
    json_t *active;       /* {USER: BOOL}: who was found active in this look at the ledger */
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

/* A ledger_change with the stager as its context: registers what its visits need, grants them
 * space, gives away what nobody needs or what is in the way (s->leaving), and claims what it
 * fetches next (item.mine). item.unwanted: the caller ends its command, then stager_unclaim. */
ledger_change stager_arrange;
/* A ledger_change with the stager as its context: claims of unwanted items are nobody's. */
ledger_change stager_unclaim;

/* --- claims.c, for grants.c --- */

/* What the ledger notes of a checkpoint, borrowed; NULL: nothing. */
json_t *stager_entry(const json_t *state, const char *path);
/* Whether that is its state. */
bool stager_entry_is(const json_t *entry, const char *word);
/* Whether a process is active as that user; asked once in each look at the ledger. */
bool stager_active(const struct stager *s, const char *user);
/* Whether all that the visit reads is on disk; whether some of it cannot be had. */
bool stager_satisfied(const struct stager *s, const struct need *v);
bool stager_failed(const struct stager *s, const struct need *v);
/* From now on it is this user's to remove (s->leaving). ERR_IO, ERR_NOMEM. */
MUST_USE enum status stager_give_away(struct stager *s, const char *path, json_t *entry,
                                      struct err *e);

/* --- grants.c --- */

/* Who has, and who is next to have, the space: sets of checkpoints, as {PATH: MODEL}. */
struct shares {
    json_t *pinned; /* what the granted visits of active users read */
    json_t *before; /* what the first visits of users read that have an earlier name */
    json_t *next;   /* the same of all users, as far as they fit beside each other */
    bool first;     /* no active user with an earlier name has a granted visit */
    size_t largest; /* checkpoints of the granted visit that reads the most */
};
/* The caller frees, also after a failure. ERR_NOMEM. */
MUST_USE enum status shares_make(struct stager *s, const json_t *state, struct shares *out,
                                 struct err *e);
void shares_free(struct shares *h);

/* Visits may begin in order, when they are granted and all that they read is there. */
void grants_look(struct stager *s);
/* A new reference; NULL: out of memory. What this user's first visit reads that has not ended; what
 * its granted visits read, {VISIT: {PATH: MODEL}}; numbers of those that may begin. */
json_t *grants_first(const struct stager *s);
json_t *grants_held(const struct stager *s);
json_t *grants_ready(const struct stager *s);

/* Bytes of all that is on disk or claimed, and of what is about to be removed. */
int64_t grants_used(const json_t *state);
int64_t grants_leaving(const json_t *state);
/* What the item will take on disk: the model's largest checkpoint so far, or all there is. */
int64_t grants_expected(const struct stager *s, const json_t *state, const char *model);
/* Bytes that are still to be fetched for the visit; *n: of how many checkpoints. */
int64_t grants_missing(const struct stager *s, const json_t *state, const struct need *v,
                       int64_t *n);
/* Whether the visit fits into the space beside what is pinned, and next to be. */
MUST_USE enum status grants_fit_ahead(const struct stager *s, const json_t *state,
                                      const struct shares *h, const struct need *v, bool *fits,
                                      struct err *e);

/* Takes back grants if sizes have turned out larger than they were taken for, and gives new ones.
 * s->held. */
MUST_USE enum status grants_update(struct stager *s, const json_t *state, struct shares *h,
                                   bool *changed, struct err *e);
/* Gives away checkpoints that no granted visit reads, those first that are needed last, until so
 * many bytes more would fit. ERR_IO, ERR_NOMEM. */
MUST_USE enum status grants_evict(struct stager *s, json_t *state, const struct shares *h,
                                  int64_t bytes, bool *changed, struct err *e);
