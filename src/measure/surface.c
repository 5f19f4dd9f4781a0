#include "measure/surface.h"
#include "checkpoint/derived.h"
#include "config/surface_options.h"
#include "curvature/plane.h"
#include "group/lru.h"
#include "measure/weights_file.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/rng.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- tasks as text --- */

static void task_free(void *task)
{
    struct surface_task *t = task;
    if (!t) return;
    for (int64_t i = 0; i < t->n_paths; i++) free(t->paths[i]);
    free(t->paths);
    free(t->surface);
    free(t->point);
    free(t->quantized.key);
    method_entry_free(&t->quantized.method);
    free(t);
}

static json_t *task_to_json(const void *task)
{
    const struct surface_task *t = task;
    json_t *paths = json_array();
    for (int64_t i = 0; i < t->n_paths; i++) json_array_append_new(paths, json_string(t->paths[i]));
    json_t *json = json_pack("{s:s, s:i, s:o, s:f, s:f, s:I, s:s?, s:I, s:f, s:f}", "surface",
                             t->surface, "plane", t->plane, "paths", paths, "margin", t->margin,
                             "radius", t->radius, "seed", (json_int_t)t->seed, "point", t->point,
                             "exact", (json_int_t)t->exact, "x", t->x, "y", t->y);
    if (json && t->plane == SURFACE_QUANTIZATION) {
        json_object_set_new(json, "method", method_entry_to_json(&t->quantized.method));
        json_object_set_new(json, "bits", json_integer((json_int_t)t->quantized.bits));
    }
    return json;
}

static enum status take_paths(const json_t *paths, struct surface_task *t, struct err *e)
{
    enum status st = OK;
    int64_t n = (int64_t)json_array_size(paths);
    TRY(mem_zero(&t->paths, n, sizeof *t->paths, "paths", e));
    for (int64_t i = 0; i < n; i++) {
        const char *path = json_string_value(json_array_get(paths, (size_t)i));
        ENSURE(path, ERR_FORMAT, "visit: a path of its surface is no text");
        TRY(mem_string(&t->paths[t->n_paths++], path, e));
    }
    ENSURE(n > 0, ERR_FORMAT, "visit: its surface has no paths");
done:
    return st;
}

static enum status task_from_json(const json_t *json, void **task, struct err *e)
{
    enum status st = OK;
    struct surface_task *t = NULL;
    const char *point = json_text(json, "point", NULL);
    TRY(mem_zero(&t, 1, sizeof *t, "a point of a surface", e));
    TRY(mem_string(&t->surface, json_text(json, "surface", ""), e));
    if (point) TRY(mem_string(&t->point, point, e));
    TRY(take_paths(json_object_get(json, "paths"), t, e));
    t->plane = (int)json_integer_value(json_object_get(json, "plane"));
    t->margin = json_number_value(json_object_get(json, "margin"));
    t->radius = json_number_value(json_object_get(json, "radius"));
    t->seed = json_integer_value(json_object_get(json, "seed"));
    t->exact = json_integer_value(json_object_get(json, "exact"));
    t->x = json_number_value(json_object_get(json, "x"));
    t->y = json_number_value(json_object_get(json, "y"));
    if (t->plane == SURFACE_QUANTIZATION) {
        TRY(mem_string(&t->quantized.key, "", e));
        TRY(method_entry_from_json(json_object_get(json, "method"), &t->quantized.method, e));
        t->quantized.bits = json_integer_value(json_object_get(json, "bits"));
    }
    *task = t;
    t = NULL;
done:
    task_free(t);
    return st;
}

/* --- what is kept of a surface --- */

enum { DIRECTIONS = 2 };

struct surface {
    struct lru lru; /* its key is all its points' tasks' alike */
    int64_t n_folders;
    struct checkpoint **folders;            // (n_folders)
    struct checkpoint *derived[DIRECTIONS]; /* the quantized one, or the two random directions */
    int64_t n;
    const struct checkpoint **parts; // (n) of the plane, borrowed from the above
    struct plane plane;
    struct err failure; /* why it has none */
};

