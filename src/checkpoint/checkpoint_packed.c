/* Checkpoints whose linears are packed (packed.h) are read as if they had their weights in f32. */
#include "checkpoint/checkpoint_internal.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/words.h"
#include <math.h>

/* --- reading --- */

/* NULL: the tensor is not packed. */
static const struct packed_tensor *find_packed(const struct checkpoint *c, const char *name)
{
    return c->n_packed
               ? bsearch(&name, c->packed, (size_t)c->n_packed, sizeof *c->packed, name_compare)
               : NULL;
}

/* *out, a pointer to numbers of that type (the caller frees) = the whole tensor. */
static enum status read_codes(const struct checkpoint *c, const struct tensor_entry *t,
                              enum dtype dtype, void *out, struct err *e)
{
    const struct safetensors *file = &c->files[t->file];
    void *codes;
    NEED(t->dtype == dtype, ERR_FORMAT, "%s: tensor %s is %s, packed codes are %s", file->path,
         t->name, dtype_name(t->dtype), dtype_name(dtype));
    PASS(mem_alloc(&codes, t->n_elements, dtype_size(dtype), "packed codes", e));
    memcpy(out, &codes, sizeof codes);
    return safetensors_read_stored(file, t, 0, t->n_elements, codes, e);
}

static void numbers_free(struct packed_numbers *n)
{
    free(n->codes);
    free(n->zeros);
    free(n->scales);
    free(n->groups);
}

/* The numbers of a packed linear, read whole: a few bits for each weight. */
static enum status numbers_read(const struct checkpoint *c, const struct packed_tensor *t,
                                struct packed_numbers *n, struct err *e)
{
    const struct tensor_entry *scales = t->scales, *groups = t->groups;
    PASS(read_codes(c, t->codes, DTYPE_I32, &n->codes, e));
    if (t->zeros) PASS(read_codes(c, t->zeros, DTYPE_I32, &n->zeros, e));
    PASS(mem_alloc(&n->scales, scales->n_elements, sizeof *n->scales, "scales", e));
    PASS(safetensors_read_range(&c->files[scales->file], scales, 0, scales->n_elements, n->scales,
                                e));
    if (!groups) return OK;
    PASS(mem_alloc(&n->groups, groups->n_elements, sizeof *n->groups, "groups of columns", e));
    return safetensors_read_i32(&c->files[groups->file], groups, n->groups, e);
}

static enum status read_bitnet(const struct checkpoint *c, const struct packed_tensor *t,
                               int64_t first, int64_t n, float *dst, struct err *e)
{
    AUTO_FREE uint8_t *codes = NULL;
    const struct safetensors *file = &c->files[t->codes->file];
    float scale;
    PASS(safetensors_read_range(&c->files[t->scales->file], t->scales, 0, 1, &scale, e));
    if (t->codes->dtype != DTYPE_U8) {
        PASS(safetensors_read_range(file, t->codes, first, n, dst, e));
        for (int64_t i = 0; i < n; i++) dst[i] *= scale;
        return OK;
    }
    PASS(read_codes(c, t->codes, DTYPE_U8, &codes, e));
    const enum status st = packed_bitnet_decode(&c->layout, t, codes, scale, first, n, dst, e);
    if (st != OK) err_prefix(e, "%s", file->path);
    return st;
}

/* The whole weight is computed for any part of it. */
static enum status read_blocks(const struct checkpoint *c, const struct packed_tensor *t,
                               int64_t first, int64_t n, float *dst, struct err *e)
{
    AUTO_FREE uint8_t *codes = NULL, *signs = NULL;
    AUTO_FREE float *w = NULL;
    CLEANUP(block_sides_free) struct block_sides sides = {0};
    const int64_t weights = t->rows * t->cols;
    float scale;
    PASS(read_codes(c, t->codes, DTYPE_U8, &codes, e));
    if (t->zeros) PASS(read_codes(c, t->zeros, DTYPE_U8, &signs, e));
    PASS(safetensors_read_range(&c->files[t->scales->file], t->scales, 0, 1, &scale, e));
    NEED(isfinite(scale), ERR_FORMAT, "%s: tensor %s is not finite", c->files[t->scales->file].path,
         t->scales->name);
    PASS(block_sides_of(&sides, t->rows, t->cols, signs, e));
    if (n < weights) PASS(mem_alloc(&w, weights, sizeof *w, "a weight", e));
    float *all = w ? w : dst;
    block_weights(&c->code, &sides, codes, all);
    for (int64_t k = 0; k < n; k++) dst[k] = (float)((double)all[first + k] * (double)scale);
    return OK;
}

static enum status read_packed(const struct checkpoint *c, const struct tensor_entry *entry,
                               int64_t first, int64_t n, float *dst, struct err *e)
{
    const struct packed_tensor *t = find_packed(c, entry->name);
    CLEANUP(numbers_free) struct packed_numbers numbers = {0};
    AUTO_FREE float *row = NULL;
    if (!t) return safetensors_read_range(&c->files[entry->file], entry, first, n, dst, e);
    if (c->layout.format == PACKED_BITNET) return read_bitnet(c, t, first, n, dst, e);
    if (c->layout.format == PACKED_BLOCKS) return read_blocks(c, t, first, n, dst, e);
    PASS(numbers_read(c, t, &numbers, e));
    PASS(mem_alloc(&row, t->cols, sizeof *row, "a row of weights", e));
    PASS(packed_check(&c->layout, t, &numbers, e));
    for (int64_t i = 0, count; i < n; i += count) {
        const int64_t r = (first + i) / t->cols, skip = (first + i) % t->cols;
        count = min64(t->cols - skip, n - i);
        packed_row(&c->layout, t, &numbers, r, row);
        memcpy(dst + i, row + skip, (size_t)count * sizeof *dst);
    }
    return OK;
}

