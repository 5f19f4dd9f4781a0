/* visit: opens one checkpoint once, evaluates it in full precision and processes a batch of its
 * variants.
 *
 * A stream is the hidden states of one variant, or of full precision, between blocks. The
 * full-precision stream has the evaluation sequences. Each variant's stream has the evaluation
 * sequences and, if its method calibrates, the calibration sequences, which pass through a block
 * stage by stage: the input of a stage is computed with the variant's already quantized earlier
 * stages. The head scores all streams together. See docs/architecture.md. */
#pragma once
#include "engine/part.h"

/* Frees what the visit owns. */
void visit_free(struct visit *v);
/* Frees the setup of part i; NULL: does nothing. */
void visit_setup_free(int i, void *setup);
/* The visit no longer requests part i. */
void visit_drop_setup(struct visit *v, int i);
/* Serializes a visit (a new reference, NULL: out of memory) and parses it again (ERR_FORMAT,
 * ERR_NOMEM). */
json_t *visit_to_json(const struct visit *v);
MUST_USE enum status visit_from_json(const json_t *json, struct visit *out, struct err *e);

/* Whether the visit requests part i; whether the part can run without the cells, as a separate
 * batch. */
bool visit_wants(const struct visit *v, int i);
/* Whether a measure of it looks at the full-precision stream (engine/observe.h), whose blocks and
 * texts then run. */
bool visit_observes(const struct visit *v);
bool visit_has_batch(const struct visit *v, int i);

/* A visit can be split into batches: batch 0 is the checkpoint's record, batch i + 1 its variant i,
 * followed by the parts that are separate batches, in order. A surface point is one batch.
 * visit_batches: their number; visit_keep_batches: removes from v all but the n given ones
 * (ascending). */
int64_t visit_batches(const struct visit *v);
void visit_keep_batches(struct visit *v, const int64_t *batches, int64_t n);

/* out = the digest (stamp.h) of the input files of part i's records as they are now. */
void visit_stamp(const struct visit *v, int i, char out[HASH_HEX]);

/* out = the digest of evaluation i; false: its label stands for it. */
bool visit_text_key(const struct visit *v, int64_t i, char out[HASH_HEX]);
/* out = the digest of the input files of what is scored on evaluation i alone. */
void visit_text_stamp(const struct visit *v, int64_t i, char out[HASH_HEX]);

/* Frees what the cache holds; saved states of the last visit stay. */
void visit_cache_free(struct visit_cache *c);
/* Removes the saved states of finished visits: their records are in the journal. */
void visit_states_remove(struct visit_cache *c);

/* Runs the visit and emits, as soon as it is scored, one checkpoint record (unless cells_only or
 * scored) and one record per cell (unless scored), then their completions, then the curvature
 * record if requested. An error in the checkpoint, its inputs, a variant or the curvature is
 * emitted as a failed record, and the function returns OK. Collective on group; only its rank 0
 * emits. ERR_STOPPED: aborted; results not yet emitted are lost. Other errors: of the hooks, or
 * ERR_NOMEM while making records. */
MUST_USE enum status visit_run(const struct visit *v, MPI_Comm group, struct visit_cache *cache,
                               const struct visit_hooks *hooks, struct err *e);
