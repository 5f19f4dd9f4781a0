/* The parts of a record of curvature: sharpness, trace and density, each of which depends on its
 * own options; loss and gradient are measured with any of them. */
#include "records/record_parts.h"
#include <math.h>
#include <string.h>

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

/* The columns of what is not measured hold no number. */
static void take_columns(json_t *to, const json_t *from, const struct part *p)
{
    take(to, from, p->columns);
    const size_t n = json_array_size(json_object_get(to, "tensor"));
    for (int k = 0; !from && k < NAMES && p->columns[k]; k++) {
        json_t *none = json_array();
        for (size_t i = 0; i < n; i++) json_array_append_new(none, json_number_new(NAN));
        json_object_set_new(to, p->columns[k], none);
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
    take_columns(json_object_get(to, "tensors"), json_object_get(tables, "tensors"), p);
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
