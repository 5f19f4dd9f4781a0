/* The parts of a record of movement: the steps of the grid of each bit-width. The distances belong
 * to all of them, since they are measured while both checkpoints are read. */
#include "records/record_parts.h"
#include "util/mem.h"

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
    const json_t *tensors = json_object_get(grids, "tensor"), *all = json_object_get(grids, "bits");
    const size_t n = json_array_size(tensors);
    for (size_t k = 0; k < n; k++, *at = *at + 1 < n ? *at + 1 : 0)
        if (json_integer_value(json_array_get(all, *at)) == bits &&
            strcmp(json_string_value(json_array_get(tensors, *at)), name) == 0)
            return true;
    return false;
}

/* The rows of one tensor, of each part. */
static void append_tensor(json_t *to, const char *name, const json_t *parts, const json_t *from,
                          size_t *at)
{
    const json_t *one;
    size_t i;
    json_array_foreach(parts, i, one) {
        const json_t *grids = table_of(json_array_get(from, i), "grids");
        if (find_row(grids, name, strtoll(json_text(one, "part", ""), NULL, 10), &at[i]))
            append_row(to, grids, at[i]);
    }
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
        if (json_integer_value(json_array_get(quantized, i)))
            append_tensor(*out, json_string_value(one), parts, from, at);
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