static enum status read_packed_stored(const struct checkpoint *c, const struct tensor_entry *t,
                                      int64_t first, int64_t n, void *dst, struct err *e)
{
    return find_packed(c, t->name) ? read_packed(c, t, first, n, dst, e)
                                   : checkpoint_read_file(c, t, first, n, dst, e);
}

/* --- opening --- */

/* Finds the linears; c's entries are still those of the files. */
static enum status find_linears(struct checkpoint *c, struct err *e)
{
    const char *ending = packed_ending(c->layout.format);
    PASS(mem_zero(&c->packed, c->n, sizeof *c->packed, c->dir, e));
    for (int64_t i = 0; i < c->n; i++) {
        const struct tensor_entry *t = &c->entries[i];
        struct packed_tensor *p = &c->packed[c->n_packed];
        if (!words_end(t->name, ending)) continue;
        const int stem = (int)(strlen(t->name) - strlen(ending));
        const struct packed_among in = {c->n, c->entries, c->files[t->file].path};
        PASS(packed_tensor_find(&c->layout, &in, t, p, e));
        PASS(mem_format(&p->name, e, "%.*s.weight", stem, t->name));
        c->n_packed++;
        if (p->size) { /* a tensor that says rows and columns */
            const struct tensor_entry *s = p->size;
            int32_t size[2] = {0};
            NEED(s->n_elements == 2, ERR_SHAPE,
                 "%s: tensor %s has %lld numbers, rows and columns expected",
                 c->files[s->file].path, s->name, (long long)s->n_elements);
            PASS(safetensors_read_i32(&c->files[s->file], s, size, e));
            p->rows = size[0];
            p->cols = size[1];
        }
        PASS(packed_tensor_check(&c->layout, p, c->files[t->file].path, e));
    }
    NEED(c->n_packed > 0, ERR_FORMAT,
         "%s: config.json has a quantization_config, but no tensor ends with %s", c->dir, ending);
    return OK;
}

/* *part = whether t stores a part of a packed linear. All that such a linear has beside it is a
 * bias. What else stands there (a transform, scales of an activation) would change what is
 * computed. */
static enum status is_part(const struct checkpoint *c, const struct tensor_entry *t, bool *part,
                           struct err *e)
{
    bool known = !packed_is_part(c->layout.format, t->name);
    *part = false;
    for (int64_t i = 0; i < c->n_packed && !*part; i++) {
        const struct packed_tensor *p = &c->packed[i];
        const size_t stem = strlen(p->name) - strlen("weight");
        if (strncmp(t->name, p->name, stem) != 0) continue;
        *part = t == p->codes || t == p->zeros || t == p->scales || t == p->groups || t == p->size;
        known = *part || strcmp(t->name + stem, "bias") == 0;
    }
    NEED(known, ERR_FORMAT,
         "%s: tensor %s: it would change what a packed linear computes, and cannot be read",
         c->files[t->file].path, t->name);
    return OK;
}

enum status checkpoint_unpack(struct checkpoint *c, struct err *e)
{
    AUTO_FREE struct tensor_entry *entries = NULL;
    int64_t n = 0;
    PASS(packed_layout_read(c->config, c->dir, &c->layout, e));
    if (c->layout.format == PACKED_NONE) return OK;
    if (c->layout.format == PACKED_BLOCKS)
        PASS(packed_blocks_code(json_object_get(c->config, "quantization_config"), c->dir, &c->code,
                                e));
    PASS(find_linears(c, e));
    PASS(mem_zero(&entries, c->n + c->n_packed, sizeof *entries, c->dir, e));
    for (int64_t i = 0; i < c->n; i++) {
        bool part;
        PASS(is_part(c, &c->entries[i], &part, e));
        if (!part) entries[n++] = c->entries[i];
    }
    for (int64_t i = 0; i < c->n_packed; i++) { /* the weight that a packed linear stands for */
        const struct packed_tensor *p = &c->packed[i];
        entries[n++] = (struct tensor_entry){.name = p->name,
                                             .dtype = DTYPE_F32,
                                             .n_dims = 2,
                                             .shape = {p->rows, p->cols},
                                             .n_elements = p->rows * p->cols,
                                             .n_bytes = p->rows * p->cols * (int64_t)sizeof(float),
                                             .file = p->codes->file};
    }
    qsort(entries, (size_t)n, sizeof *entries, name_compare);
    qsort(c->packed, (size_t)c->n_packed, sizeof *c->packed, name_compare);
    c->stored = c->entries;
    c->entries = TAKE(entries);
    c->n = n;
    c->read = read_packed;
    if (c->layout.format != PACKED_BITNET) /* its weights are not packed */
        (void)json_object_del(c->config, "quantization_config");
    c->read_stored = read_packed_stored;
    return OK;
}

double checkpoint_bits(const struct checkpoint *c, const struct tensor_entry *t)
{
    int64_t bytes = tensor_bytes(t, t->n_elements);
    const struct packed_tensor *p = find_packed(c, t->name);
    const struct tensor_entry *stored[] = {p ? p->codes : NULL, p ? p->zeros : NULL,
                                           p ? p->scales : NULL, p ? p->groups : NULL};
    if (p) bytes = 0;
    for (int i = 0; i < 4; i++) bytes += stored[i] ? stored[i]->n_bytes : 0;
    return 8 * (double)bytes / (double)t->n_elements;
}
