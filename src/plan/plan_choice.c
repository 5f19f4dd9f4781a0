/* Which cells, measurements and points a run takes (--only), and what is wrong with that choice. */
#include "options/nearest.h"
#include "plan/plan_internal.h"
#include "util/choice.h"
#include "util/texts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what is chosen --- */

bool plan_part_has(const struct plan_choice *choice, int64_t visit)
{
    return choice->part.n == 0 || (visit >= choice->part.first && visit < choice->part.end);
}

/* Whether the choice takes that value of the key. */
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
    const struct model_entry *m = &p->sweep->models[c->model];
    return plan_part_has(choice, c - p->checkpoints) && !names(choice, "surface") &&
           chosen(choice, "model", m->name) &&
           chosen(choice, "checkpoint", m->rows[c->row].checkpoint);
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

bool plan_surface_chosen(const struct plan_surface *s, const struct plan_choice *choice)
{
    return !names(choice, "checkpoint") && !names(choice, "bits") && !names(choice, "quantizer") &&
           chosen(choice, "model", s->entry->model) && chosen(choice, "surface", s->entry->name);
}

/* --- what there is to choose from --- */

/* Each adds what a plan has of a key. */

static enum status add_models(const struct plan *p, struct texts *l, struct err *e)
{
    for (int64_t i = 0; i < p->sweep->n_models; i++)
        PASS(texts_add(l, p->sweep->models[i].name, e));
    return OK;
}

static enum status add_checkpoints(const struct plan *p, struct texts *l, struct err *e)
{
    for (int64_t i = 0; i < p->n_checkpoints; i++) {
        const struct plan_checkpoint *c = &p->checkpoints[i];
        PASS(texts_add(l, p->sweep->models[c->model].rows[c->row].checkpoint, e));
    }
    return OK;
}

static enum status add_bits(const struct plan *p, struct texts *l, struct err *e)
{
    for (int64_t i = 0; i < p->n_bits; i++) {
        char text[24];
        snprintf(text, sizeof text, "%lld", (long long)p->bits[i]);
        PASS(texts_add(l, text, e));
    }
    return OK;
}

static enum status add_quantizers(const struct plan *p, struct texts *l, struct err *e)
{
    for (int64_t i = 0; i < p->sweep->n_methods; i++)
        PASS(texts_add(l, p->sweep->methods[i].name, e));
    return OK;
}

static enum status add_surfaces(const struct plan *p, struct texts *l, struct err *e)
{
    for (int64_t i = 0; i < p->n_surfaces; i++) PASS(texts_add(l, p->surfaces[i].entry->name, e));
    return OK;
}

static const struct choice_key {
    const char *name, *plural;
    enum status (*add)(const struct plan *p, struct texts *l, struct err *e);
} keys[] = {
    {"model", "models", add_models},
    {"checkpoint", "checkpoints", add_checkpoints},
    {"bits", "bits", add_bits},
    {"quantizer", "quantizers", add_quantizers},
    {"surface", "surfaces", add_surfaces},
};
enum { N_KEYS = sizeof keys / sizeof *keys };

/* --- what is wrong --- */

static const struct choice_key *key_of(const char *only)
{
    for (int i = 0; i < N_KEYS; i++)
        if (choice_pattern(only, keys[i].name)) return &keys[i];
    return NULL;
}

enum status plan_choice_check(const struct plan_choice *c, struct err *e)
{
    for (int64_t i = 0; i < c->n_only; i++)
        NEED(key_of(c->only[i]), ERR_USAGE,
             "--only %s: expected model=, checkpoint=, bits=, quantizer= or surface= and a shell "
             "pattern",
             c->only[i]);
    return OK;
}

/* One pattern must match something of its key, whatever the others say. */
static enum status match_one(const struct plan *p, const char *only, struct err *e)
{
    enum status st = OK;
    const struct choice_key *key = key_of(only);
    struct texts l = {0};
    char there[400];
    TRY(key->add(p, &l, e));
    for (int64_t i = 0; i < l.n; i++)
        if (choices_take(&only, 1, key->name, l.text[i])) goto done;
    nearest_advice(choice_pattern(only, key->name), (const char *const *)l.text, l.n, there,
                   sizeof there);
    ENSURE(l.n > 0, ERR_USAGE, "--only %s: the sweep has no %s", only, key->plural);
    FAIL(ERR_USAGE, "--only %s: matches none of the sweep's %s%s", only, key->plural, there);
done:
    texts_free(&l);
    return st;
}

/* Whether measures make records of the checkpoint. */
static bool has_records(const struct plan_checkpoint *c)
{
    bool any = false;
    for (int k = 0; k < MEASURES_N; k++) any = any || c->keys[k][0];
    return any;
}

/* Whether anything is chosen, done or not, in any part. */
static bool chooses_any(const struct plan *p, const struct plan_choice *of)
{
    const struct plan_choice whole = {.n_only = of->n_only, .only = of->only}, *choice = &whole;
    for (int64_t i = 0; i < p->n_surfaces; i++)
        if (plan_surface_chosen(&p->surfaces[i], choice)) return true;
    bool variant = false;
    for (int64_t i = 0; i < p->n_variants; i++)
        variant = variant || plan_variant_chosen(&p->variants[i], choice);
    for (int64_t i = 0; i < p->n_checkpoints; i++) {
        const struct plan_checkpoint *c = &p->checkpoints[i];
        if (plan_checkpoint_chosen(p, c, choice) &&
            (variant || (has_records(c) && plan_measures_chosen(choice))))
            return true;
    }
    return false;
}

enum status plan_choice_match(const struct plan *p, const struct plan_choice *choice, struct err *e)
{
    for (int64_t i = 0; i < choice->n_only; i++) PASS(match_one(p, choice->only[i], e));
    NEED(choice->n_only == 0 || chooses_any(p, choice), ERR_USAGE,
         "--only: each pattern matches something, but nothing matches all of them together "
         "(surface= goes with model= alone)");
    return OK;
}