static void drop(void *surface)
{
    struct surface *s = surface;
    if (!s) return;
    for (int i = 0; i < DIRECTIONS; i++) checkpoint_close(s->derived[i]);
    for (int64_t i = 0; i < s->n_folders; i++) checkpoint_close(s->folders[i]);
    free(s->folders);
    free(s->parts);
    plane_free(&s->plane);
    free(s->lru.key);
    free(s);
}

void surface_forget(struct visit_cache *cache)
{
    lru_trim(&cache->surfaces, 0, drop);
}

/* --- quantized weights, as a file over the checkpoint --- */

static enum status write_linear(void *context, const struct variant *v, const struct linear *l,
                                const float *q, struct err *e)
{
    (void)v;
    return safetensors_append(context, q, l->rows * l->cols, e);
}

/* The base with its weights quantized as the task says. */
static enum status open_quantized(const struct part_context *c, struct checkpoint *base,
                                  struct checkpoint **out, struct err *e)
{
    enum status st = OK;
    const struct surface_task *t = c->visit->task[PART_SURFACE];
    struct safetensors_out *file = NULL;
    char *path = NULL;
    st = weights_file_scratch(c->visit->run.scratch, -1, &path, e);
    if (st == OK) st = weights_file_create(base, path, NULL, &file, e);
    TRY(group_agree(c->group, st, e));
    const struct weights_sink sink = {file, write_linear};
    TRY(c->engine->quantize(c, base, &t->quantized, &sink, e));
    TRY(group_agree(c->group, safetensors_commit(file, e), e));
    TRY(checkpoint_overlay(base, path, out, e));
done:
    safetensors_out_close(file);
    /* Held open as long as it is needed, without a name. */
    if (path) unlink(path);
    free(path);
    return st;
}

/* --- planes --- */

static enum status open_folders(struct surface *s, const struct surface_task *t, struct err *e)
{
    enum status st = OK;
    TRY(mem_zero(&s->folders, t->n_paths, sizeof *s->folders, "checkpoints", e));
    TRY(mem_zero(&s->parts, t->n_paths + DIRECTIONS, sizeof *s->parts, "checkpoints", e));
    for (int64_t i = 0; i < t->n_paths; i++) {
        TRY(checkpoint_open(t->paths[i], &s->folders[i], e));
        s->parts[s->n++] = s->folders[i];
        s->n_folders++;
    }
done:
    return st;
}

static enum status measure_plane(struct surface *s, bool principal, struct err *e)
{
    enum status st = OK;
    double *gram = NULL;
    TRY(mem_alloc(&gram, s->n * s->n, sizeof *gram, "Gram matrix", e));
    TRY(plane_gram(s->parts, s->n, gram, e));
    if (principal)
        TRY(plane_principal(gram, s->n, &s->plane, e));
    else
        TRY(plane_of_three(gram, &s->plane, e));
done:
    free(gram);
    return st;
}

static enum status make_plane(const struct part_context *c, struct surface *s, struct err *e)
{
    enum status st = OK;
    const struct surface_task *t = c->visit->task[PART_SURFACE];
    log_trace("visit", "surface %s: its plane is made", t->surface);
    TRY(group_agree(c->group, open_folders(s, t, e), e));
    switch (t->plane) {
    case SURFACE_QUANTIZATION:
        TRY(open_quantized(c, s->folders[0], &s->derived[0], e));
        s->parts[s->n++] = s->derived[0];
        TRY(measure_plane(s, false, e));
        break;
    case SURFACE_TRAJECTORY:
        TRY(measure_plane(s, true, e));
        break;
    default:
        for (int i = 0; i < DIRECTIONS; i++) {
            TRY(checkpoint_random(s->folders[0], rng_stream((uint64_t)t->seed, (uint64_t)i),
                                  &s->derived[i], e));
            s->parts[s->n++] = s->derived[i];
        }
        TRY(plane_of_directions(&s->plane, e));
    }
    log_trace("visit", "surface %s: %lld parts", t->surface, (long long)s->n);
done:
    return st;
}

