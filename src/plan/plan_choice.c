/* Which cells, measurements and points a run takes (--only), and what is wrong with that choice. */
#include "options/nearest.h"
#include "plan/plan_internal.h"
#include "util/texts.h"
#include "util/words.h"
#include <stdio.h>
#include <string.h>

/* --- what is chosen --- */

bool plan_part_has(const struct plan_choice *choice, int64_t visit)
{
    return choice->part.n == 0 || (visit >= choice->part.first && visit < choice->part.end);
}

static bool chosen(const struct plan_choice *choice, const char *key, const char *value)
{
    return choices_take((const char *const *)choice->only, choice->n_only, key, value);
}

static bool names(const struct plan_choice *choice, const char *key)
{
    return choices_name((const char *const *)choice->only, choice->n_only, key);
}

bool plan_checkpoint_chosen(const struct plan *p, const struct plan_checkpoint *c,
                            const struct plan_choice *choice)
{
    bool others = false;
    for (int k = 0; k < MEASURES_N; k++)
        others = others || (measures[k]->visits && names(choice, measures[k]->part));
    return plan_part_has(choice, c - p->checkpoints) && !others &&
           chosen(choice, "model", p->sweep->models[c->model].name) &&
           chosen(choice, "checkpoint", plan_name_of(p, c));
}

bool plan_measures_chosen(const struct plan_choice *choice)
{
    return !names(choice, "bits") && !names(choice, "quantizer");
}

bool plan_variant_chosen(const struct plan_variant *v, const struct plan_choice *choice)
{
    char bits[24];
    snprintf(bits, sizeof bits, "%lld", (long long)v->bits);
    return v->applicable && chosen(choice, "bits", bits) &&
           chosen(choice, "quantizer", v->method->name);
}

bool plan_own_chosen(const struct measure *of, const char *name, const char *model,
                     const struct plan_choice *choice)
{
    return !names(choice, "checkpoint") && plan_measures_chosen(choice) &&
           chosen(choice, "model", model) && chosen(choice, of->part, name);
}

/* --- what there is to choose from --- */

/* A key, and the plural of what it chooses among. */
struct key {
    const char *name, *plural;
};
static const struct key keys[] = {{"model", "models"},
                                  {"checkpoint", "checkpoints"},
                                  {"bits", "bits"},
                                  {"quantizer", "quantizers"}};

/* The key of a choice: one of these, or of things that a measure has besides. False: neither. */
static bool key_of(const char *only, struct key *out)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        *out = keys[i];
        if (choice_pattern(only, out->name)) return true;
    }
    for (int k = 0; k < MEASURES_N; k++) {
        *out = (struct key){measures[k]->part, measures[k]->group};
        if (measures[k]->visits && choice_pattern(only, out->name)) return true;
    }
    return false;
}

static enum status add_all(const struct plan *p, const struct key *key, struct texts *l,
                           struct err *e)
{
    const struct sweep *s = p->sweep;
    size_t i;
    json_t *one;
    for (int64_t k = 0; strcmp(key->name, "model") == 0 && k < s->n_models; k++)
        PASS(texts_add(l, s->models[k].name, e));
    for (int64_t k = 0; strcmp(key->name, "checkpoint") == 0 && k < p->n_checkpoints; k++)
        PASS(texts_add(l, plan_name_of(p, &p->checkpoints[k]), e));
    for (int64_t k = 0; strcmp(key->name, "bits") == 0 && k < p->n_bits; k++) {
        char text[24];
        snprintf(text, sizeof text, "%lld", (long long)p->bits[k]);
        PASS(texts_add(l, text, e));
    }
    for (int64_t k = 0; strcmp(key->name, "quantizer") == 0 && k < s->n_methods; k++)
        PASS(texts_add(l, s->methods[k].name, e));
    json_array_foreach(json_object_get(p->lists, key->plural), i, one)
        PASS(texts_add(l, json_text(one, "name", ""), e));
    return OK;
}

/* --- what is wrong --- */

/* "surface=", ... */
static void list_own(char *text, size_t size)
{
    size_t n = 0;
    for (int k = 0; k < MEASURES_N; k++)
        if (measures[k]->visits)
            n += (size_t)snprintf(text + n, size - n, "%s%s=", n ? ", " : "", measures[k]->part);
}

enum status plan_choice_check(const struct plan_choice *c, struct err *e)
{
    char own[100] = "";
    struct key key;
    list_own(own, sizeof own);
    for (int64_t i = 0; i < c->n_only; i++)
        NEED(key_of(c->only[i], &key), ERR_USAGE,
             "--only %s: expected model=, checkpoint=, bits=, quantizer= or %s and a shell pattern",
             c->only[i], own);
    return OK;
}

/* One pattern must match something of its key, whatever the others say. */
static enum status match_one(const struct plan *p, const char *only, struct err *e)
{
    struct key key;
    CLEANUP(texts_free) struct texts l = {0};
    char there[400];
    NEED(key_of(only, &key), ERR_USAGE, "--only %s: unknown", only); /* plan_choice_check */
    PASS(add_all(p, &key, &l, e));
    for (int64_t i = 0; i < l.n; i++)
        if (choices_take(&only, 1, key.name, l.text[i])) return OK;
    nearest_advice(choice_pattern(only, key.name), (const char *const *)l.text, l.n, there,
                   sizeof there);
    NEED(l.n > 0, ERR_USAGE, "--only %s: the sweep has no %s", only, key.plural);
    RAISE(ERR_USAGE, "--only %s: matches none of the sweep's %s%s", only, key.plural, there);
}

/* Whether anything is chosen, done or not, in any part. */
static bool chooses_any(const struct plan *p, const struct plan_choice *of)
{
    const struct plan_choice whole = {.n_only = of->n_only, .only = of->only}, *choice = &whole;
    bool variant = false, own = false;
    size_t i;
    json_t *one;
    for (int k = 0; k < MEASURES_N; k++)
        if (measures[k]->visits)
            json_array_foreach(json_object_get(p->lists, measures[k]->group), i, one)
                own = own || plan_own_chosen(measures[k], json_text(one, "name", ""),
                                             json_text(one, "model", ""), choice);
    if (own) return true;
    for (int64_t v = 0; v < p->n_variants; v++)
        variant = variant || plan_variant_chosen(&p->variants[v], choice);
    for (const struct plan_checkpoint *c = p->checkpoints; c < p->checkpoints + p->n_checkpoints;
         c++) {
        if (!plan_checkpoint_chosen(p, c, choice)) continue;
        if (variant) return true;
        for (int k = 0; plan_measures_chosen(choice) && k < MEASURES_N; k++)
            if (measures[k]->plan_key && c->keys[k][0]) return true;
    }
    return false;
}

enum status plan_choice_match(const struct plan *p, const struct plan_choice *choice, struct err *e)
{
    char own[100] = "";
    list_own(own, sizeof own);
    for (int64_t i = 0; i < choice->n_only; i++) PASS(match_one(p, choice->only[i], e));
    NEED(choice->n_only == 0 || chooses_any(p, choice), ERR_USAGE,
         "--only: each pattern matches something, but nothing matches all of them together "
         "(%s goes with model= alone)",
         own);
    return OK;
}
