/* merge_source: a journal or cube that is merged, and where its newest record of each key is. */
#pragma once
#include "records/results.h"

/* What a source holds by key: results, completions of results that it or another source holds, and
 * how often ranks were lost. Of each key one of each, so that a merge is three independent choices.
 */
enum merge_class { CLASS_RESULT, CLASS_COMPLETION, CLASS_LOSS, CLASS_N };

/* A journal or cube. Of a journal only places are held, so that many large ones can be merged. */
struct merge_source {
    char *name;
    struct journal *journal;   /* or */
    struct results_view *view; /* of a cube */
    json_t *plan;              /* the newest; NULL: none yet */
    json_t *end;               /* of its last run; NULL: that goes on, or was killed */
    json_t *former;            /* keys of earlier versions (scores.h), as all its plans say */
    json_t *places[CLASS_N];   /* {key: number of the record in the journal}; of completions the key
                                  and what they complete it with, as "KEY PART PART" */
};

/* Opens and scans it; weights (weights_read.h): the newest of all sources, which learns its. Zero
 * *s before, free it also after a failure. ERR_IO, ERR_FORMAT, ERR_NOMEM. */
MUST_USE enum status merge_source_open(struct merge_source *s, const char *path, json_t *weights,
                                       struct err *e);
void merge_source_free(struct merge_source *s);
/* *out (a new reference) = its record of the key. ERR_IO, ERR_NOMEM. */
MUST_USE enum status merge_source_read(const struct merge_source *s, enum merge_class class,
                                       const char *key, json_t **out, struct err *e);
