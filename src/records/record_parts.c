#include "records/record_parts.h"
#include "util/mem.h"
#include <math.h>
#include <string.h>

enum status parts_keep(const json_t *parts, char **text, struct err *e)
{
    *text = json_dump_whole(parts, JSON_COMPACT);
    NEED(*text, ERR_NOMEM, "out of memory for the parts of a record");
    return OK;
}

void parts_note(json_t *record, const char *text)
{
    json_t *parts = text ? json_loads(text, 0, NULL) : NULL;
    if (parts) json_object_set_new(json_object_get(record, "provenance"), "parts", parts);
}

static bool parts_find(const json_t *parts, const json_t *sources, const char *name,
                       const json_t **source)
{
    json_t *one;
    size_t i;
    *source = NULL;
    json_array_foreach(parts, i, one) {
        if (strcmp(json_text(one, "part", ""), name) != 0) continue;
        const json_t *from = json_array_get(sources, i);
        *source = json_is_object(from) ? from : NULL;
        return true;
    }
    return false;
}

/* --- curvature --- */

enum { NAMES = 8 };
/* The options that each depends on. What it has of a record: numbers, columns of the table of
 * tensors, a table, and texts of the provenance. */
static const struct part {
    const char *name;
    const char *options[NAMES], *values[NAMES], *columns[NAMES], *table, *provenance[NAMES];
} all[] = {
    {.name = "sharpness",
     .options = {"sharpness", "stop", "tolerance", "products", "smallest"},
     .values = {"sharpness", "sharpness_residual", "sharpness_converged", "sharpness_iterations",
                "warm_start", "smallest_eigenvalue", "smallest_residual"},
     .provenance = {"sharpness", "weights_chain"}},
    {.name = "trace",
     .options = {"trace", "trace_error", "trace_most", "hutchpp"},
     .values = {"trace", "trace_stderr", "trace_probes"},
     .columns = {"trace", "trace_stderr"},
     .table = "traces"},
    {.name = "density", .options = {"density", "density_runs"}, .table = "density"},
};
enum { SHARPNESS, TRACE, DENSITY, PARTS };

static bool asked_for(const json_t *options, int i)
{
    if (i == SHARPNESS) return strcmp(json_text(options, "sharpness", "none"), "none") != 0;
    return json_int(options, all[i].name) > 0;
}

/* What the key hashes, with the options of this part alone. */
static json_t *part_of(const json_t *own, int i)
{
    json_t *of = json_copy((json_t *)(uintptr_t)own), *kept = json_object();
    json_t *section = json_copy(json_object_get(own, "curvature"));
    const json_t *options = json_object_get(section, "options");
    json_object_set(kept, "subset", json_object_get(options, "subset"));
    for (int k = 0; k < NAMES && all[i].options[k]; k++)
        json_object_set(kept, all[i].options[k], json_object_get(options, all[i].options[k]));
    /* More options that it depends on: vectors that Lanczos may store; probes between two looks at
     * the trace's error. */
    const bool lanczos = strcmp(json_text(options, "sharpness", ""), "lanczos") == 0;
    const bool looks = json_number_value(json_object_get(options, "trace_error")) > 0;
    if ((i == SHARPNESS && lanczos) || i == DENSITY || (i == TRACE && looks))
        json_object_set(kept, "memory", json_object_get(options, "memory"));
    if (i == TRACE && looks)
        json_object_set(kept, "together", json_object_get(options, "together"));
    json_object_set_new(section, "options", kept);
    json_object_set_new(of, "curvature", section);
    /* The chain of a warm start, whose options are the same. Only sharpness depends on it. */
    json_object_del(of, "after");
    if (i == SHARPNESS && json_object_get(own, "after"))
        json_object_set_new(of, "warm_start", json_true());
    return of;
}

enum status parts_of_curvature(const json_t *own, json_t **out, struct err *e)
{
    const json_t *options = json_object_get(json_object_get(own, "curvature"), "options");
    *out = json_array();
    for (int i = 0; i < PARTS; i++)
        if (asked_for(options, i))
            json_array_append_new(
                *out, json_pack("{s:s, s:o}", "part", all[i].name, "of", part_of(own, i)));
    return json_whole(e);
}

/* --- putting them together --- */

static int64_t products_of(const json_t *record, int i)
{
    const json_t *values = json_object_get(record, "values");
    const json_t *density = json_object_get(json_object_get(record, "tables"), "density");
    if (i == SHARPNESS) return json_int(values, "sharpness_iterations");
    if (i == DENSITY) return (int64_t)json_array_size(json_object_get(density, "node"));
    return json_object_get(values, "trace")
               ? json_int(values, "products") - products_of(record, SHARPNESS) -
                     products_of(record, DENSITY)
               : 0;
}

/* to[name] = from[name], or nothing. */
static void take(json_t *to, const json_t *from, const char *const *names)
{
    for (int k = 0; k < NAMES && names[k]; k++) {
        json_t *value = json_object_get(from, names[k]);
        if (value)
            json_object_set(to, names[k], value);
        else
            json_object_del(to, names[k]);
    }
}

/* from NULL: the record gets nothing of the part. */
static void take_part(json_t *record, const json_t *from, const struct part *p)
{
    json_t *to = json_object_get(record, "tables");
    const json_t *tables = json_object_get(from, "tables");
    const char *const table[NAMES] = {p->table};
    take(json_object_get(record, "values"), json_object_get(from, "values"), p->values);
    take(json_object_get(record, "provenance"), json_object_get(from, "provenance"), p->provenance);
    /* The columns of what is not measured hold no number. */
    json_t *tensors = json_object_get(to, "tensors");
    const size_t n = json_array_size(json_object_get(tensors, "tensor"));
    take(tensors, json_object_get(tables, "tensors"), p->columns);
    for (int k = 0; !from && k < NAMES && p->columns[k]; k++) {
        json_t *none = json_array();
        for (size_t i = 0; i < n; i++) json_array_append_new(none, json_number_new(NAN));
        json_object_set_new(tensors, p->columns[k], none);
    }
    take(to, tables, table);
}

