#include "engine/weights.h"
#include "util/fsx.h"
#include "util/mem.h"

/* --- variants --- */

enum status variant_copy(const struct method_entry *m, int64_t bits, const char *key,
                         struct variant *out, struct err *e)
{
    *out = (struct variant){.bits = bits};
    if (key) PASS(mem_string(&out->key, key, e));
    return options_copy(&method_table, m, &out->method, e);
}

static bool variant_absent(const void *variant)
{
    return !((const struct variant *)variant)->method.method;
}

static const struct option variant_fields[] = {
    OPTION(variant, method, GROUP, "", .table = &method_table),
    OPTION(variant, bits, INT, "", .required = true, OPTION_ANY_INT),
    OPTION(variant, replicate, INT, "", .fallback = "0", OPTION_ANY_INT),
    OPTION(variant, key, TEXT, ""),
    OPTION(variant, scored, BOOL, ""),
    OPTION(variant, complete, BOOL, ""),
    OPTION(variant, records, TEXTS, ""),
};
const struct option_table variant_table = {OPTION_ROWS(variant_fields, variant),
                                           .absent = variant_absent};

/* --- descriptions --- */

static bool absent(const void *weights)
{
    const struct weights *w = weights;
    return !w->path && w->n == 0;
}

static bool has_coefficients(const struct weights *w)
{
    return w->kind == WEIGHTS_SUM || w->kind == WEIGHTS_AVERAGE || w->kind == WEIGHTS_GREEDY;
}

static enum status finish(void *weights, const struct option_scope *scope, struct err *e)
{
    const struct weights *w = weights;
    if (w->kind == WEIGHTS_STORED && !w->path)
        PASS(options_fail(scope, "path", e, "stored weights without a path"));
    if (w->kind != WEIGHTS_STORED && w->n == 0)
        PASS(options_fail(scope, "parts", e, "%s weights of nothing", weights_kinds[w->kind]));
    if (w->kind == WEIGHTS_GREEDY && !w->identity)
        PASS(options_fail(scope, "identity", e, "missing in greedy weights"));
    const struct option_scope parts = options_in(scope, "parts");
    for (int64_t i = 0; has_coefficients(w) && i < w->n; i++) {
        const struct option_scope part = options_entry(&parts, i);
        if (!node_find(part.node, "coefficient"))
            PASS(options_fail(&part, "coefficient", e, "missing in %s weights",
                              weights_kinds[w->kind]));
    }
    return OK;
}

static const struct option fields[] = {
    OPTION(weights, kind, CHOICE, "", .required = true, .choices = weights_kinds),
    OPTION(weights, name, TEXT, ""),
    OPTION(weights, path, TEXT, ""),
    OPTION(weights, config, TEXT, ""),
    OPTION(weights, known, TEXT, ""),
    OPTION(weights, parts, LIST, "", OPTION_ENTRIES(weights, n, &weights_table)),
    OPTION(weights, coefficient, REAL, "", OPTION_ANY_REAL),
    OPTION(weights, f32, BOOL, ""),
    OPTION(weights, heldout, GROUP, "", .table = &data_heldout_table),
    OPTION(weights, calibration, GROUP, "", .table = &data_table),
    OPTION(weights, identity, TEXT, ""),
    OPTION(weights, evaluated, BOOL, ""),
    OPTION(weights, chosen, BOOL, ""),
    OPTION(weights, variant, GROUP, "", .table = &variant_table),
    OPTION(weights, stream, INT, "", OPTION_ANY_INT),
};
const struct option_table weights_table = {OPTION_ROWS(fields, weights), .finish = finish,
                                           .absent = absent};

enum status weights_copy(const struct weights *from, struct weights *out, struct err *e)
{
    json_auto_t *json = options_to_json(&weights_table, from);
    NEED(json, ERR_NOMEM, "out of memory for a source of weights");
    return options_from_json(&weights_table, json, out, e);
}

enum status weights_derive(enum weights_kind kind, const struct weights *from, struct weights *out,
                           struct err *e)
{
    *out = (struct weights){.kind = kind};
    PASS(mem_zero(&out->parts, 1, sizeof *out->parts, "a source of weights", e));
    out->n = 1;
    return weights_copy(from, out->parts, e);
}

/* --- identity --- */

/* Whether the terms of a recipe show the coefficients. */
static bool shows_coefficients(const struct weights *w)
{
    bool ones = w->kind == WEIGHTS_AVERAGE;
    for (int64_t i = 0; i < w->n; i++) ones = ones && w->parts[i].coefficient == 1;
    return has_coefficients(w) && w->kind != WEIGHTS_GREEDY && !ones;
}

/* Appends one term to *text. */
static enum status add_term(const struct weights *w, int64_t i, char **text, struct err *e)
{
    const struct weights *part = &w->parts[i];
    AUTO_FREE char *own = NULL;
    PASS(weights_recipe(part, &own, e));
    const char *of = own[0] ? own : part->name ? part->name : part->path;
    if (shows_coefficients(w))
        PASS(mem_append(text, e, "%s%.17g %s", i ? ", " : "(", part->coefficient, of));
    else
        PASS(mem_append(text, e, "%s%s", i ? ", " : "(", of));
    return OK;
}

enum status weights_recipe(const struct weights *w, char **out, struct err *e)
{
    AUTO_FREE char *text = NULL;
    if (w->kind == WEIGHTS_STORED) return mem_string(out, "", e);
    if (w->kind == WEIGHTS_QUANTIZED)
        PASS(mem_format(&text, e, "%s %lld", w->variant.method.method, (long long)w->variant.bits));
    else
        PASS(mem_format(&text, e, "%s%s", weights_kinds[w->kind], w->f32 ? " f32" : ""));
    for (int64_t i = 0; i < w->n; i++) PASS(add_term(w, i, &text, e));
    if (w->kind == WEIGHTS_GREEDY)
        PASS(mem_format(out, e, "%s; text %s)", text, w->identity));
    else
        PASS(mem_format(out, e, "%s)", text));
    return OK;
}

const char *weights_folder(const struct weights *w)
{
    while (w->kind != WEIGHTS_STORED) w = w->parts;
    return w->path;
}

int64_t weights_reads(const struct weights *w)
{
    int64_t n = w->kind == WEIGHTS_STORED;
    for (int64_t i = 0; i < w->n; i++)
        if (!w->chosen || w->parts[i].coefficient != 0) n += weights_reads(&w->parts[i]);
    return n;
}

bool weights_present(const struct weights *w)
{
    if (w->kind == WEIGHTS_STORED) return fsx_is_dir(w->path) || fsx_is_file(w->path);
    for (int64_t i = 0; i < w->n; i++)
        if (!weights_present(&w->parts[i])) return false;
    return true;
}
