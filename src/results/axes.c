#include "results/axes.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>

static enum status take_list(const json_t *object, const char *key, const json_t **out, int64_t *n,
                             struct err *e)
{
    enum status st = OK;
    *out = json_object_get(object, key);
    *n = (int64_t)json_array_size(*out);
    ENSURE(json_is_array(*out), ERR_FORMAT, "plan: \"%s\" is not a list", key);
done:
    return st;
}

static enum status take_text(const json_t *value, const char *key, const char **out, struct err *e)
{
    enum status st = OK;
    *out = json_string_value(value);
    ENSURE(*out, ERR_FORMAT, "plan: \"%s\" is not a text", key);
done:
    return st;
}

static enum status take_labels(const json_t *plan, const char *key, const char ***out, int64_t *n,
                               struct err *e)
{
    enum status st = OK;
    const json_t *list;
    TRY(take_list(plan, key, &list, n, e));
    TRY(mem_zero(out, *n, sizeof **out, key, e));
    for (int64_t i = 0; i < *n; i++)
        TRY(take_text(json_array_get(list, (size_t)i), key, &(*out)[i], e));
done:
    return st;
}

static enum status take_checkpoint(const json_t *json, struct axis_checkpoint *out, struct err *e)
{
    enum status st = OK;
    const json_t *step = json_object_get(json, "step");
    TRY(take_text(json_object_get(json, "name"), "models[].checkpoints[].name", &out->name, e));
    TRY(take_text(json_object_get(json, "key"), "models[].checkpoints[].key", &out->key, e));
    out->curvature_key = json_text(json, "curvature_key", NULL);
    out->phase = json_text(json, "phase", "");
    out->kind = json_text(json, "kind", "");
    out->recipe = json_text(json, "recipe", "");
    out->step = json_is_integer(step) ? json_integer_value(step) : -1;
    out->tokens = json_number_get(json_object_get(json, "tokens"));
    out->learning_rate = json_number_get(json_object_get(json, "learning_rate"));
done:
    return st;
}

static enum status take_model(const json_t *json, struct axis_model *out, struct err *e)
{
    enum status st = OK;
    const json_t *list;
    int64_t n;
    TRY(take_text(json_object_get(json, "name"), "models[].name", &out->name, e));
    TRY(take_list(json, "checkpoints", &list, &n, e));
    TRY(mem_zero(&out->checkpoints, n, sizeof *out->checkpoints, "checkpoints", e));
    out->n = n;
    for (int64_t i = 0; i < n; i++)
        TRY(take_checkpoint(json_array_get(list, (size_t)i), &out->checkpoints[i], e));
done:
    return st;
}

static enum status take_models(const json_t *plan, struct axes *a, struct err *e)
{
    enum status st = OK;
    const json_t *list;
    TRY(take_list(plan, "models", &list, &a->n_models, e));
    TRY(mem_zero(&a->models, a->n_models, sizeof *a->models, "models", e));
    for (int64_t i = 0; i < a->n_models; i++) {
        TRY(take_model(json_array_get(list, (size_t)i), &a->models[i], e));
        if (a->models[i].n > a->n_checkpoints) a->n_checkpoints = a->models[i].n;
    }
done:
    return st;
}

static enum status take_bits(const json_t *plan, struct axes *a, struct err *e)
{
    enum status st = OK;
    const json_t *list;
    TRY(take_list(plan, "bits", &list, &a->n_bits, e));
    TRY(mem_zero(&a->bits, a->n_bits, sizeof *a->bits, "bits", e));
    for (int64_t i = 0; i < a->n_bits; i++) {
        const json_t *value = json_array_get(list, (size_t)i);
        ENSURE(json_is_integer(value), ERR_FORMAT, "plan: \"bits\" holds something else");
        a->bits[i] = json_integer_value(value);
    }
done:
    return st;
}