/* What all points of a surface have in common, calibration and tokenizer included. */
static enum status surface_key(const struct visit *v, char **key, struct err *e)
{
    enum status st = OK;
    json_t *json = task_to_json(v->task[PART_SURFACE]);
    static const char *const of_point[] = {"point", "exact", "x", "y"};
    for (size_t i = 0; i < sizeof of_point / sizeof *of_point; i++)
        json_object_del(json, of_point[i]);
    json_object_set_new(json, "calibration", data_options_to_json(&v->calibration));
    if (v->tokenizer) json_object_set_new(json, "tokenizer", json_string(v->tokenizer));
    *key = json ? json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    ENSURE(*key, ERR_NOMEM, "out of memory for a surface");
done:
    json_decref(json);
    return st;
}

/* Points of several surfaces may take turns in a process. */
enum { SURFACES_KEPT = 8 };

/* Whether all other points of the surface would fail alike, after all the work of quantizing. */
static bool stays(enum status failed)
{
    return failed == ERR_NUMERIC || failed == ERR_FORMAT || failed == ERR_SHAPE;
}

/* All ranks have it, or none: the next point's ranks must agree whether to make it. */
static enum status make_surface(const struct part_context *c, char **key, struct surface **out,
                                struct err *e)
{
    struct surface *s = NULL;
    enum status st = mem_zero(&s, 1, sizeof *s, "a surface", e);
    TRY(group_agree(c->group, st, e));
    st = group_agree(c->group, make_plane(c, s, e), e);
    if (st != OK && !stays(st)) TRY(st);
    if (st != OK) s->failure = *e;
    s->lru.key = *key;
    *key = NULL;
    lru_add(&c->cache->surfaces, &s->lru);
    *out = s;
    s = NULL;
    lru_trim(&c->cache->surfaces, SURFACES_KEPT, drop);
done:
    drop(s);
    return st;
}

static enum status get_surface(const struct part_context *c, struct surface **out, struct err *e)
{
    enum status st = OK;
    char *key = NULL;
    TRY(surface_key(c->visit, &key, e));
    *out = lru_find(&c->cache->surfaces, key);
    if (*out) {
        const struct err *failure = &(*out)->failure;
        ENSURE(failure->code == OK, failure->code, "%s", failure->text);
    } else {
        TRY(make_surface(c, &key, out, e));
    }
done:
    free(key);
    return st;
}

/* --- points --- */

/* Where the point lies. */
struct surface_place {
    double a, b;        /* lengths along e1, e2; random: numbers of directions */
    double alpha, beta; /* coefficients of the previous and the quantized weights; else NaN */
    double share[2];    /* of the checkpoints' variance along e1, e2; else NaN */
};

struct point {
    struct surface_place place;
    json_t *datasets; /* what the metrics say of it: one dataset */
};

/* Ends of the grid along axis k. */
static void bounds(const struct surface *s, const struct surface_task *t, int k, double *low,
                   double *high)
{
    if (t->plane == SURFACE_RANDOM) {
        *low = -t->radius;
        *high = t->radius;
        return;
    }
    *low = *high = s->plane.at[k][0];
    for (int64_t i = 1; i < s->n; i++) {
        *low = fmin(*low, s->plane.at[k][i]);
        *high = fmax(*high, s->plane.at[k][i]);
    }
    double margin = t->margin * (*high - *low);
    *low -= margin;
    *high += margin;
}

/* c (n) = the coefficients of the task's point. An exact point is one part alone, whatever plane it
 * lies on. */
