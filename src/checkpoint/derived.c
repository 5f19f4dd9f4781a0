#include "checkpoint/derived.h"
#include "checkpoint/checkpoint_internal.h"
#include "checkpoint/tensor_file.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/rng.h"
#include <math.h>

/* Digest of one line per part: the part's digest and its coefficient. */
static enum status hash_parts(struct checkpoint *c, const char *what, struct err *e)
{
    AUTO_FREE char *text = NULL;
    PASS(mem_format(&text, e, "%s %llu", what, (unsigned long long)c->stream));
    for (int64_t i = 0; i < c->n_parts; i++)
        PASS(mem_append(&text, e, "\n%.17g %s", c->parts[i].coefficient,
                        c->parts[i].checkpoint->hash));
    for (int64_t i = 0; i < c->n_files; i++) PASS(mem_append(&text, e, "\n%s", c->files[i].hash));
    hash_text(text, c->hash);
    return OK;
}

enum status checkpoint_identify(struct checkpoint *c, const char *what,
                                const struct checkpoint_part *parts, int64_t n, struct err *e)
{
    struct checkpoint all = {.n_parts = n, .parts = (struct checkpoint_part *)(uintptr_t)parts};
    PASS(hash_parts(&all, what, e));
    memcpy(c->hash, all.hash, HASH_HEX);
    return OK;
}

/* The file of a stored tensor, or the folder. */
static const char *place_of(const struct checkpoint *c, const struct tensor_entry *t)
{
    return c->n_files > 0 && c->n_parts == 0 ? c->files[t->file].path : c->dir;
}

enum status checkpoint_find_same(const struct checkpoint *c, const struct tensor_entry *t,
                                 const struct checkpoint *like, const struct tensor_entry **out,
                                 struct err *e)
{
    *out = checkpoint_find(c, t->name);
    NEED(*out, ERR_FORMAT, "%s: no tensor %s, which %s has", c->dir, t->name, place_of(like, t));
    NEED(tensor_has_shape(*out, t->n_dims, t->shape), ERR_SHAPE,
         "%s: tensor %s has shape %s; in %s it has %s", place_of(c, *out), t->name,
         tensor_shape_text((*out)->shape, (*out)->n_dims).text, place_of(like, t),
         tensor_shape_text(t->shape, t->n_dims).text);
    return OK;
}

enum status checkpoint_derive(struct checkpoint start, const char *what,
                              const struct checkpoint_part *parts, int64_t n, const char *overlay,
                              struct checkpoint **out, struct err *e)
{
    CLEANUP(checkpoint_close_at) struct checkpoint *c = NULL;
    const struct checkpoint *base = parts[0].checkpoint;
    const struct tensor_entry *under;
    PASS(mem_zero(&c, 1, sizeof *c, base->dir, e));
    *c = start;
    PASS(mem_string(&c->dir, base->dir, e));
    c->config = json_incref(base->config);
    PASS(mem_alloc(&c->entries, base->n, sizeof *c->entries, base->dir, e));
    memcpy(c->entries, base->entries, (size_t)base->n * sizeof *c->entries);
    c->n = base->n;
    PASS(mem_alloc(&c->parts, n, sizeof *c->parts, base->dir, e));
    memcpy(c->parts, parts, (size_t)n * sizeof *parts);
    for (; c->n_parts < n; c->n_parts++) checkpoint_retain(parts[c->n_parts].checkpoint);
    if (overlay) { /* its tensors replace the first part's */
        PASS(mem_zero(&c->files, 1, sizeof *c->files, overlay, e));
        PASS(safetensors_open(overlay, &c->files[0], e));
        c->n_files = 1;
        const struct checkpoint file = {.dir = c->dir, .n_files = 1, .files = c->files};
        for (int64_t i = 0; i < c->files[0].n; i++)
            PASS(checkpoint_find_same(base, &c->files[0].entries[i], &file, &under, e));
    }
    PASS(hash_parts(c, what, e));
    *out = TAKE(c);
    return OK;
}

/* --- weighted sums --- */

enum status checkpoint_sum_parts(const struct checkpoint *c, const struct tensor_entry *t,
                                 int64_t first, int64_t n, double *sum, float *one, struct err *e)
{
    bool begun = false;
    for (int64_t i = 0; i < c->n_parts; i++) {
        const struct checkpoint_part *p = &c->parts[i];
        const struct tensor_entry *own;
        if (p->coefficient == 0) continue;
        PASS(checkpoint_find_same(p->checkpoint, t, c->parts[0].checkpoint, &own, e));
        PASS(p->checkpoint->read(p->checkpoint, own, first, n, one, e));
        if (begun)
            for (int64_t k = 0; k < n; k++) sum[k] += p->coefficient * (double)one[k];
        else /* not added to zero, which would lose the sign of -0 */
            for (int64_t k = 0; k < n; k++) sum[k] = p->coefficient * (double)one[k];
        begun = true;
    }
    if (!begun) memset(sum, 0, (size_t)n * sizeof *sum);
    return OK;
}

