/* Averages of checkpoints: weighted means that are computed while they are read. */
#include "checkpoint/checkpoint_internal.h"
#include "checkpoint/derived.h"
#include "checkpoint/tensor_file.h"
#include "util/mem.h"
#include "util/words.h"
#include <math.h>

/* --- reading --- */

/* dst (n) = the means in t's type; wide (n) = the same in f32; either may be NULL. */
static enum status read_means(const struct checkpoint *c, const struct tensor_entry *t,
                              int64_t first, int64_t n, char *dst, float *wide, struct err *e)
{
    const size_t size = dtype_size(t->dtype);
    AUTO_FREE double *sum = NULL;
    AUTO_FREE float *one = NULL;
    AUTO_FREE char *narrow = NULL;
    const bool only = checkpoint_only_part(c) != NULL;
    PASS(mem_alloc(&sum, CHECKPOINT_CHUNK, sizeof *sum, "an average", e));
    PASS(mem_alloc(&one, CHECKPOINT_CHUNK, sizeof *one, "an average", e));
    PASS(mem_alloc(&narrow, CHECKPOINT_CHUNK, size, "an average", e));
    for (int64_t i = 0, m; i < n; i += m) {
        m = checkpoint_chunk(first + i, n - i);
        PASS(checkpoint_sum_parts(c, t, first + i, m, sum, one, e));
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

static enum status read_stored(const struct checkpoint *c, const struct tensor_entry *t,
                               int64_t first, int64_t n, void *dst, struct err *e)
{
    const struct checkpoint *like = c->parts[0].checkpoint;
    if (!dtype_is_float(t->dtype))
        return checkpoint_read_stored(like, checkpoint_find(like, t->name), first, n, dst, e);
    return read_means(c, t, first, n, dst, NULL, e);
}

/* --- whether the parts go together --- */

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
    struct checkpoint start = {.read = read_average, .read_stored = read_stored};
    PASS(check_parts(parts, n, &start.divisor, e));
    PASS(checkpoint_derive(start, f32 ? "average f32" : "average", parts, n, NULL, &c, e));
    for (int64_t i = 0; i < c->n; i++) {
        struct tensor_entry *t = &c->entries[i];
        if (!dtype_is_float(t->dtype)) continue;
        bool one_type = !f32 && t->dtype != DTYPE_F64;
        for (int64_t k = 1; k < n; k++) {
            const struct tensor_entry *own;
            PASS(checkpoint_find_same(parts[k].checkpoint, t, parts[0].checkpoint, &own, e));
            one_type = one_type && own->dtype == t->dtype;
        }
        if (!one_type) t->dtype = DTYPE_F32;
        t->n_bytes = t->n_elements * (int64_t)dtype_size(t->dtype);
    }
    *out = TAKE(c);
    return OK;
}
