/* Quantizer options: alone (command line) and as entries of `methods`. */
#include "config/tables.h"
#include "util/mem.h"
#include <string.h>

void quant_options_default(struct quant_options *q)
{
    options_default(&quant_table, q);
}

enum status quant_options_flag(struct quant_options *q, int argc, char **argv, int *used,
                               struct err *e)
{
    return options_flag(&quant_table, "", q, argc, argv, used, e);
}

void quant_options_print_flags(FILE *out)
{
    options_print_flags(&quant_table, "", out);
}

const char *quant_options_key(int64_t i)
{
    return i >= 0 && i < quant_table.n ? quant_table.options[i].name : NULL;
}

bool quant_options_differ(const struct quant_options *a, const struct quant_options *b,
                          const char *key)
{
    for (int64_t i = 0; i < quant_table.n; i++) {
        const struct option *o = &quant_table.options[i];
        size_t size = o->type == OPTION_BOOL     ? sizeof(bool)
                      : o->type == OPTION_CHOICE ? sizeof(int)
                      : o->type == OPTION_REAL   ? sizeof(double)
                                                 : sizeof(int64_t);
        if (strcmp(o->name, key) == 0)
            return memcmp((const char *)a + o->offset, (const char *)b + o->offset, size) != 0;
    }
    return false;
}

bool quant_options_changed(const struct quant_options *q, const char *key)
{
    struct quant_options plain;
    quant_options_default(&plain);
    return quant_options_differ(q, &plain, key);
}

enum status method_finish(void *entry, const struct option_scope *scope, struct err *e)
{
    (void)scope;
    struct method_entry *m = entry;
    return m->name ? OK : mem_string(&m->name, m->method, e);
}

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

json_t *method_entry_to_json(const struct method_entry *m)
{
    return options_to_json(&method_table, m);
}

enum status method_entry_from_json(const json_t *json, struct method_entry *out, struct err *e)
{
    return options_from_json(&method_table, json, out, e);
}
