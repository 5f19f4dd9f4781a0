/* merge: the results of one sweep out of many journals and cubes (qtraj merge). The outcome depends
 * on the set of records alone: not on the order in which they come, nor on how often one comes or
 * whether some were merged before (docs/decisions/0025-merging.md). */
#pragma once
#include "records/results.h"

struct merge;
/* merge_new: *out = a merge of nothing, freed with merge_free, for which NULL is nothing.
 * ERR_NOMEM.
 */
MUST_USE enum status merge_new(struct merge **out, struct err *e);
void merge_free(struct merge *m);

/* Adds a journal or a cube (recognised by its first bytes), which stays open; a journal that is
 * being written counts as far as it goes. ERR_USAGE: of another sweep; ERR_IO, ERR_FORMAT,
 * ERR_NOMEM. */
MUST_USE enum status merge_add(struct merge *m, const char *path, struct err *e);
/* Damaged lines of the journals that were added, of which it warned. */
int64_t merge_damaged(const struct merge *m);
/* Whether all that was added are journals. */
bool merge_of_journals(const struct merge *m);
/* The plan of source i, in the order of adding; NULL: its journal holds none yet. */
const json_t *merge_plan_of(const struct merge *m, int64_t i);

/* What a merge found. Zero-initialise; texts_free(conflicts). */
struct merge_findings {
    int64_t records;   /* that it kept: one of each key */
    int64_t repeated;  /* that it left out for another of the key, and that are no copies of it */
    int64_t differing; /* those of them with another fingerprint and slightly different numbers */
    struct texts conflicts; /* one line each: same key, but numbers that should not differ */
};

/* Writes the newest plan with what was merged ("merged" in results.h) and one record of each key,
 * with its completions, as a new journal at path, in a fixed order. ERR_FORMAT: no source has a
 * plan; ERR_IO, ERR_FULL, ERR_NOMEM. */
MUST_USE enum status merge_write(struct merge *m, const char *path, struct merge_findings *out,
                                 struct err *e);

/* --- merge_compare.c --- */

/* How two records of one key compare, both whole, joined with their completions. */
enum merge_verdict {
    MERGE_SAME,      /* one has failed, or all numbers that both have are the same */
    MERGE_DIFFERENT, /* they differ, and so do the fingerprints */
    MERGE_CONFLICT   /* they differ by more than that explains, or were measured on other weights */
};
/* why (size bytes): what differs, unless they are the same. */
enum merge_verdict merge_compare(const json_t *a, const json_t *b, char *why, size_t size);
