/* distance: how far the weights of one checkpoint are from those of another, tensor by tensor, and
 * how large the steps of a quantizer's integer grid are there (docs/math/movement.md). */
#pragma once
#include "engine/pace.h"
#include "model/describe.h"
#include "util/err.h"

/* Sums over the elements of a tensor, in f64. */
struct tensor_distance {
    double distance;            /* of (to - from)^2 */
    double norm;                /* of to^2 */
    double steps[QUANT_BITS_N]; /* for each of the bit-widths: of the squared step of the element's
                                   group in `to`; 0 unless the tensor is a linear's weight */
};

/* A single weight of a linear: its values, the last the nearest on its group's grid for each
 * bit-width. */
enum { WEIGHT_BEFORE, WEIGHT_NOW, WEIGHT_ROUNDED, WEIGHT_N = WEIGHT_ROUNDED + QUANT_BITS_N };
struct weight_place {
    int64_t tensor, element; /* the element counts row by row */
};

struct distance {
    const struct checkpoint *from, *to; /* borrowed */
    const struct method_entry *grid;    /* bit-widths, and the options of the grid; borrowed */
    int64_t n;
    struct tensor_description *tensors; // (n) all parameters of `to`
    struct tensor_distance *sums;       // (n)
    int64_t n_weights;                  /* single weights; at most as many as there are */
    struct weight_place *places;        // (n_weights) in order; the same for the same shapes
    double (*weights)[WEIGHT_N];        // (n_weights)
};

/* Sums over both checkpoints, which are read once, in tiles of at most 64 rows: no more than a tile
 * of each is in memory, for each thread. The ranks of the group divide the tiles and all get all
 * sums and weights, which depend neither on their number nor on that of the threads. stop (may be
 * NULL), with its context: asked from time to time, collective; true ends it with ERR_STOPPED. pace
 * may be NULL. Collective on comm. Set from, to, grid and n_weights before; call distance_free even
 * after a failure. ERR_SHAPE: the checkpoints' tensors differ; errors of reading, ERR_NOMEM. */
MUST_USE enum status distance_measure(struct distance *d, MPI_Comm comm, bool (*stop)(void *),
                                      void *context, struct pace *pace, struct err *e);
void distance_free(struct distance *d);

/* Bytes that it takes per thread, for linears of at most so many columns. */
int64_t distance_bytes(const struct quant_options *o, int64_t cols);
