/* packed_write: quantized linears in the formats of packed.h, as the programs that own the formats
 * write them. */
#pragma once
#include "checkpoint/packed.h"

/* "gptq", "awq", "compressed-tensors", "qtraj", NULL. */
extern const char *const packed_formats[];

/* Sets l->format to the one of that name (gptq: its first form if symmetric, else its second) and
 * checks that it can hold the rest of *l. ERR_USAGE says what the format can hold. */
MUST_USE enum status packed_layout_choose(struct packed_layout *l, const char *format,
                                          struct err *e);
/* ERR_USAGE: the format cannot hold a linear of that name and size. */
MUST_USE enum status packed_check_size(const struct packed_layout *l, const char *name,
                                       int64_t rows, int64_t cols, struct err *e);
/* *out (a new reference) = quantization_config of config.json. ignore: array of the names of linear
 * layers that are not quantized. version: of this program. ERR_NOMEM. */
MUST_USE enum status packed_config(const struct packed_layout *l, json_t *ignore,
                                   const char *version, json_t **out, struct err *e);

/* One stored tensor of a linear. */
struct packed_part {
    const char *ending; /* of its name, ".qweight" */
    enum dtype dtype;
    int n_dims;
    int64_t shape[2], n; /* n: elements */
};
enum { PACKED_PARTS = 4 };
/* The tensors of a linear, in the order in which they are written; returns their number. */
int packed_parts(const struct packed_layout *l, int64_t rows, int64_t cols,
                 struct packed_part out[PACKED_PARTS]);

/* What they store. */
struct packed_source {
    int64_t rows, cols;
    const uint8_t *codes;  // (rows, cols); qtraj: as stored
    const uint8_t *zeros;  // (rows, groups)
    const double *scales;  // (rows, groups)
    const int32_t *groups; // (cols)
    /* qtraj: codes, and: */
    const uint8_t *signs;
    float scale;
};
/* dst (p->n in its type) = the data of a tensor. */
void packed_fill(const struct packed_layout *l, const struct packed_part *p,
                 const struct packed_source *from, void *dst);
