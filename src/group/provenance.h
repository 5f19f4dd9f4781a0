/* provenance: what all records of one visit have in common. */
#pragma once
#include "group/task.h"

struct provenance {
    const struct visit *visit;
    const char *fingerprint;
    const char *weights_hash; /* "" when the checkpoint could not be opened */
    char utc_start[21];
    int64_t memory_planned; /* bytes at the peak */
};

/* Peak resident bytes of this process so far. */
double provenance_peak_memory(void);

/* A record of that type and key with all that the visit's records share; values, datasets empty. A
 * new reference, NULL when out of memory. failure: NULL or code OK for none. */
json_t *provenance_record(const struct provenance *o, const char *type, const char *key,
                          const struct err *failure);

/* OK for the record of something that was done; else the failure that the record reports: its own
 * status, its message in e (ERR_FORMAT where an older record names no status). */
MUST_USE enum status provenance_failure(const json_t *record, struct err *e);

/* What the last bits of a result may depend on: versions, BLAS kernel, ranks of the group (any
 * when the numbers are made not to depend on them, which those of curvature never are). The caller
 * frees. */
MUST_USE enum status visit_fingerprint(MPI_Comm group, const struct run_options *o, bool curvature,
                                       char **out, struct err *e);

/* A number of a record: null where it is not finite; and a whole one. */
static inline void record_number(json_t *object, const char *name, double value)
{
    json_object_set_new(object, name, json_number_new(value));
}

/* Sets an integer of a JSON object. */
static inline void record_integer(json_t *object, const char *name, int64_t value)
{
    json_object_set_new(object, name, json_integer((json_int_t)value));
}
