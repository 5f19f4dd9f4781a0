/* visit: one checkpoint opened once, for its own metrics and a batch of its variants.
 *
 * A visit walks the decoder blocks once. The full-precision stream carries the evaluation
 * sequences; each variant has a stream of its own with evaluation sequences and, if its method
 * wants them, calibration sequences, which go stage by stage: a stage's input comes from the
 * variant's own already quantized earlier stages. At the head all streams are scored together. See
 * docs/architecture.md.
 */
#pragma once
#include "group/task.h"

void visit_free(struct visit *v);
/* A new reference, NULL when out of memory; and back. */
json_t *visit_to_json(const struct visit *v);
MUST_USE enum status visit_from_json(const json_t *json, struct visit *out, struct err *e);

/* A visit can be run in pieces. Its parts: 0 is the checkpoint's own record, i + 1 its variant i,
 * the last one its curvature, if that is asked for. Keeps the n parts (ascending) of v. */
void visit_keep_parts(struct visit *v, const int64_t *parts, int64_t n);

void visit_cache_free(struct visit_cache *c);

/* Runs the visit and emits one checkpoint record (unless cells_only), one cell record a variant,
 * then the curvature record if that is asked for. What is wrong with the checkpoint, its inputs, a
 * variant or the curvature becomes failed records (status OK here). Collective on group; only its
 * rank 0 emits. ERR_STOPPED: dropped, with all that was not emitted before; others: of the hooks,
 * or ERR_NOMEM while writing the records. */
MUST_USE enum status visit_run(const struct visit *v, MPI_Comm group, struct visit_cache *cache,
                               const struct visit_hooks *hooks, struct err *e);