static enum status take_variant(const json_t *json, const struct axes *a, struct axis_variant *out,
                                struct err *e)
{
    enum status st = OK;
    const json_t *bits = json_object_get(json, "bits");
    const char *quantizer;
    TRY(take_text(json_object_get(json, "quantizer"), "variants[].quantizer", &quantizer, e));
    TRY(take_text(json_object_get(json, "key"), "variants[].key", &out->key, e));
    out->applicable = json_is_true(json_object_get(json, "applicable"));
    out->bits_at = out->quantizer_at = -1;
    for (int64_t i = 0; i < a->n_bits; i++)
        if (json_is_integer(bits) && a->bits[i] == json_integer_value(bits)) out->bits_at = i;
    for (int64_t i = 0; i < a->n_quantizers; i++)
        if (strcmp(a->quantizers[i], quantizer) == 0) out->quantizer_at = i;
    ENSURE(out->bits_at >= 0 && out->quantizer_at >= 0, ERR_FORMAT,
           "plan: the variant %s at %lld bits is not on the axes", quantizer,
           (long long)json_integer_value(bits));
done:
    return st;
}

static enum status take_variants(const json_t *plan, struct axes *a, struct err *e)
{
    enum status st = OK;
    const json_t *list;
    TRY(take_list(plan, "variants", &list, &a->n_variants, e));
    TRY(mem_zero(&a->variants, a->n_variants, sizeof *a->variants, "variants", e));
    for (int64_t i = 0; i < a->n_variants; i++) {
        struct axis_variant *v = &a->variants[i];
        TRY(take_variant(json_array_get(list, (size_t)i), a, v, e));
        for (int64_t j = 0; j < i; j++)
            ENSURE(a->variants[j].bits_at != v->bits_at ||
                       a->variants[j].quantizer_at != v->quantizer_at,
                   ERR_FORMAT, "plan: two variants %s at %lld bits", a->quantizers[v->quantizer_at],
                   (long long)a->bits[v->bits_at]);
    }
done:
    return st;
}

static enum status take_surface(const json_t *json, struct axis_surface *out, struct err *e)
{
    enum status st = OK;
    int64_t n;
    TRY(take_text(json_object_get(json, "name"), "surfaces[].name", &out->name, e));
    TRY(take_text(json_object_get(json, "key"), "surfaces[].key", &out->key, e));
    TRY(take_list(json, "exact", &out->exact, &n, e));
    out->plane = json_text(json, "plane", "");
    out->model = json_text(json, "model", "");
    out->checkpoint = json_text(json, "checkpoint", "");
    out->quantizer = json_text(json, "quantizer", "");
    out->dataset = json_text(json, "dataset", "");
    const json_t *bits = json_object_get(json, "bits");
    out->bits = json_is_integer(bits) ? json_integer_value(bits) : -1;
    out->columns = json_integer_value(json_object_get(json, "columns"));
    out->rows = json_integer_value(json_object_get(json, "rows"));
    ENSURE(out->columns >= 0 && out->rows >= 0 && out->columns <= INT32_MAX &&
               out->rows <= INT32_MAX,
           ERR_FORMAT, "plan: surface %s: columns or rows out of range", out->name);
done:
    return st;
}

/* Journals and cubes of before there were surfaces have none. */
static enum status take_surfaces(const json_t *plan, struct axes *a, struct err *e)
{
    enum status st = OK;
    const json_t *list;
    if (!json_object_get(plan, "surfaces")) return OK;
    TRY(take_list(plan, "surfaces", &list, &a->n_surfaces, e));
    TRY(mem_zero(&a->surfaces, a->n_surfaces, sizeof *a->surfaces, "surfaces", e));
    for (int64_t i = 0; i < a->n_surfaces; i++)
        TRY(take_surface(json_array_get(list, (size_t)i), &a->surfaces[i], e));
done:
    return st;
}

enum status axes_of_plan(const json_t *plan, struct axes *out, struct err *e)
{
    enum status st = OK;
    struct axes a = {0};
    TRY(take_models(plan, &a, e));
    TRY(take_bits(plan, &a, e));
    TRY(take_labels(plan, "quantizers", &a.quantizers, &a.n_quantizers, e));
    TRY(take_labels(plan, "datasets", &a.datasets, &a.n_datasets, e));
    TRY(take_variants(plan, &a, e));
    TRY(take_surfaces(plan, &a, e));
    *out = a;
    a = (struct axes){0};
done:
    axes_free(&a);
    return st;
}

void axes_free(struct axes *a)
{
    for (int64_t i = 0; a->models && i < a->n_models; i++) free(a->models[i].checkpoints);
    free(a->models);
    free(a->bits);
    free(a->quantizers);
    free(a->datasets);
    free(a->variants);
    free(a->surfaces);
    *a = (struct axes){0};
}
