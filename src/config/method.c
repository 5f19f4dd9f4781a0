/* Entries of `methods` and copies of other sections. */
#include "config/preset.h"
#include "config/tables.h"
#include "quant/quant.h"
#include "util/mem.h"
#include <string.h>

static enum status finish(void *entry, const struct option_scope *scope, struct err *e)
{
    (void)scope;
    struct method_entry *m = entry;
    return m->name ? OK : mem_string(&m->name, m->method, e);
}

static const struct option keys[] = {
    OPTION(method_entry, name, TEXT, "label on the cube's quantizer axis, each only once",
           .otherwise = "the method"),
    OPTION(method_entry, method, TEXT, "a name that `qtraj methods` lists", .required = true),
    OPTION(method_entry, preset, CHOICE,
           "defaults of this method's options by a published protocol (listed below)",
           .fallback = "none", .otherwise = "the sweep's", .choices = preset_names,
           .file_only = true),
    OPTION(method_entry, bits, INTS, "widths of this method alone",
           .count = offsetof(struct method_entry, n_bits), .capacity = QUANT_BITS_N,
           .otherwise = "the sweep's", .low = QUANT_BITS_MIN, .high = QUANT_BITS_MAX),
    {.type = OPTION_KEYS, .table = &quant_table, .offset = offsetof(struct method_entry, options)},
};
const struct option_table method_table = {OPTION_ROWS(keys, method_entry), .begin = method_begin,
                                          .finish = finish};

enum status method_entry_copy(const struct method_entry *from, struct method_entry *to,
                              struct err *e)
{
    return options_copy(&method_table, from, to, e);
}

enum status data_options_copy(const struct data_options *from, struct data_options *to,
                              struct err *e)
{
    return options_copy(&data_table, from, to, e);
}

enum status run_options_copy(const struct run_options *from, struct run_options *to, struct err *e)
{
    return options_copy(&run_table, from, to, e);
}

void method_entry_free(struct method_entry *m)
{
    options_free(&method_table, m);
}

/* Options that another method alone has say nothing of this one. */
void method_json_own(json_t *entry)
{
    const struct quant_method *method = quant_find(json_text(entry, "method", ""));
    const char *key;
    for (int64_t i = 0; (key = quant_options_key(i)) != NULL; i++)
        if (quant_options_owner(key) >= 0 && (!method || !quant_concerns(method, key)))
            json_object_del(entry, key);
}

json_t *method_entry_to_json(const struct method_entry *m)
{
    json_t *json = options_to_json(&method_table, m);
    if (json) method_json_own(json);
    return json;
}

enum status method_entry_from_json(const json_t *json, struct method_entry *out, struct err *e)
{
    return options_from_json(&method_table, json, out, e);
}
