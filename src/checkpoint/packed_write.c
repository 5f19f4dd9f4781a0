#include "checkpoint/packed_write.h"
#include "checkpoint/packed_internal.h"
#include <inttypes.h>
#include <string.h>

/* --- what the formats can hold --- */

struct format {
    enum packed_format symmetric, asymmetric;
    unsigned bits;      /* bit b: b bits */
    bool ordered;       /* it stores the group of each column */
    bool wide;          /* it stores scales in f32 too */
    bool whole;         /* groups divide the row */
    int64_t rows, cols; /* what rows and columns must be multiples of */
    const char *holds;
};

const char *const packed_formats[] = {"gptq", "awq", "compressed-tensors", "qtraj", NULL};

enum { ANY_BITS = 0x1FC, GPTQ_BITS = 1u << 2 | 1u << 3 | 1u << 4 | 1u << 8 };

static const struct format formats[] = {
    {PACKED_GPTQ, PACKED_GPTQ_V2, GPTQ_BITS, .ordered = true, .rows = 32, .cols = 32,
     .holds = "2, 3, 4 or 8 bits, scales of 16 bits (scale_dtype: f16), rows and columns in "
              "multiples of 32"},
    {PACKED_AWQ, PACKED_AWQ, 1u << 4, .whole = true, .rows = 8, .cols = 1,
     .holds = "4 bits, scales of 16 bits (scale_dtype: f16), columns of a group side by side (no "
              "order: activation), rows in multiples of 8, a group size that divides the columns"},
    {PACKED_COMPRESSED, PACKED_COMPRESSED, ANY_BITS, .wide = true, .whole = true, .rows = 1,
     .cols = 1,
     .holds = "2 to 8 bits, columns of a group side by side (no order: activation), a group size "
              "that divides the columns"},
    {PACKED_BLOCKS, PACKED_BLOCKS, 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4, .ordered = true,
     .wide = true, .rows = BAND_ROWS, .cols = 16,
     .holds = "codes of blocks (trellis, e8p), rows and columns in multiples of 16"},
};

static const struct format *format_of(enum packed_format f)
{
    const struct format *at = formats;
    while (at->symmetric != f && at->asymmetric != f) at++;
    return at;
}

static const char *name_of(const struct format *f)
{
    return packed_formats[f - formats];
}

enum status packed_layout_choose(struct packed_layout *l, const char *format, struct err *e)
{
    int i = 0;
    while (strcmp(packed_formats[i], format) != 0) i++;
    const struct format *f = &formats[i];
    l->format = l->symmetric ? f->symmetric : f->asymmetric;
    NEED(f->bits >> l->bits & 1, ERR_USAGE, "format %s cannot hold %" PRId64 " bits; it holds %s",
         format, l->bits, f->holds);
    NEED(f->ordered || !l->ordered, ERR_USAGE,
         "format %s cannot hold groups in order of activation; it holds %s", format, f->holds);
    NEED(f->wide || !l->wide, ERR_USAGE, "format %s cannot hold scales of 32 bits; it holds %s",
         format, f->holds);
    return OK;
}

enum status packed_check_size(const struct packed_layout *l, const char *name, int64_t rows,
                              int64_t cols, struct err *e)
{
    const struct format *f = format_of(l->format);
    NEED(rows % f->rows == 0 && cols % f->cols == 0, ERR_USAGE,
         "format %s cannot hold %s with %" PRId64 " rows and %" PRId64 " columns; it holds %s",
         name_of(f), name, rows, cols, f->holds);
    NEED(!f->whole || l->group_size < 0 || cols % l->group_size == 0, ERR_USAGE,
         "format %s cannot hold %s with groups of %" PRId64 " of its %" PRId64
         " columns; it holds %s",
         name_of(f), name, l->group_size, cols, f->holds);
    return OK;
}

/* --- config.json --- */

