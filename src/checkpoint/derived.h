/* derived: checkpoints that are computed from others while they are read: weighted sums, averages,
 * a file that overlays a folder, random directions. They are used and closed (checkpoint_close)
 * like a folder and keep the others open. config.json and the list of tensors are those of the
 * first part. No weights are stored. */
#pragma once
#include "checkpoint/checkpoint.h"

/* Every tensor is the sum of coefficient * tensor over the parts (n, copied), in order in f64,
 * rounded to f32 once. Parts with coefficient 0 are skipped; if one part with coefficient 1
 * remains, the tensor is that part's bit for bit. ERR_SHAPE, ERR_FORMAT, also while reading: a part
 * lacks a tensor or has it in another shape. */
MUST_USE enum status checkpoint_combine(const struct checkpoint_part *parts, int64_t n,
                                        struct checkpoint **out, struct err *e);

/* The weighted mean of the parts: every tensor is the sum of coefficient * tensor, in order in f64,
 * divided by the sum of the coefficients and rounded once, to the type in which all parts store the
 * tensor; to f32 if f32, if the types differ, or if the parts store f64. checkpoint_read_stored
 * gives the values in that type; integers are the first part's. One part, or several with the same
 * values, come back bit for bit. Values are computed in pieces of at most DIGEST_SLICE elements
 * when they are read; each read reads every part once. ERR_USAGE: no part, a coefficient that is
 * not finite, or a sum of them that is not positive; ERR_SHAPE, ERR_FORMAT: the parts' config.json
 * differ in more than notes (version, path, type), or a part lacks a tensor of the first or has it
 * in another shape; the text names the files. */
MUST_USE enum status checkpoint_average(const struct checkpoint_part *parts, int64_t n, bool f32,
                                        struct checkpoint **out, struct err *e);

/* Gives c the digest of these parts (n) and the word `what` instead of that of its own: for what is
 * chosen among them. ERR_NOMEM. */
MUST_USE enum status checkpoint_identify(struct checkpoint *c, const char *what,
                                         const struct checkpoint_part *parts, int64_t n,
                                         struct err *e);

/* base with tensors replaced by those of a safetensors file, which stays open and may be unlinked.
 * ERR_FORMAT, ERR_SHAPE: the file has a tensor that base lacks or has in another shape. */
MUST_USE enum status checkpoint_overlay(const struct checkpoint *base, const char *path,
                                        struct checkpoint **out, struct err *e);

/* A random direction with base's tensors, filter-normalised (Li, Xu, Taylor, Studer, Goldstein
 * 2018): independent normal numbers, each row of a matrix scaled to the norm of base's row; all
 * other tensors are zero. The numbers depend only on stream, tensor name and element. Rows are
 * computed when they are read, at about 30 ns per element. */
MUST_USE enum status checkpoint_random(const struct checkpoint *base, uint64_t stream,
                                       struct checkpoint **out, struct err *e);
