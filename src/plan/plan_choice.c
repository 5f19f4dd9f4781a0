/* Which cells, curvature and points a run takes (--only), and what is wrong with that choice. */
#include "options/nearest.h"
#include "plan/plan_internal.h"
#include "util/mem.h"
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The pattern behind "KEY=" if the choice is of that key, else NULL. */
static const char *pattern_of(const char *only, const char *key)
{
    size_t n = strlen(key);
    return strncmp(only, key, n) == 0 && only[n] == '=' ? only + n + 1 : NULL;
}

/* --- what is chosen --- */

/* Whether the choice takes that value of the key. */
static bool chosen(const struct plan_choice *choice, const char *key, const char *value)
{
    for (int64_t i = 0; i < choice->n_only; i++) {
        const char *pattern = pattern_of(choice->only[i], key);
        if (pattern && fnmatch(pattern, value, 0) != 0) return false;
    }
    return true;
}

static bool names(const struct plan_choice *choice, const char *key)
{
    for (int64_t i = 0; i < choice->n_only; i++)
        if (pattern_of(choice->only[i], key)) return true;
    return false;
}

bool plan_checkpoint_chosen(const struct plan *p, const struct plan_checkpoint *c,
                            const struct plan_choice *choice)
{
    const struct model_entry *m = &p->sweep->models[c->model];
    return !names(choice, "surface") && chosen(choice, "model", m->name) &&
           chosen(choice, "checkpoint", m->rows[c->row].checkpoint);
}

bool plan_curvature_chosen(const struct plan_choice *choice)
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

/* What a plan has of a key, for messages; each once, texts owned. */
struct labels {
    int64_t n, capacity;
    char **text; // (n)
};

static void labels_free(struct labels *l)
{
    for (int64_t i = 0; i < l->n; i++) free(l->text[i]);
    free(l->text);
}

static enum status add_label(struct labels *l, const char *text, struct err *e)
{
    for (int64_t i = 0; i < l->n; i++)
        if (strcmp(l->text[i], text) == 0) return OK;
    PASS(mem_grow(&l->text, l->n, &l->capacity, sizeof *l->text, e));
    PASS(mem_string(&l->text[l->n], text, e));
    l->n++;
    return OK;
}

static enum status add_models(const struct plan *p, struct labels *l, struct err *e)
{
    for (int64_t i = 0; i < p->sweep->n_models; i++)
        PASS(add_label(l, p->sweep->models[i].name, e));
    return OK;
}

static enum status add_checkpoints(const struct plan *p, struct labels *l, struct err *e)
{
    for (int64_t i = 0; i < p->n_checkpoints; i++) {
        const struct plan_checkpoint *c = &p->checkpoints[i];
        PASS(add_label(l, p->sweep->models[c->model].rows[c->row].checkpoint, e));
    }
    return OK;
}

static enum status add_bits(const struct plan *p, struct labels *l, struct err *e)
{
    for (int64_t i = 0; i < p->n_bits; i++) {
        char text[24];
        snprintf(text, sizeof text, "%lld", (long long)p->bits[i]);
        PASS(add_label(l, text, e));
    }
    return OK;
}

static enum status add_quantizers(const struct plan *p, struct labels *l, struct err *e)
{
    for (int64_t i = 0; i < p->sweep->n_methods; i++)
        PASS(add_label(l, p->sweep->methods[i].name, e));
    return OK;
}

static enum status add_surfaces(const struct plan *p, struct labels *l, struct err *e)
{
    for (int64_t i = 0; i < p->n_surfaces; i++) PASS(add_label(l, p->surfaces[i].entry->name, e));
    return OK;
}

static const struct choice_key {
    const char *name, *plural;
    enum status (*add)(const struct plan *p, struct labels *l, struct err *e);
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
        if (pattern_of(only, keys[i].name)) return &keys[i];
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

/* "a, b, c and 12 more" */
static void list_labels(const struct labels *l, char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (int64_t i = 0; i < l->n; i++) {
        const bool fits = at + strlen(l->text[i]) + 32 < size;
        int n = fits ? snprintf(out + at, size - at, "%s%s", i ? ", " : "", l->text[i])
                     : snprintf(out + at, size - at, " and %lld more", (long long)(l->n - i));
        at += (size_t)n;
        if (!fits) return;
    }
}

/* One pattern must match something of its key, whatever the others say. */
static enum status match_one(const struct plan *p, const char *only, struct err *e)
{
    enum status st = OK;
    const struct choice_key *key = key_of(only);
    const char *pattern = pattern_of(only, key->name), *near;
    struct labels l = {0};
    char there[400];
    TRY(key->add(p, &l, e));
    for (int64_t i = 0; i < l.n; i++)
        if (fnmatch(pattern, l.text[i], 0) == 0) goto done;
    list_labels(&l, there, sizeof there);
    near = nearest_name(pattern, (const char *const *)l.text, l.n);
    ENSURE(l.n > 0, ERR_USAGE, "--only %s: the sweep has no %s", only, key->plural);
    FAIL(ERR_USAGE, "--only %s: matches none of the sweep's %s%s%s%s; there are %s", only,
         key->plural, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "", there);
done:
    labels_free(&l);
    return st;
}

/* Whether anything is chosen, done or not. */
static bool chooses_any(const struct plan *p, const struct plan_choice *choice)
{
    for (int64_t i = 0; i < p->n_surfaces; i++)
        if (plan_surface_chosen(&p->surfaces[i], choice)) return true;
    bool variant = false;
    for (int64_t i = 0; i < p->n_variants; i++)
        variant = variant || plan_variant_chosen(&p->variants[i], choice);
    for (int64_t i = 0; i < p->n_checkpoints; i++) {
        const struct plan_checkpoint *c = &p->checkpoints[i];
        if (plan_checkpoint_chosen(p, c, choice) &&
            (variant || (c->curvature_key[0] && plan_curvature_chosen(choice))))
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
