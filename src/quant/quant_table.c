#include "quant/quant_table.h"
#include "options/nearest.h"
#include "quant/quant.h"
#include "util/mem.h"
#include "util/words.h"
#include <stdlib.h>
#include <string.h>

#define METHOD_LINE(upper, lower) [METHOD_##upper] = &quant_##lower,
static const struct quant_method *const methods[] = {QUANT_METHODS(METHOD_LINE)};
static const struct quant_method *added; /* by a test */

const struct quant_method *quant_at(int i)
{
    return i >= 0 && i < METHOD_N ? methods[i] : NULL;
}

void quant_add(const struct quant_method *method)
{
    added = method;
}

const struct quant_method *quant_find(const char *name)
{
    for (int i = 0; i < METHOD_N; i++)
        if (strcmp(methods[i]->name, name) == 0) return methods[i];
    return added && strcmp(added->name, name) == 0 ? added : NULL;
}

const char *quant_nearest_name(const char *name)
{
    const char *names[METHOD_N];
    for (int i = 0; i < METHOD_N; i++) names[i] = methods[i]->name;
    const char *nearest = nearest_name(name, names, METHOD_N);
    return nearest ? nearest : names[0];
}

bool quant_calibrates(const struct quant_method *m)
{
    return m->statistics || m->prepare_block;
}

struct quant_needs quant_needs_of(const struct quant_method *m, const struct quant_options *o)
{
    bool calibrates = quant_calibrates(m);
    bool shared = calibrates && (m->full_precision || o->hessian == HESSIAN_SHARED);
    bool own = calibrates && !shared;
    return (struct quant_needs){
        .statistics = m->statistics,
        .shared = shared,
        .own = own,
        .sequential = own && o->true_sequential && !m->prepare_block,
        .unrounded = own && m->unrounded && o->scale_dtype == SCALE_F16_PACKED,
        .distributed = m->distributed,
        .whole = !m->distributed,
        .trials = m->prepare_block != NULL,
    };
}

void quant_needs_add(struct quant_needs *to, const struct quant_needs *more)
{
    to->statistics |= more->statistics;
    to->own = to->own || more->own;
    to->shared = to->shared || more->shared;
    to->sequential = to->sequential || more->sequential;
    to->unrounded = to->unrounded || more->unrounded;
    bool sums = more->statistics != 0;
    to->distributed = to->distributed || (sums && more->distributed);
    to->whole = to->whole || (sums && more->whole);
    to->trials = to->trials || more->trials;
}

bool quant_concerns(const struct quant_method *method, const char *key)
{
    int owner = quant_options_owner(key);
    return owner >= 0 ? methods[owner] == method
                      : words_have(method->options, " ", key, strlen(key));
}

enum status quant_option_names(const struct quant_method *method, char **out, struct err *e)
{
    enum status st = mem_string(out, method->options, e);
    for (int64_t i = 0; st == OK && i < method->own.n; i++) {
        char *shorter = *out;
        st = mem_format(out, e, "%s %s", shorter, method->own.options[i].name);
        free(shorter);
    }
    return st;
}

bool quant_shares_prepare(const struct quant_method *method, const struct quant_options *a,
                          const struct quant_options *b)
{
    const char *key, *list = method->prepare_options;
    for (int64_t i = 0; method->prepare && (key = quant_options_key(i)) != NULL; i++) {
        bool matters = list ? words_have(list, " ", key, strlen(key)) : quant_concerns(method, key);
        if (matters && quant_options_differ(a, b, key)) return false;
    }
    return true;
}

enum status quant_check(const char *name, const struct quant_options *o, const int64_t *bits,
                        int64_t n, struct err *e)
{
    enum status st = OK;
    const struct quant_method *method = quant_find(name);
    char *known = NULL;
    const char *key;
    ENSURE(method, ERR_USAGE,
           "there is no method '%s'; did you mean %s? (`qtraj methods` lists all)", name,
           quant_nearest_name(name));
    TRY(quant_option_names(method, &known, e));
    for (int64_t i = 0; (key = quant_options_key(i)) != NULL; i++)
        ENSURE(!quant_options_changed(o, key) || quant_concerns(method, key), ERR_USAGE,
               "method %s has no option %s; it takes: %s", name, key, known);
    for (int64_t i = 0; method->check && i < n; i++)
        if (bits[i] >= method->bits_min && bits[i] <= method->bits_max)
            TRY(method->check(bits[i], o, e));
done:
    free(known);
    return st;
}

enum status quant_check_weights(const struct quant_method *method, const char *what, struct err *e)
{
    NEED(!method->apply, ERR_USAGE,
         "%s: method %s quantizes activations too, so that its weights alone are not the model "
         "that it measures",
         what, method->name);
    return OK;
}
