/* rotations: rotated models of the fixtures. Include it after cmocka.h. */
#pragma once
#include "grids.h"

static struct model *rotate(const struct model *m, unsigned places, uint64_t seed)
{
    struct model *out = NULL;
    struct err e = {0};
    must(model_rotate(m, places, seed, &out, &e), &e);
    return out;
}

static void losses_of(const struct model *m, const struct sequences *s, const struct setting *how,
                      double *nll)
{
    float *x = run_setting(m, s, how, false);
    losses(how->rotated ? how->rotated : m, s, x, nll);
    free(x);
}

static float *copy_of(const struct fixture *f, const char *family, const char *arm,
                      const char *what, int64_t *n)
{
    char name[160];
    snprintf(name, sizeof name, "%s%s%s.%s", family, arm[0] ? "." : "", arm, what);
    const struct fixture_tensor t = fixture_get(f, name);
    *n = t.dim[0] * (t.dim[1] ? t.dim[1] : 1) * (t.dim[2] ? t.dim[2] : 1);
    return (float *)(uintptr_t)t.f;
}

static inline bool has(const struct fixture *f, const char *family, const char *arm,
                       const char *what)
{
    char name[320];
    snprintf(name, sizeof name, "%s.%s.%s", family, arm, what);
    return json_object_get(f->header, name) != NULL;
}

/* The reference's signs, or its R1, in place of the random ones. */
static void set_signs(const struct fixture *f, const char *family, const json_t *arm,
                      struct model *m)
{
    struct rotation *r = m->rotation;
    int64_t n;
    const int64_t D = m->spec.shape.head_dim;
    const char *heads = json_string_value(json_object_get(arm, "heads"));
    const bool random = r->places & ROTATE_RANDOM, stream = r->places & ROTATE_R1 && !random;
    const float *s = stream ? copy_of(f, family, "", "sign", &n) : NULL;
    if (random)
        memcpy(r->stream.dense, copy_of(f, family, "", "random", &n),
               (size_t)(r->stream.n * r->stream.n) * sizeof(double));
    for (int64_t j = 0; s && j < r->stream.n; j++) r->stream.sign[j] = s[j] / sqrt((double)n);
    const bool own = heads && strcmp(heads, "head") == 0;
    s = own ? copy_of(f, family, "", "signs", &n) : NULL;
    for (int64_t i = 0; i < r->layers; i++)
        for (int64_t j = 0; j < D; j++)
            r->head[i].sign[j] = (s ? s[i * D + j] : 1) / sqrt((double)D);
}

static struct model *rotate_as(const struct fixture *f, const char *family, const json_t *arm,
                               const struct model *m)
{
    const char *heads = json_string_value(json_object_get(arm, "heads"));
    const json_t *R1 = json_object_get(arm, "R1");
    const bool full = heads && strcmp(heads, "full") == 0;
    const bool random = json_is_string(R1) && strcmp(json_string_value(R1), "random") == 0;
    struct model *r = rotate(m,
                             (json_is_string(R1) ? ROTATE_R1 : 0) | (random ? ROTATE_RANDOM : 0) |
                                 (heads ? ROTATE_R2 : 0) | (full ? ROTATE_HEADS : 0) |
                                 (json_is_true(json_object_get(arm, "R4")) ? ROTATE_R4 : 0),
                             0);
    set_signs(f, family, arm, r);
    return r;
}