static void locate(const struct surface *s, const struct surface_task *t, double *c,
                   struct surface_place *place)
{
    *place = (struct surface_place){.alpha = NAN, .beta = NAN};
    memcpy(place->share, s->plane.share, sizeof place->share);
    if (t->point) {
        for (int64_t i = 0; i < s->n; i++) c[i] = i == t->exact;
        place->a = s->plane.at[0][t->exact];
        place->b = s->plane.at[1][t->exact];
    } else {
        double low, high;
        bounds(s, t, 0, &low, &high);
        place->a = low + t->x * (high - low);
        bounds(s, t, 1, &low, &high);
        place->b = low + t->y * (high - low);
        plane_coefficients(&s->plane, place->a, place->b, c);
    }
    if (t->plane != SURFACE_QUANTIZATION) return;
    place->alpha = c[1];
    place->beta = c[2];
}

/* The weighted sum; its parts stay in the cache until another surface is made. */
static enum status open_point(const struct part_context *c, const struct surface *s,
                              struct surface_place *place, struct checkpoint **out, struct err *e)
{
    enum status st = OK;
    const struct surface_task *t = c->visit->task[PART_SURFACE];
    struct checkpoint_part *parts = NULL;
    double *x = NULL;
    ENSURE(!t->point || (t->exact >= 0 && t->exact < s->n), ERR_FORMAT, "surface %s: no part %lld",
           t->surface, (long long)t->exact);
    TRY(mem_alloc(&x, s->n, sizeof *x, "coefficients", e));
    TRY(mem_alloc(&parts, s->n, sizeof *parts, "coefficients", e));
    locate(s, t, x, place);
    for (int64_t i = 0; i < s->n; i++) parts[i] = (struct checkpoint_part){x[i], s->parts[i]};
    TRY(checkpoint_combine(parts, s->n, out, e));
done:
    free(x);
    free(parts);
    return st;
}

static enum status open_state(struct part_context *c, struct err *e)
{
    enum status st = OK;
    struct point *p = NULL;
    TRY(mem_zero(&p, 1, sizeof *p, "a point of a surface", e));
    c->state[PART_SURFACE] = p;
done:
    return st;
}

static enum status run(struct part_context *c, struct err *e)
{
    enum status st = OK;
    struct point *p = c->state[PART_SURFACE];
    struct surface *s;
    TRY(get_surface(c, &s, e));
    TRY(group_agree(c->group, open_point(c, s, &p->place, &c->checkpoint, e), e));
    c->provenance.weights_hash = checkpoint_hash(c->checkpoint);
    TRY(c->engine->evaluate(c, c->checkpoint, &p->datasets, &c->provenance.memory_planned, e));
done:
    return st;
}

static enum status emit(struct part_context *c, const struct err *failure, struct err *e)
{
    enum status st = OK;
    const struct point *p = c->state[PART_SURFACE];
    const struct surface_task *t = c->visit->task[PART_SURFACE];
    json_t *record = provenance_record(&c->provenance, "point", c->visit->key, failure);
    ENSURE(record, ERR_NOMEM, "out of memory for a record");
    json_object_set_new(record, "surface", json_string(t->surface));
    json_object_set_new(record, "point", json_string(t->point ? t->point : ""));
    json_t *values = json_object_get(record, "values");
    record_number(values, "seconds", clock_seconds() - c->start);
    if (failure->code == OK) {
        record_number(values, "a", p->place.a);
        record_number(values, "b", p->place.b);
        record_number(values, "alpha", p->place.alpha);
        record_number(values, "beta", p->place.beta);
        record_number(values, "share_1", p->place.share[0]);
        record_number(values, "share_2", p->place.share[1]);
        const json_t *dataset = json_object_iter_value(json_object_iter(p->datasets));
        json_object_set(values, "loss", json_object_get(dataset, "loss"));
        json_object_set(values, "loss_stderr", json_object_get(dataset, "loss_stderr"));
    }
    TRY(c->hooks->emit(c->hooks->context, record, e));
done:
    json_decref(record);
    return st;
}

static void close_state(struct part_context *c)
{
    struct point *p = c->state[PART_SURFACE];
    json_decref(p->datasets);
    free(p);
}

const struct part surface_part = {
    .name = "surface",
    .task_free = task_free,
    .task_to_json = task_to_json,
    .task_from_json = task_from_json,
    .open = open_state,
    .run = run,
    .emit = emit,
    .close = close_state,
};
