/* stored: a stream whose weights another program has quantized: a GGUF file, a packed folder, or
 * any other checkpoint of the model. Embedding, norms and head are its own too. */
#pragma once
#include "engine/visit_internal.h"

struct stored {
    struct checkpoint *checkpoint;
    struct model *model;
    struct block block; /* the last one read */
};

/* Opens the checkpoint at the variant's path for the stream. Local. Errors of checkpoint_open and
 * model_open; ERR_SHAPE: it is of another model than the run's. */
MUST_USE enum status stored_open(const struct run *r, struct stream *s, struct err *e);
/* NULL: does nothing. */
void stored_close(struct stored *s);
/* *quantized = the stream's block, which s->stored->block owns, in place of quantize_block; b: the
 * original one. Collective; every rank reads it whole. Errors of model_block_load. */
MUST_USE enum status stored_block(struct workspace *w, struct stream *s, const struct block *b,
                                  struct block *quantized, struct err *e);
