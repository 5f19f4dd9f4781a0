#include "group/weights.h"
#include "checkpoint/derived.h"
#include "group/part.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- variants --- */

void variant_free(struct variant *v)
{
    options_free(&method_table, &v->method);
    free(v->key);
    *v = (struct variant){0};
}

enum status variant_copy(const struct method_entry *m, int64_t bits, const char *key,
                         struct variant *out, struct err *e)
{
    *out = (struct variant){.bits = bits};
    PASS(mem_string(&out->key, key, e));
    return options_copy(&method_table, m, &out->method, e);
}

json_t *variant_to_json(const struct variant *v)
{
    return json_pack("{s:I, s:s, s:o}", "bits", (json_int_t)v->bits, "key", v->key, "method",
                     method_entry_to_json(&v->method));
}

enum status variant_from_json(const json_t *json, struct variant *out, struct err *e)
{
    const char *key = json_text(json, "key", NULL);
    NEED(key, ERR_FORMAT, "visit: a variant's key is missing");
    PASS(mem_string(&out->key, key, e));
    PASS(options_from_json(&method_table, json_object_get(json, "method"), &out->method, e));
    out->bits = json_integer_value(json_object_get(json, "bits"));
    return OK;
}

/* --- kinds --- */

typedef enum status opener(const struct weights *w, const struct part_context *context,
                           struct checkpoint *const *parts, struct checkpoint **out, struct err *e);

static enum status open_stored(const struct weights *w, const struct part_context *context,
                               struct checkpoint *const *parts, struct checkpoint **out,
                               struct err *e)
{
    (void)context;
    (void)parts;
    return checkpoint_open(w->path, out, e);
}

static enum status open_sum(const struct weights *w, const struct part_context *context,
                            struct checkpoint *const *parts, struct checkpoint **out, struct err *e)
{
    enum status st = OK;
    struct checkpoint_part *terms = NULL;
    (void)context;
    TRY(mem_alloc(&terms, w->n, sizeof *terms, "a weighted sum", e));
    for (int64_t i = 0; i < w->n; i++)
        terms[i] = (struct checkpoint_part){w->coefficients[i], parts[i]};
    TRY(checkpoint_combine(terms, w->n, out, e));
done:
    free(terms);
    return st;
}

static enum status open_quantized(const struct weights *w, const struct part_context *context,
                                  struct checkpoint *const *parts, struct checkpoint **out,
                                  struct err *e)
{
    return weights_quantize(w, context, parts[0], out, e);
}

static enum status open_random(const struct weights *w, const struct part_context *context,
                               struct checkpoint *const *parts, struct checkpoint **out,
                               struct err *e)
{
    (void)context;
    return checkpoint_random(parts[0], w->stream, out, e);
}

static const struct {
    const char *name;
    opener *open; /* parts: opened, in the order of the source's */
} kinds[WEIGHTS_KIND_N] = {
    [WEIGHTS_STORED] = {"stored", open_stored},
    [WEIGHTS_SUM] = {"sum", open_sum},
    [WEIGHTS_QUANTIZED] = {"quantized", open_quantized},
    [WEIGHTS_RANDOM] = {"random", open_random},
};

const char *weights_kind_name(const struct weights *w)
{
    return kinds[w->kind].name;
}

/* --- descriptions --- */

void weights_free(struct weights *w)
{
    free(w->name);
    free(w->path);
    for (int64_t i = 0; i < w->n; i++) weights_free(&w->parts[i]);
    free(w->parts);
    free(w->coefficients);
    variant_free(&w->variant);
    *w = (struct weights){0};
}

enum status weights_copy(const struct weights *from, struct weights *out, struct err *e)
{
    enum status st = OK;
    json_t *json = weights_to_json(from);
    ENSURE(json, ERR_NOMEM, "out of memory for a source of weights");
    TRY(weights_from_json(json, out, e));
done:
    json_decref(json);
    return st;
}

enum status weights_derive(enum weights_kind kind, const struct weights *from, struct weights *out,
                           struct err *e)
{
    *out = (struct weights){.kind = kind};
    PASS(mem_zero(&out->parts, 1, sizeof *out->parts, "a source of weights", e));
    out->n = 1;
    return weights_copy(from, out->parts, e);
}

json_t *weights_to_json(const struct weights *w)
{
    json_t *json = json_pack("{s:s, s:s*, s:s*}", "kind", weights_kind_name(w), "name", w->name,
                             "path", w->path);
    json_t *parts = w->n ? json_array() : NULL;
    for (int64_t i = 0; i < w->n; i++) json_array_append_new(parts, weights_to_json(&w->parts[i]));
    if (parts) json_object_set_new(json, "parts", parts);
    if (w->coefficients)
        json_object_set_new(json, "coefficients", json_numbers_new(w->coefficients, w->n));
    if (w->variant.key) json_object_set_new(json, "variant", variant_to_json(&w->variant));
    /* As text: JSON's numbers are signed. */
    if (w->stream) {
        char stream[24];
        snprintf(stream, sizeof stream, "%llx", (unsigned long long)w->stream);
        json_object_set_new(json, "stream", json_string(stream));
    }
    return json;
}

