#include "quant/quant_table.h"
#include "options/nearest.h"
#include <string.h>

static const struct quant_method *const methods[] = {&quant_rtn, &quant_gptq};

enum { N_METHODS = sizeof methods / sizeof *methods };

const struct quant_method *quant_at(int i)
{
    return i >= 0 && i < N_METHODS ? methods[i] : NULL;
}

const struct quant_method *quant_find(const char *name)
{
    for (int i = 0; i < N_METHODS; i++)
        if (strcmp(methods[i]->name, name) == 0) return methods[i];
    return NULL;
}

const char *quant_nearest_name(const char *name)
{
    const char *names[N_METHODS];
    for (int i = 0; i < N_METHODS; i++) names[i] = methods[i]->name;
    const char *nearest = nearest_name(name, names, N_METHODS);
    return nearest ? nearest : names[0];
}

/* True if `key` is one of the words of `list`. */
static bool has_word(const char *list, const char *key)
{
    size_t n = strlen(key);
    for (const char *p = list; (p = strstr(p, key)) != NULL; p += n)
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0')) return true;
    return false;
}

bool quant_shares_prepare(const struct quant_method *method, const struct quant_options *a,
                          const struct quant_options *b)
{
    const char *key;
    if (!method->prepare) return true;
    for (int64_t i = 0; (key = quant_options_key(i)) != NULL; i++)
        if (has_word(method->prepare_options, key) && quant_options_differ(a, b, key)) return false;
    return true;
}

enum status quant_check(const struct method_entry *m, struct err *e)
{
    enum status st = OK;
    const struct quant_method *method = quant_find(m->method);
    ENSURE(method, ERR_USAGE,
           "there is no method '%s'; did you mean %s? (`qtraj methods` lists all)", m->method,
           quant_nearest_name(m->method));
    const char *key;
    for (int64_t i = 0; (key = quant_options_key(i)) != NULL; i++)
        ENSURE(!quant_options_changed(&m->options, key) || has_word(method->options, key),
               ERR_USAGE, "method %s has no option %s; it takes: %s", m->method, key,
               method->options);
    for (int64_t i = 0; method->check && i < m->n_bits; i++)
        if (m->bits[i] >= method->bits_min && m->bits[i] <= method->bits_max)
            TRY(method->check(m->bits[i], &m->options, e));
done:
    return st;
}
