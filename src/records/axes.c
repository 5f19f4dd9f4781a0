#include "records/axes.h"
#include "util/mem.h"
#include "util/num.h"

int axis_place_of(const struct axis *axis)
{
    int i = 0;
    while (results_axes[i] && results_axes[i] != axis) i++;
    return i;
}

/* The index of a label, a text or a number as the axis has them, on the axis; -1: not found. */
static int64_t axis_find(const struct axes *a, int axis, const char *text, int64_t number)
{
    const struct axis_labels *l = &a->labels[axis];
    for (int64_t i = 0; i < l->n; i++)
        if (l->texts ? text && strcmp(l->texts[i], text) == 0 : l->numbers[i] == number) return i;
    return -1;
}

bool axis_is_absent(const struct axes *a, const struct axis *axis)
{
    return axis->optional && a->labels[axis_place_of(axis)].n == 0;
}

static enum status take_list(const json_t *object, const char *key, const json_t **out, int64_t *n,
                             struct err *e)
{
    *out = json_object_get(object, key);
    *n = (int64_t)json_array_size(*out);
    NEED(json_is_array(*out), ERR_FORMAT, "plan: \"%s\" is not a list", key);
    return OK;
}

static enum status take_text(const json_t *value, const char *key, const char **out, struct err *e)
{
    *out = json_string_value(value);
    NEED(*out, ERR_FORMAT, "plan: \"%s\" is not a text", key);
    return OK;
}

static enum status take_labels(const json_t *plan, const struct axis *axis, struct axis_labels *out,
                               struct err *e)
{
    const json_t *list;
    if (axis->optional && !json_object_get(plan, axis->plan)) return OK;
    PASS(take_list(plan, axis->plan, &list, &out->n, e));
    if (axis->number)
        PASS(mem_zero(&out->numbers, out->n, sizeof *out->numbers, axis->plan, e));
    else
        PASS(mem_zero(&out->texts, out->n, sizeof *out->texts, axis->plan, e));
    for (int64_t i = 0; i < out->n; i++) {
        const json_t *value = json_array_get(list, (size_t)i);
        if (json_is_object(value)) value = json_object_get(value, "name");
        if (!axis->number) PASS(take_text(value, axis->plan, &out->texts[i], e));
        if (!axis->number) continue;
        NEED(json_is_integer(value), ERR_FORMAT, "plan: \"%s\" holds something else", axis->plan);
        out->numbers[i] = json_integer_value(value);
    }
    return OK;
}

static enum status take_model(const json_t *json, struct axis_model *out, struct err *e)
{
    const json_t *list;
    int64_t n;
    PASS(take_list(json, "checkpoints", &list, &n, e));
    PASS(mem_zero(&out->checkpoints, n, sizeof *out->checkpoints, "checkpoints", e));
    out->n = n;
    out->variant_keys = json_object_get(json, "variant_keys");
    out->texts = json_object_get(json, "texts");
    for (int64_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(list, (size_t)i);
        struct axis_checkpoint *c = &out->checkpoints[i];
        c->plan = one;
        PASS(take_text(json_object_get(one, "name"), "models[].checkpoints[].name", &c->name, e));
        PASS(take_text(json_object_get(one, "key"), "models[].checkpoints[].key", &c->key, e));
    }
    return OK;
}

