/* Entries of `methods`. */
#include "config/preset.h"
#include "quant/quant.h"
#include "util/mem.h"
#include <string.h>

static enum status finish(void *entry, const struct option_scope *scope, struct err *e)
{
    struct method_entry *m = entry;
    const bool stored = m->method && strcmp(m->method, quant_stored.name) == 0;
    if (m->path && !stored) return options_fail(scope, "path", e, "goes with method: stored");
    if (stored && !m->path)
        return options_fail(scope, "path", e,
                            "missing: where the quantized checkpoint is, a folder or a GGUF file");
    if (stored && m->n_bits != 1)
        return options_fail(scope, "bits", e,
                            "expected one width of its own, at which its cells are listed");
    return m->name ? OK : mem_string(&m->name, m->method, e);
}

static const struct option keys[] = {
    OPTION(method_entry, name, TEXT, "label on the cube's quantizer axis, each only once",
           .otherwise = "the method"),
    OPTION(method_entry, method, TEXT, "a name that `qtraj methods` lists, or stored",
           .required = true),
    OPTION(method_entry, path, PATH,
           "stored: the quantized checkpoint, a folder or a GGUF file, with {checkpoint} or {step}",
           .file_only = true),
    OPTION(method_entry, preset, CHOICE,
           "defaults of this method's options by a published protocol (listed below)",
           .fallback = "none", .otherwise = "the sweep's", .choices = preset_names,
           .file_only = true),
    OPTION(method_entry, bits, INTS, "widths of this method only", .unit = "bits",
           .count = offsetof(struct method_entry, n_bits), .capacity = QUANT_BITS_N,
           .otherwise = "the sweep's", .low = QUANT_BITS_LEAST, .high = QUANT_BITS_MAX),
    OPTION(
        method_entry, replicates, INT,
        "runs with different calibration sequences: the usual ones, then random ones of the same "
        "text, whose losses are stored along the axis replicate",
        .fallback = "1", .low = 1, .high = REPLICATES_MAX, .file_only = true),
    {.type = OPTION_KEYS, .table = &quant_table, .offset = offsetof(struct method_entry, options)},
};
const struct option_table method_table = {OPTION_ROWS(keys, method_entry), .begin = method_begin,
                                          .finish = finish};

json_t *method_entry_to_json(const struct method_entry *m)
{
    json_t *json = options_to_json(&method_table, m);
    const struct quant_method *method = quant_find(m->method);
    const char *key;
    for (int64_t i = 0; json && (key = quant_options_key(i)) != NULL; i++)
        if (quant_options_owner(key) >= 0 && (!method || !quant_concerns(method, key)))
            json_object_del(json, key);
    return json;
}