static json_t *config_gptq(const struct packed_layout *l, const char *version)
{
    return json_pack("{s:s, s:s, s:I, s:I, s:b, s:b, s:b, s:s, s:{s:[s+]}}", "quant_method", "gptq",
                     "checkpoint_format", l->format == PACKED_GPTQ ? "gptq" : "gptq_v2", "bits",
                     (json_int_t)l->bits, "group_size", (json_int_t)l->group_size, "desc_act",
                     l->ordered, "sym", l->symmetric, "lm_head", 0, "pack_dtype", "int32", "meta",
                     "quantizer", "qtraj:", version);
}

static json_t *config_awq(const struct packed_layout *l, json_t *ignore)
{
    return json_pack("{s:s, s:s, s:I, s:I, s:b, s:O}", "quant_method", "awq", "version", "gemm",
                     "bits", (json_int_t)l->bits, "group_size", (json_int_t)l->group_size,
                     "zero_point", 1, "modules_to_not_convert", ignore);
}

static json_t *config_compressed(const struct packed_layout *l, json_t *ignore)
{
    const bool rows = l->group_size < 0;
    json_t *weights =
        json_pack("{s:I, s:s, s:b, s:s, s:o, s:b}", "num_bits", (json_int_t)l->bits, "type", "int",
                  "symmetric", l->symmetric, "strategy", rows ? "channel" : "group", "group_size",
                  rows ? json_null() : json_integer(l->group_size), "dynamic", 0);
    return json_pack("{s:s, s:s, s:s, s:{s:{s:[s], s:o, s:n, s:n}}, s:O}", "quant_method",
                     "compressed-tensors", "format", "pack-quantized", "quantization_status",
                     "compressed", "config_groups", "group_0", "targets", "Linear", "weights",
                     weights, "input_activations", "output_activations", "ignore", ignore);
}

static json_t *config_blocks(const struct packed_layout *l)
{
    float table[2 * BITSHIFT_TABLE];
    json_t *out = json_pack("{s:s, s:s, s:I, s:b}", "quant_method", "qtraj", "code",
                            block_kinds[l->blocks.kind], "bits", (json_int_t)l->bits, "incoherence",
                            l->mixed);
    if (l->blocks.kind != BLOCK_E8P)
        json_object_set_new(out, "window", json_integer(l->blocks.window));
    if (l->blocks.kind != BLOCK_HYB) return out;
    json_t *numbers = json_array();
    const bool failed = bitshift_table(table, NULL) != OK;
    for (int i = 0; !failed && i < 2 * BITSHIFT_TABLE; i++)
        json_array_append_new(numbers, json_real((double)table[i]));
    if (json_object_set_new(out, "table", numbers) == 0 && !failed) return out;
    json_decref(out);
    return NULL;
}

enum status packed_config(const struct packed_layout *l, json_t *ignore, const char *version,
                          json_t **out, struct err *e)
{
    if (l->format == PACKED_AWQ)
        *out = config_awq(l, ignore);
    else if (l->format == PACKED_COMPRESSED)
        *out = config_compressed(l, ignore);
    else if (l->format == PACKED_BLOCKS)
        *out = config_blocks(l);
    else
        *out = config_gptq(l, version);
    NEED(*out, ERR_NOMEM, "out of memory for quantization_config");
    return OK;
}

/* --- tensors --- */

static struct packed_part part(const char *ending, enum dtype dtype, int n_dims,
                               const int64_t *shape)
{
    return (struct packed_part){ending,
                                dtype,
                                n_dims,
                                {shape[0], n_dims > 1 ? shape[1] : 0},
                                shape[0] * (n_dims > 1 ? shape[1] : 1)};
}

