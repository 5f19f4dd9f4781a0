#include "checkpoint/derived.h"
#include "checkpoint/checkpoint_internal.h"
#include "checkpoint/tensor_file.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/rng.h"
#include "util/words.h"
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

/* *out = the tensor of c (borrowed) with t's name and shape. like: the checkpoint that t belongs
 * to. ERR_FORMAT: there is none; ERR_SHAPE; both name the files. */
static enum status find_same(const struct checkpoint *c, const struct tensor_entry *t,
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

/* *out = `start` (how to read, and what that needs) with the first part's tensors and
 * configuration. what: its name in digests. overlay: path of the overlay's file, or NULL. */
static enum status derive(struct checkpoint start, const char *what,
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
            PASS(find_same(base, &c->files[0].entries[i], &file, &under, e));
    }
    PASS(hash_parts(c, what, e));
    *out = TAKE(c);
    return OK;
}

/* --- weighted sums --- */

/* Values are computed in pieces that are slices of a tensor, since whole slices are read. */
enum { CHUNK = DIGEST_SLICE };

/* Elements from number `at` of a tensor on that are in one piece, at most n. */
static int64_t chunk_of(int64_t at, int64_t n)
{
    return min64(n, CHUNK - at % CHUNK);
}

/* sum (n <= CHUNK) = the sum of coefficient * tensor over the parts; zero without any coefficient.
 * one (n): scratch. */
static enum status sum_parts(const struct checkpoint *c, const struct tensor_entry *t,
                             int64_t first, int64_t n, double *sum, float *one, struct err *e)
{
    bool begun = false;
    for (int64_t i = 0; i < c->n_parts; i++) {
        const struct checkpoint_part *p = &c->parts[i];
        const struct tensor_entry *own;
        if (p->coefficient == 0) continue;
        PASS(find_same(p->checkpoint, t, c->parts[0].checkpoint, &own, e));
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

/* The only part of c with a coefficient; NULL: there is none, or several. */
static const struct checkpoint_part *only_part(const struct checkpoint *c)
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
    const struct checkpoint_part *only = only_part(c);
    if (only && only->coefficient == 1) {
        PASS(find_same(only->checkpoint, t, c->parts[0].checkpoint, &own, e));
        PASS(only->checkpoint->read(only->checkpoint, own, first, n, dst, e));
        return OK;
    }
    PASS(mem_alloc(&sum, CHUNK, sizeof *sum, "a weighted sum", e));
    PASS(mem_alloc(&one, CHUNK, sizeof *one, "a weighted sum", e));
    for (int64_t i = 0, m; i < n; i += m) {
        m = chunk_of(first + i, n - i);
        PASS(sum_parts(c, t, first + i, m, sum, one, e));
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
    return derive((struct checkpoint){.read = read_sum}, "sum", parts, n, NULL, out, e);
}

/* --- averages --- */

/* dst (n) = the means in t's type; wide (n) = the same in f32; either may be NULL. */
static enum status read_means(const struct checkpoint *c, const struct tensor_entry *t,
                              int64_t first, int64_t n, char *dst, float *wide, struct err *e)
{
    const size_t size = dtype_size(t->dtype);
    AUTO_FREE double *sum = NULL;
    AUTO_FREE float *one = NULL;
    AUTO_FREE char *narrow = NULL;
    const bool only = only_part(c) != NULL;
    PASS(mem_alloc(&sum, CHUNK, sizeof *sum, "an average", e));
    PASS(mem_alloc(&one, CHUNK, sizeof *one, "an average", e));
    PASS(mem_alloc(&narrow, CHUNK, size, "an average", e));
    for (int64_t i = 0, m; i < n; i += m) {
        m = chunk_of(first + i, n - i);
        PASS(sum_parts(c, t, first + i, m, sum, one, e));
        for (int64_t k = 0; k < m; k++) sum[k] = only ? (double)one[k] : sum[k] / c->divisor;
        dtype_narrow(narrow, sum, t->dtype, m);
        if (dst) memcpy(dst + (size_t)i * size, narrow, (size_t)m * size);
        if (wide) dtype_widen(wide + i, narrow, t->dtype, m);
    }
    return OK;
}

static enum status read_average(const struct checkpoint *c, const struct tensor_entry *t,
                                int64_t first, int64_t n, float *dst, struct err *e)
{
    return read_means(c, t, first, n, NULL, dst, e);
}

static enum status read_average_stored(const struct checkpoint *c, const struct tensor_entry *t,
                                       int64_t first, int64_t n, void *dst, struct err *e)
{
    const struct checkpoint *like = c->parts[0].checkpoint;
    if (!dtype_is_float(t->dtype))
        return checkpoint_read_stored(like, checkpoint_find(like, t->name), first, n, dst, e);
    return read_means(c, t, first, n, dst, NULL, e);
}

/* The first key of a that b lacks or has with another value, null counting as absent; NULL: none.
 */
static const char *differing_key(const json_t *a, const json_t *b)
{
    /* say nothing about what the weights mean */
    static const char notes[] = "_name_or_path _commit_hash transformers_version torch_dtype dtype "
                                "use_cache _attn_implementation_autoset";
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)a, key, value) {
        const json_t *other = json_object_get(b, key);
        if (words_have(notes, " ", key, strlen(key)) || (json_is_null(value) && !other)) continue;
        if (!other || !json_equal(value, (json_t *)(uintptr_t)other)) return key;
    }
    return NULL;
}