const struct checkpoint_part *checkpoint_only_part(const struct checkpoint *c)
{
    const struct checkpoint_part *only = NULL;
    for (int64_t i = 0; i < c->n_parts; i++) {
        if (c->parts[i].coefficient == 0) continue;
        if (only) return NULL;
        only = &c->parts[i];
    }
    return only;
}

static enum status read_sum(const struct checkpoint *c, const struct tensor_entry *t, int64_t first,
                            int64_t n, float *dst, struct err *e)
{
    AUTO_FREE double *sum = NULL;
    AUTO_FREE float *one = NULL;
    const struct tensor_entry *own;
    const struct checkpoint_part *only = checkpoint_only_part(c);
    if (only && only->coefficient == 1) {
        PASS(checkpoint_find_same(only->checkpoint, t, c->parts[0].checkpoint, &own, e));
        PASS(only->checkpoint->read(only->checkpoint, own, first, n, dst, e));
        return OK;
    }
    PASS(mem_alloc(&sum, CHECKPOINT_CHUNK, sizeof *sum, "a weighted sum", e));
    PASS(mem_alloc(&one, CHECKPOINT_CHUNK, sizeof *one, "a weighted sum", e));
    for (int64_t i = 0, m; i < n; i += m) {
        m = checkpoint_chunk(first + i, n - i);
        PASS(checkpoint_sum_parts(c, t, first + i, m, sum, one, e));
        for (int64_t k = 0; k < m; k++) dst[i + k] = (float)sum[k];
    }
    return OK;
}

enum status checkpoint_combine(const struct checkpoint_part *parts, int64_t n,
                               struct checkpoint **out, struct err *e)
{
    NEED(n > 0, ERR_USAGE, "a weighted sum of no checkpoints");
    for (int64_t i = 0; i < n; i++)
        NEED(isfinite(parts[i].coefficient), ERR_USAGE, "%s: a coefficient is not finite",
             parts[i].checkpoint->dir);
    return checkpoint_derive((struct checkpoint){.read = read_sum}, "sum", parts, n, NULL, out, e);
}

/* --- a file over a folder --- */

static enum status read_overlay(const struct checkpoint *c, const struct tensor_entry *t,
                                int64_t first, int64_t n, float *dst, struct err *e)
{
    const struct checkpoint *base = c->parts[0].checkpoint;
    const struct tensor_entry *own = safetensors_find(&c->files[0], t->name);
    if (own) return safetensors_read_range(&c->files[0], own, first, n, dst, e);
    return base->read(base, checkpoint_find(base, t->name), first, n, dst, e);
}

enum status checkpoint_overlay(const struct checkpoint *base, const char *path,
                               struct checkpoint **out, struct err *e)
{
    return checkpoint_derive((struct checkpoint){.read = read_overlay}, "overlay",
                             &(struct checkpoint_part){1, base}, 1, path, out, e);
}

/* --- random directions --- */

/* row (cols) = row i of the direction; w (cols): that of the base. */
static void make_row(uint64_t stream, int64_t i, int64_t cols, const float *w, float *row)
{
    double own = 0, base = 0;
    rng_normals(stream, i * cols, cols, row);
    for (int64_t k = 0; k < cols; k++) own += (double)row[k] * (double)row[k];
    for (int64_t k = 0; k < cols; k++) base += (double)w[k] * (double)w[k];
    const double scale = sqrt(own) > 0 ? sqrt(base) / sqrt(own) : 0;
    for (int64_t k = 0; k < cols; k++) row[k] = (float)(scale * (double)row[k]);
}

static enum status read_random(const struct checkpoint *c, const struct tensor_entry *t,
                               int64_t first, int64_t n, float *dst, struct err *e)
{
    AUTO_FREE float *row = NULL, *w = NULL;
    const struct checkpoint *base = c->parts[0].checkpoint;
    int64_t cols = t->n_dims == 2 ? t->shape[1] : 0, last = first + n;
    memset(dst, 0, (size_t)n * sizeof *dst);
    if (cols == 0 || n == 0) return OK;
    uint64_t stream = rng_bits(c->stream, hash_u64(t->name, strlen(t->name)));
    PASS(mem_alloc(&row, cols, sizeof *row, "a direction", e));
    const int64_t many = max64(8 * CHECKPOINT_CHUNK / cols, 1); /* rows of the base at once */
    PASS(mem_alloc(&w, many * cols, sizeof *w, "a direction", e));
    for (int64_t i = first / cols, begin = i, rows = 0; i * cols < last; i++) {
        int64_t from = max64(i * cols, first), to = min64((i + 1) * cols, last);
        if (i == begin + rows) {
            begin = i;
            rows = min64(many, (last + cols - 1) / cols - i);
            PASS(base->read(base, checkpoint_find(base, t->name), i * cols, rows * cols, w, e));
        }
        make_row(stream, i, cols, w + (i - begin) * cols, row);
        memcpy(dst + from - first, row + from - i * cols, (size_t)(to - from) * sizeof *dst);
    }
    return OK;
}

enum status checkpoint_random(const struct checkpoint *base, uint64_t stream,
                              struct checkpoint **out, struct err *e)
{
    return checkpoint_derive((struct checkpoint){.read = read_random, .stream = stream}, "random",
                             &(struct checkpoint_part){1, base}, 1, NULL, out, e);
}