int packed_parts(const struct packed_layout *l, int64_t rows, int64_t cols,
                 struct packed_part out[PACKED_PARTS])
{
    const struct packed_endings *of = packed_endings_of(l->format);
    const struct packed_shapes s = packed_shapes_of(l, rows, cols);
    const bool compressed = l->format == PACKED_COMPRESSED, blocks = l->format == PACKED_BLOCKS;
    const bool grouped = l->format == PACKED_GPTQ || l->format == PACKED_GPTQ_V2;
    int n = 0;
    const enum dtype codes = blocks ? DTYPE_U8 : DTYPE_I32;
    out[n++] = part(of->codes, codes, 2, s.codes);
    if (blocks ? l->mixed : !compressed || !l->symmetric)
        out[n++] = part(of->zeros, codes, 2, s.zeros);
    out[n++] = part(of->scales, l->wide ? DTYPE_F32 : DTYPE_F16, 2, s.scales);
    if (grouped) out[n++] = part(of->groups, DTYPE_I32, 1, &cols);
    if (compressed) out[n++] = part(of->size, DTYPE_I64, 1, (const int64_t[]){2});
    return n;
}

/* Adds a code to words that were zero. */
static void put(const struct packed_layout *l, uint32_t *w, struct packed_place p, uint32_t code)
{
    w[p.at] |= code << p.shift;
    if (p.shift + l->bits > PACKED_WORD) w[p.at + p.pitch] |= code >> (PACKED_WORD - p.shift);
}

static void fill_codes(const struct packed_layout *l, const struct packed_source *s, uint32_t *dst)
{
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t j = 0; j < s->cols; j++)
            put(l, dst, packed_code_place(l, s->rows, s->cols, i, j), s->codes[i * s->cols + j]);
}

/* The first form of gptq, see zero_at of the reader: fields that divide a word are lessened by one
 * constant for the word, others one by one. */
static void fill_zeros(const struct packed_layout *l, const struct packed_source *s, uint32_t *dst)
{
    const int64_t groups = packed_groups(l, s->cols), words = packed_words(s->rows, l->bits);
    const uint32_t mask = (1u << l->bits) - 1;
    const bool lessened = l->format == PACKED_GPTQ, divides = PACKED_WORD % l->bits == 0;
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t g = 0; g < groups; g++) {
            const uint32_t zero = s->zeros[i * groups + g];
            put(l, dst, packed_zero_place(l, s->rows, groups, i, g),
                lessened && !divides ? (zero - 1) & mask : zero);
        }
    for (int64_t k = 0; lessened && divides && k < groups * words; k++) dst[k] -= UINT32_MAX / mask;
}

static void fill_scales(const struct packed_layout *l, const struct packed_part *p,
                        const struct packed_source *s, char *dst)
{
    const int64_t groups = packed_groups(l, s->cols), size = (int64_t)dtype_size(p->dtype);
    const bool rows_first = l->format == PACKED_COMPRESSED;
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t g = 0; g < groups; g++) {
            const int64_t at = rows_first ? i * groups + g : g * s->rows + i;
            dtype_narrow(dst + at * size, &s->scales[i * groups + g], p->dtype, 1);
        }
}

void packed_fill(const struct packed_layout *l, const struct packed_part *p,
                 const struct packed_source *from, void *dst)
{
    const struct packed_endings *of = packed_endings_of(l->format);
    const int64_t shape[2] = {from->rows, from->cols};
    if (l->format == PACKED_BLOCKS) {
        const void *data = p->ending == of->codes   ? (const void *)from->codes
                           : p->ending == of->zeros ? (const void *)from->signs
                                                    : &from->scale;
        memcpy(dst, data, (size_t)p->n * dtype_size(p->dtype));
        return;
    }
    memset(dst, 0, (size_t)p->n * dtype_size(p->dtype));
    if (p->ending == of->codes) fill_codes(l, from, dst);
    if (p->ending == of->zeros) fill_zeros(l, from, dst);
    if (p->ending == of->scales) fill_scales(l, p, from, dst);
    if (p->ending == of->groups) memcpy(dst, from->groups, (size_t)p->n * sizeof *from->groups);
    if (p->ending == of->size) memcpy(dst, shape, sizeof shape);
}
