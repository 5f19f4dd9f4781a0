/* visit: one checkpoint opened once, for its own metrics and a batch of its variants.
 *
 * A visit walks the decoder blocks once. The full-precision stream carries the evaluation
 * sequences; each variant has a stream of its own with evaluation sequences and, if its method
 * wants them, calibration sequences, which go stage by stage: a stage's input comes from the
 * variant's own already quantized earlier stages. At the head all streams are scored together. See
 * docs/architecture.md.
 */
#pragma once
#include "group/part.h"

/* Frees what the visit owns. */
void visit_free(struct visit *v);
/* Frees the task of part i, NULL for none. */
void visit_task_free(int i, void *task);
/* A new reference, NULL when out of memory; and back: ERR_FORMAT, ERR_NOMEM. */
json_t *visit_to_json(const struct visit *v);
MUST_USE enum status visit_from_json(const json_t *json, struct visit *out, struct err *e);

/* Part i (enum part_id) of all visits. */
const struct part *visit_part(int i);
/* Whether the visit asks for it; whether it can run without the cells, as a piece of its own. */
bool visit_wants(const struct visit *v, int i);
bool visit_has_piece(const struct visit *v, int i);

/* A visit can be run in pieces: 0 is the checkpoint's own record, i + 1 its variant i, then come
 * the parts with a piece of their own, in their order. How many there are; keeps the n pieces
 * (ascending) of v. The point of a surface is one piece, 0. */
int64_t visit_pieces(const struct visit *v);
void visit_keep_pieces(struct visit *v, const int64_t *pieces, int64_t n);

/* Frees what the cache retains. */
void visit_cache_free(struct visit_cache *c);

/* Runs the visit and emits one checkpoint record (unless cells_only), one cell record a variant,
 * then the curvature record if that is asked for. What is wrong with the checkpoint, its inputs, a
 * variant or the curvature becomes failed records (status OK here). Collective on group; only its
 * rank 0 emits. ERR_STOPPED: dropped, with all that was not emitted before; others: of the hooks,
 * or ERR_NOMEM while writing the records. */
MUST_USE enum status visit_run(const struct visit *v, MPI_Comm group, struct visit_cache *cache,
                               const struct visit_hooks *hooks, struct err *e);