static enum status take_variants(const json_t *plan, struct axes *a, struct err *e)
{
    const json_t *list;
    PASS(take_list(plan, "variants", &list, &a->n_variants, e));
    PASS(mem_zero(&a->variants, a->n_variants, sizeof *a->variants, "variants", e));
    for (int64_t i = 0; i < a->n_variants; i++) {
        struct axis_variant *v = &a->variants[i];
        const json_t *json = json_array_get(list, (size_t)i), *bits = json_object_get(json, "bits");
        const long long width = json_integer_value(bits);
        const char *quantizer;
        PASS(take_text(json_object_get(json, "quantizer"), "variants[].quantizer", &quantizer, e));
        PASS(take_text(json_object_get(json, "key"), "variants[].key", &v->key, e));
        v->applicable = json_flag(json, "applicable");
        v->replicates = max64(json_int(json, "replicates"), 1);
        v->bits_at = axis_find(a, AXIS_BITS, NULL, width);
        v->quantizer_at = axis_find(a, AXIS_QUANTIZER, quantizer, 0);
        NEED(json_is_integer(bits) && v->bits_at >= 0 && v->quantizer_at >= 0, ERR_FORMAT,
             "plan: the variant %s at %lld bits is not on the axes", quantizer, width);
        NEED(v->replicates <= 1 + a->labels[AXIS_REPLICATE].n, ERR_FORMAT,
             "plan: replicates of the variant %s at %lld bits are not on the axis", quantizer,
             width);
        for (int64_t j = 0; j < i; j++)
            NEED(a->variants[j].bits_at != v->bits_at ||
                     a->variants[j].quantizer_at != v->quantizer_at,
                 ERR_FORMAT, "plan: two variants %s at %lld bits", quantizer, width);
    }
    return OK;
}

const char *axes_variant_key(const struct axes *a, int64_t model, int64_t i)
{
    const json_t *own = a->models[model].variant_keys;
    return own ? json_string_value(json_array_get(own, (size_t)i)) : a->variants[i].key;
}

const char *axes_scoreless_key(const struct axes *a, int64_t model, int64_t checkpoint)
{
    const struct axis_checkpoint *c = &a->models[model].checkpoints[checkpoint];
    return json_text(c->plan, "task_key", c->key);
}

const char *axes_text_key(const struct axes *a, int64_t model, int64_t i)
{
    return json_string_value(json_array_get(a->models[model].texts, (size_t)i));
}

enum status axes_of_plan(const json_t *plan, struct axes *out, struct err *e)
{
    *out = (struct axes){.plan = plan, .seed = -1};
    if (json_object_get(plan, "known_seed")) out->seed = json_int(plan, "seed");
    for (int i = 0; results_axes[i]; i++)
        if (results_axes[i]->plan) PASS(take_labels(plan, results_axes[i], &out->labels[i], e));
    /* Reads the models' checkpoints and makes the axis of indices in the longest trajectory. */
    const json_t *list = json_object_get(plan, "models");
    struct axis_labels *places = &out->labels[AXIS_CHECKPOINT];
    int64_t longest = 0, n = out->labels[AXIS_MODEL].n;
    PASS(mem_zero(&out->models, n, sizeof *out->models, "models", e));
    for (int64_t i = 0; i < n; i++) {
        PASS(take_model(json_array_get(list, (size_t)i), &out->models[i], e));
        longest = max64(longest, out->models[i].n);
    }
    PASS(mem_zero(&places->numbers, longest, sizeof *places->numbers, "checkpoints", e));
    for (int64_t i = 0; i < longest; i++) places->numbers[i] = i;
    places->n = longest;
    PASS(take_variants(plan, out, e));
    /* Models' own keys of the variants, and digests of the texts, if they have any. */
    const char *key;
    for (int64_t m = 0; m < out->labels[AXIS_MODEL].n; m++) {
        for (int64_t i = 0; out->models[m].variant_keys && i < out->n_variants; i++)
            PASS(take_text(json_array_get(out->models[m].variant_keys, (size_t)i),
                           "models[].variant_keys", &key, e));
        for (int64_t i = 0; out->models[m].texts && i < out->labels[AXIS_DATASET].n; i++)
            PASS(take_text(json_array_get(out->models[m].texts, (size_t)i), "models[].texts", &key,
                           e));
    }
    return OK;
}

void axes_free(struct axes *a)
{
    for (int64_t i = 0; a->models && i < a->labels[AXIS_MODEL].n; i++)
        free(a->models[i].checkpoints);
    for (int i = 0; i < AXES_MAX; i++) {
        free(a->labels[i].texts);
        free(a->labels[i].numbers);
    }
    free(a->models);
    free(a->variants);
    *a = (struct axes){0};
}