/* A value of config.json for a message; text (size bytes) is cut. */
static void show_value(const json_t *config, const char *key, char *text, size_t size)
{
    const json_t *value = json_object_get(config, key);
    char *all = value ? json_dump_whole(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    snprintf(text, size, "%s", all ? all : "absent");
    free(all);
}

static enum status check_config(const struct checkpoint *first, const struct checkpoint *c,
                                struct err *e)
{
    char here[80], there[80];
    const char *key = differing_key(first->config, c->config);
    if (!key) key = differing_key(c->config, first->config);
    if (!key) return OK;
    show_value(c->config, key, here, sizeof here);
    show_value(first->config, key, there, sizeof there);
    RAISE(ERR_SHAPE,
          "%s/config.json: %s is %s; in %s/config.json it is %s: the members of an average are "
          "checkpoints of one architecture",
          c->dir, key, here, first->dir, there);
}

static enum status check_parts(const struct checkpoint_part *parts, int64_t n, double *divisor,
                               struct err *e)
{
    *divisor = 0;
    NEED(n > 0, ERR_USAGE, "an average of no checkpoints");
    for (int64_t i = 0; i < n; i++) {
        NEED(isfinite(parts[i].coefficient), ERR_USAGE, "%s: its weight is not finite",
             parts[i].checkpoint->dir);
        *divisor += parts[i].coefficient;
        if (i > 0) PASS(check_config(parts[0].checkpoint, parts[i].checkpoint, e));
    }
    NEED(isfinite(*divisor) && *divisor > 0, ERR_USAGE,
         "the weights of an average sum to %g, expected more than 0", *divisor);
    return OK;
}

enum status checkpoint_average(const struct checkpoint_part *parts, int64_t n, bool f32,
                               struct checkpoint **out, struct err *e)
{
    CLEANUP(checkpoint_close_at) struct checkpoint *c = NULL;
    struct checkpoint start = {.read = read_average, .read_stored = read_average_stored};
    PASS(check_parts(parts, n, &start.divisor, e));
    PASS(derive(start, f32 ? "average f32" : "average", parts, n, NULL, &c, e));
    for (int64_t i = 0; i < c->n; i++) {
        struct tensor_entry *t = &c->entries[i];
        if (!dtype_is_float(t->dtype)) continue;
        bool one_type = !f32 && t->dtype != DTYPE_F64;
        for (int64_t k = 1; k < n; k++) {
            const struct tensor_entry *own;
            PASS(find_same(parts[k].checkpoint, t, parts[0].checkpoint, &own, e));
            one_type = one_type && own->dtype == t->dtype;
        }
        if (!one_type) t->dtype = DTYPE_F32;
        t->n_bytes = t->n_elements * (int64_t)dtype_size(t->dtype);
    }
    *out = TAKE(c);
    return OK;
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
    return derive((struct checkpoint){.read = read_overlay}, "overlay",
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
    const int64_t many = max64(8 * CHUNK / cols, 1); /* rows of the base at once */
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
    return derive((struct checkpoint){.read = read_random, .stream = stream}, "random",
                  &(struct checkpoint_part){1, base}, 1, NULL, out, e);
}
