/* block_reader: the blocks' weights, read once by the ranks of a node together, each a part, into
 * memory that they share. A thread can read a block ahead, while another one is used. Collective on
 * the group. */
#pragma once
#include "engine/group.h"
#include "model/model.h"

struct block_reader;

/* first: the block that will be asked for first. ahead: read the next block while the current one
 * is used; takes memory for a second block. g and m are borrowed. ERR_NOMEM. */
MUST_USE enum status block_reader_open(const struct visit_group *g, const struct model *m,
                                       bool ahead, int64_t first, struct block_reader **out,
                                       struct err *e);
/* *out = a block, borrowed until the next call; nothing is read if it is the one of the call
 * before. next: the block that will be asked for after it; -1, or the number of
 * blocks: none. Errors of model_block_read,
 * the same on all ranks. */
MUST_USE enum status block_reader_get(struct block_reader *r, int64_t layer, int64_t next,
                                      const struct block **out, struct err *e);
/* Prepares the linears of the block in use for the model's products, a part on each rank of a node,
 * until the next block is prepared. ERR_NOMEM. */
MUST_USE enum status block_reader_prepare(struct block_reader *r, struct err *e);
double block_reader_seconds(const struct block_reader *r); /* waiting for reads so far */
/* NULL: does nothing. */
void block_reader_close(struct block_reader *r);
CLEANUP_BY_VALUE(struct block_reader, block_reader_close);
