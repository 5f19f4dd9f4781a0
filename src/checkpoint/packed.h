/* packed: quantized linears as other programs store them: codes of a few bits in 32-bit words, with
 * scales and zeros for each group of input channels. A weight is scale * (code - zero).
 *
 *   gptq                P.qweight (cols * bits / 32, rows), P.qzeros (groups, rows * bits / 32),
 *                       P.scales (groups, rows), P.g_idx (cols): the group of each column. Its
 * first form stores zeros less one (GPTQModel, nn_modules/qlinear, utils/model.py) awq P.qweight
 * (cols, rows / 8), P.qzeros (groups, rows / 8), P.scales, 4 bits, eight rows of a word in the
 * order 0 2 4 6 1 3 5 7 (AutoAWQ, GEMM) compressed-tensors  P.weight_packed (rows, words),
 * P.weight_scale (rows, groups), P.weight_shape, P.weight_zero_point (words, groups) unless
 * symmetric, P.weight_g_idx (its pack-quantized format)
 *
 *   bitnet              P.weight (rows / 4, cols) of bytes, which hold rows i, i + rows / 4, ... of
 * a ternary weight in two bits each, lowest first, plus 1, or P.weight (rows, cols) of floats;
 * P.weight_scale (1), which multiplies, or in class bitlinear divides (transformers,
 * integrations/bitnet.py)
 *
 *   qtraj               P.codes (rows / 16, bytes), P.signs (1, bytes) unless incoherence is
 * false, P.scale (1, 1): blocks of 16 rows as coding/block_code.h has them, from the left
 *
 * Where codes are longer than what a word has left, they go on in the next one: a stream of bits,
 * lowest first. */
#pragma once
#include "checkpoint/tensor_file.h"
#include "coding/block_code.h"
#include "util/err.h"
#include "util/json.h"

enum packed_format {
    PACKED_NONE,
    PACKED_GPTQ,
    PACKED_GPTQ_V2,
    PACKED_AWQ,
    PACKED_COMPRESSED,
    PACKED_BITNET,
    PACKED_BLOCKS
};

/* How a checkpoint is packed. */
struct packed_layout {
    enum packed_format format;
    int64_t bits;
    int64_t group_size; /* columns of a group; -1: the whole row */
    bool symmetric;     /* every zero is 2^(bits - 1); compressed-tensors: none are stored */
    bool ordered;       /* writing: columns of a group are not side by side */
    bool wide;          /* writing: scales are f32, not f16 */
    bool divides;       /* bitnet: the scale does, and weights are bytes */
    /* qtraj: */
    struct block_form blocks;
    bool mixed; /* there are signs */
};

/* *out = the layout of a config.json, from its quantization_config; format PACKED_NONE: it has
 * none. file: for messages. ERR_FORMAT: a malformed one; ERR_USAGE: one that qtraj cannot read. */
MUST_USE enum status packed_layout_read(const json_t *config, const char *file,
                                        struct packed_layout *out, struct err *e);

/* What quantization_config asks of linears by the method bitnet. ONLINE: weights become ternary
 * when they are loaded; STORED: they are read as they are; in both inputs are rounded to 8 bits
 * (activation/bitnet.h), so that quantization_config stays in the configuration. */
enum bitnet_linears { BITNET_NONE, BITNET_ONLINE, BITNET_STORED };
enum bitnet_linears packed_bitnet_linears(const json_t *config);

/* *out = the code of such a q; free with block_code_free, also after a failure. ERR_FORMAT: its
 * table; ERR_NOMEM. */
MUST_USE enum status packed_blocks_code(const json_t *q, const char *file, struct block_code *out,
                                        struct err *e);

/* One packed linear: where its tensors are; borrowed entries, NULL: it has none. */
struct packed_tensor {
    char *name; /* of the weight that it stands for, P.weight; the first member: see name_compare */
    int64_t rows, cols;
    const struct tensor_entry *codes, *zeros, *scales, *groups;
    const struct tensor_entry *size; /* holds rows and columns, whoever reads it sets them */
};

/* The ending of the tensor by which a linear is found: that of codes (".qweight"), of bitnet that
 * of the scale. */
const char *packed_ending(enum packed_format format);
/* Whether a tensor of that name is a part of a packed linear in that format. */
bool packed_is_part(enum packed_format format, const char *name);
/* The tensors of a checkpoint, sorted by name, and a file for messages. */
struct packed_among {
    int64_t n;
    const struct tensor_entry *entries; // (n)
    const char *file;
};
/* Fills *out but its name, for the tensor `codes` with that ending. ERR_FORMAT: a tensor is missing
 * or of a wrong type; ERR_SHAPE: wrong dimensions. */
MUST_USE enum status packed_tensor_find(const struct packed_layout *l,
                                        const struct packed_among *in,
                                        const struct tensor_entry *codes, struct packed_tensor *out,
                                        struct err *e);
/* dst (n) = elements [first, first + n) of the weight of bytes codes (rows / 4, cols). ERR_FORMAT:
 * a code is 3. */
MUST_USE enum status packed_bitnet_decode(const struct packed_layout *l,
                                          const struct packed_tensor *t, const uint8_t *codes,
                                          float scale, int64_t first, int64_t n, float *dst,
                                          struct err *e);
/* ERR_SHAPE: the tensors do not hold a weight of that size. */
MUST_USE enum status packed_tensor_check(const struct packed_layout *l,
                                         const struct packed_tensor *t, const char *file,
                                         struct err *e);

/* The stored numbers of a packed linear. */
struct packed_numbers {
    uint32_t *codes, *zeros; /* zeros NULL: 2^(bits - 1) */
    float *scales;
    int32_t *groups; // (cols); NULL: column / group_size
};
/* ERR_FORMAT: a column is in a group that does not exist. */
MUST_USE enum status packed_check(const struct packed_layout *l, const struct packed_tensor *t,
                                  const struct packed_numbers *n, struct err *e);
/* dst (cols) = row i of the weight; the numbers are checked. */
void packed_row(const struct packed_layout *l, const struct packed_tensor *t,
                const struct packed_numbers *n, int64_t i, float *dst);
/* Groups of a row. */
int64_t packed_groups(const struct packed_layout *l, int64_t cols);