static enum status kind_from_json(const json_t *json, struct weights *w, struct err *e)
{
    const char *name = json_text(json, "kind", "");
    int kind = 0;
    while (kind < WEIGHTS_KIND_N && strcmp(kinds[kind].name, name) != 0) kind++;
    NEED(kind < WEIGHTS_KIND_N, ERR_FORMAT, "visit: no kind of weights is called \"%s\"", name);
    w->kind = (enum weights_kind)kind;
    NEED(kind != WEIGHTS_STORED || json_text(json, "path", NULL), ERR_FORMAT,
         "visit: stored weights without a path");
    return OK;
}

static enum status parts_from_json(const json_t *json, struct weights *w, struct err *e)
{
    const json_t *parts = json_object_get(json, "parts");
    const json_t *numbers = json_object_get(json, "coefficients");
    int64_t n = (int64_t)json_array_size(parts);
    NEED(n > 0 || w->kind == WEIGHTS_STORED, ERR_FORMAT, "visit: %s weights of nothing",
         weights_kind_name(w));
    PASS(mem_zero(&w->parts, n, sizeof *w->parts, "sources of weights", e));
    for (; w->n < n; w->n++)
        PASS(weights_from_json(json_array_get(parts, (size_t)w->n), &w->parts[w->n], e));
    if (w->kind != WEIGHTS_SUM) return OK;
    NEED((int64_t)json_array_size(numbers) == n, ERR_FORMAT, "visit: a coefficient is missing");
    PASS(mem_alloc(&w->coefficients, n, sizeof *w->coefficients, "coefficients", e));
    for (int64_t i = 0; i < n; i++)
        w->coefficients[i] = json_number_get(json_array_get(numbers, (size_t)i));
    return OK;
}

enum status weights_from_json(const json_t *json, struct weights *out, struct err *e)
{
    enum status st = OK;
    struct weights w = {0};
    const char *name = json_text(json, "name", NULL), *path = json_text(json, "path", NULL);
    const json_t *variant = json_object_get(json, "variant");
    TRY(kind_from_json(json, &w, e));
    if (name) TRY(mem_string(&w.name, name, e));
    if (path) TRY(mem_string(&w.path, path, e));
    TRY(parts_from_json(json, &w, e));
    if (variant) TRY(variant_from_json(variant, &w.variant, e));
    w.stream = strtoull(json_text(json, "stream", "0"), NULL, 16);
    *out = w;
    w = (struct weights){0};
done:
    weights_free(&w);
    return st;
}

/* --- identity --- */

/* *text grows by one term. */
static enum status add_term(const struct weights *w, int64_t i, char **text, struct err *e)
{
    enum status st = OK;
    const struct weights *part = &w->parts[i];
    char *own = NULL, *longer = NULL;
    TRY(weights_recipe(part, &own, e));
    const char *of = own[0] ? own : part->name ? part->name : part->path;
    if (w->coefficients)
        TRY(mem_format(&longer, e, "%s%s%.17g %s", *text, i ? ", " : "(", w->coefficients[i], of));
    else
        TRY(mem_format(&longer, e, "%s%s%s", *text, i ? ", " : "(", of));
    free(*text);
    *text = longer;
done:
    free(own);
    return st;
}

enum status weights_recipe(const struct weights *w, char **out, struct err *e)
{
    enum status st = OK;
    char *text = NULL;
    if (w->kind == WEIGHTS_STORED) return mem_string(out, "", e);
    if (w->variant.key)
        TRY(mem_format(&text, e, "%s %lld", w->variant.method.method, (long long)w->variant.bits));
    else
        TRY(mem_string(&text, weights_kind_name(w), e));
    for (int64_t i = 0; i < w->n; i++) TRY(add_term(w, i, &text, e));
    TRY(mem_format(out, e, "%s)", text));
done:
    free(text);
    return st;
}

const char *weights_folder(const struct weights *w)
{
    while (w->kind != WEIGHTS_STORED) w = w->parts;
    return w->path;
}

bool weights_present(const struct weights *w)
{
    if (w->kind == WEIGHTS_STORED) return fsx_is_dir(w->path);
    for (int64_t i = 0; i < w->n; i++)
        if (!weights_present(&w->parts[i])) return false;
    return true;
}

/* --- opening --- */

enum status weights_open_from(const struct weights *w, const struct part_context *context,
                              struct checkpoint *const *parts, struct checkpoint **out,
                              struct err *e)
{
    return kinds[w->kind].open(w, context, parts, out, e);
}

enum status weights_open(const struct weights *w, const struct part_context *context,
                         struct checkpoint **out, struct err *e)
{
    enum status st = OK;
    struct checkpoint **parts = NULL;
    TRY(mem_zero(&parts, w->n, sizeof *parts, "sources of weights", e));
    for (int64_t i = 0; i < w->n; i++) TRY(weights_open(&w->parts[i], context, &parts[i], e));
    st = weights_open_from(w, context, parts, out, e);
    if (context) st = group_agree(context->group, st, e);
done:
    /* What is made of them holds them open. */
    for (int64_t i = 0; parts && i < w->n; i++) checkpoint_close(parts[i]);
    free(parts);
    return st;
}

enum status weights_hash(const struct weights *w, char hash[HASH_HEX], struct err *e)
{
    enum status st = OK;
    struct checkpoint *c = NULL;
    TRY(weights_open(w, NULL, &c, e));
    memcpy(hash, checkpoint_hash(c), HASH_HEX);
done:
    checkpoint_close(c);
    return st;
}