enum status compose_curvature(json_t *record, const json_t *parts, const json_t *sources,
                              struct err *e)
{
    int64_t products = 0;
    bool wanted[PARTS];
    const json_t *from[PARTS];
    for (int i = 0; i < PARTS; i++) {
        wanted[i] = parts_find(parts, sources, all[i].name, &from[i]);
        if (wanted[i]) products += products_of(from[i] ? from[i] : record, i);
    }
    for (int i = 0; i < PARTS; i++)
        if (!wanted[i] || from[i]) take_part(record, from[i], &all[i]);
    if (!wanted[SHARPNESS])
        json_object_set_new(json_object_get(record, "provenance"), "sharpness", json_string(""));
    json_object_set_new(json_object_get(record, "values"), "products",
                        json_integer((json_int_t)products));
    return json_whole(e);
}

/* --- movement --- */

enum status parts_of_movement(const json_t *own, json_t **out, struct err *e)
{
    const json_t *bits;
    size_t i;
    *out = json_array();
    json_array_foreach(json_object_get(own, "bits"), i, bits) {
        json_t *of = json_copy((json_t *)(uintptr_t)own);
        json_object_set(of, "bits", (json_t *)(uintptr_t)bits);
        json_array_append_new(
            *out, json_pack("{s:o, s:o}", "part",
                            json_sprintf("%lld", (long long)json_integer_value(bits)), "of", of));
    }
    return json_whole(e);
}

/* Appends row i of a table to another with the same columns. */
static void append_row(json_t *to, const json_t *from, size_t i)
{
    const char *name;
    json_t *column;
    json_object_foreach((json_t *)(uintptr_t)from, name, column) {
        if (!json_object_get(to, name)) json_object_set_new(to, name, json_array());
        json_array_append(json_object_get(to, name), json_array_get(column, i));
    }
}

static const json_t *table_of(const json_t *record, const char *name)
{
    return json_object_get(json_object_get(record, "tables"), name);
}

/* The row of tensor `name` at these bits, searched from *at on, where the last one was found. */
static bool find_row(const json_t *grids, const char *name, int64_t bits, size_t *at)
{
    const json_t *tensors = json_object_get(grids, "tensor"),
                 *widths = json_object_get(grids, "bits");
    const size_t n = json_array_size(tensors);
    for (size_t k = 0; k < n; k++, *at = *at + 1 < n ? *at + 1 : 0)
        if (json_integer_value(json_array_get(widths, *at)) == bits &&
            strcmp(json_string_value(json_array_get(tensors, *at)), name) == 0)
            return true;
    return false;
}

static enum status join_grids(const json_t *record, const json_t *parts, const json_t *from,
                              json_t **out, struct err *e)
{
    const json_t *tensors = table_of(record, "tensors");
    const json_t *names = json_object_get(tensors, "tensor"), *one;
    const json_t *quantized = json_object_get(tensors, "quantized");
    size_t i, *at = NULL;
    PASS(mem_zero(&at, (int64_t)json_array_size(parts), sizeof *at, "places of rows", e));
    *out = json_object();
    json_array_foreach(names, i, one)
        if (json_integer_value(json_array_get(quantized, i))) {
            /* The rows of one tensor, of each part. */
            const json_t *part;
            size_t k;
            json_array_foreach(parts, k, part) {
                const json_t *grids = table_of(json_array_get(from, k), "grids");
                if (find_row(grids, json_string_value(one),
                             strtoll(json_text(part, "part", ""), NULL, 10), &at[k]))
                    append_row(*out, grids, at[k]);
            }
        }
    free(at);
    return OK;
}

/* Single weights, which lie bit-width by bit-width. *out NULL: there are none. */
static void join_weights(const json_t *parts, const json_t *from, json_t **out)
{
    const json_t *one, *bits;
    size_t i, k;
    json_array_foreach(parts, i, one) {
        const json_t *weights = table_of(json_array_get(from, i), "weights");
        json_array_foreach(json_object_get(weights, "bits"), k, bits) {
            if (json_integer_value(bits) != strtoll(json_text(one, "part", ""), NULL, 10)) continue;
            if (!*out) *out = json_object();
            append_row(*out, weights, k);
        }
    }
}

enum status compose_movement(json_t *record, const json_t *parts, const json_t *sources,
                             struct err *e)
{
    json_auto_t *grids = NULL, *weights = NULL, *bits = json_object(), *from = json_array();
    json_t *one;
    size_t i;
    json_array_foreach(parts, i, one) {
        const char *name = json_text(one, "part", "");
        const json_t *source;
        parts_find(parts, sources, name, &source);
        json_t *of = source ? (json_t *)(uintptr_t)source : record;
        json_array_append(from, of);
        json_object_set(bits, name, json_object_get(json_object_get(of, "bits"), name));
    }
    PASS(join_grids(record, parts, from, &grids, e));
    join_weights(parts, from, &weights);
    json_object_set(record, "bits", bits);
    json_object_set(json_object_get(record, "tables"), "grids", grids);
    if (weights) json_object_set(json_object_get(record, "tables"), "weights", weights);
    return json_whole(e);
}
