/* derived: checkpoints made of others while they are read: weighted sums, a file laid over a
 * folder, random directions. They are used, and closed with checkpoint_close, as a folder is; the
 * checkpoints that they are made of stay open as long. config.json and the list of
 * tensors are the first one's. No weights are stored. */
#pragma once
#include "checkpoint/checkpoint.h"

/* Every tensor is the sum of coefficient * tensor over the parts (n, copied), in their order in
 * f64, rounded to f32 once. Coefficients of zero are skipped; where one is left, and it is one, the
 * tensor is that part's bit for bit. ERR_SHAPE / ERR_FORMAT, also while reading: a part lacks a
 * tensor or has it in another shape. */
MUST_USE enum status checkpoint_combine(const struct checkpoint_part *parts, int64_t n,
                                        struct checkpoint **out, struct err *e);

/* base with the tensors of a safetensors file in place of its own. The file is held open: its name
 * may be removed. ERR_FORMAT / ERR_SHAPE: it has a tensor that base has not, or not in that shape.
 */
MUST_USE enum status checkpoint_overlay(const struct checkpoint *base, const char *path,
                                        struct checkpoint **out, struct err *e);

/* A random direction with base's tensors, filter-normalised (Li, Xu, Taylor, Studer, Goldstein
 * 2018): independent normal numbers, each row of a matrix scaled to the norm of base's row;
 * everything that is no matrix is zero. The numbers depend on stream, the tensor's name and the
 * element alone. Rows are made as they are read, some 30 ns an element. */
MUST_USE enum status checkpoint_random(const struct checkpoint *base, uint64_t stream,
                                       struct checkpoint **out, struct err *e);
