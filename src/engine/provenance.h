/* provenance: the fields that all records of a visit share. */
#pragma once
#include "engine/reads.h"
#include "engine/visit_types.h"

struct provenance {
    const struct visit *visit;
    const char *fingerprint;
    const char *weights_hash; /* "" when the checkpoint could not be opened */
    struct reads *reads;      /* what the visit reads; borrowed */
    const char *stamp;        /* digest of the inputs (stamp.h), in failed records */
    char utc_start[21];
    int64_t memory_planned; /* predicted peak, bytes */
    int64_t memory_limit;   /* of a rank, bytes; 0: none */
};

/* Peak resident bytes of this process so far. */
double provenance_peak_memory(void);

/* What a failed record says of its inputs, `stamp` as above: after ERR_CHANGED a word that is no
 * digest, so that the next run tries again. */
const char *provenance_stamp(const struct err *failure, const char *stamp);

/* A new record of that type and key with the shared fields and empty values and datasets (NULL: out
 * of memory). failure: the error that the record reports; NULL or code OK for none. */
json_t *provenance_record(const struct provenance *o, const char *type, const char *key,
                          const struct err *failure);

/* Returns OK for a record with status done, else the status that the record reports (ERR_FORMAT if
 * an older record has none), with its message in e. */
MUST_USE enum status provenance_failure(const json_t *record, struct err *e);

/* *out (the caller frees) = what the last bits of a result may depend on: versions, BLAS kernel,
 * number of ranks of the group ("any" with run.reproducible, except for curvature), and how
 * products and those of codes (integers: as such) were computed. Collective on group. ERR_NOMEM,
 * ERR_MPI. */
MUST_USE enum status visit_fingerprint(MPI_Comm group, const struct run_options *o, bool curvature,
                                       enum products products, bool integers, char **out,
                                       struct err *e);

/* Sets a number of a JSON object (util/json.h: not finite numbers are strings). */
static inline void record_number(json_t *object, const char *name, double value)
{
    json_object_set_new(object, name, json_number_new(value));
}

/* Sets an integer of a JSON object. */
static inline void record_integer(json_t *object, const char *name, int64_t value)
{
    json_object_set_new(object, name, json_integer((json_int_t)value));
}

/* Appends a row to a table of a record, {COLUMN: [...], ...}: a new reference for each column. */
void record_row(json_t *table, const struct field *columns, json_t *const *row);
#define RECORD_ROW(table, columns, ...) record_row(table, columns, (json_t *const[]){__VA_ARGS__})
