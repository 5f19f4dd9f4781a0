#include "measures/surface.h"
#include "config/sweep.h"
#include "curvature/plane.h"
#include "engine/stamp.h"
#include "records/rows.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/lru.h"
#include "util/mem.h"
#include <math.h>

/* --- its records --- */

static const struct field fields[] = {
    {"surface", "surface", IN_LABELS, FIELD_TEXT, STABLE, NULL, "name of the surface"},
    {"plane", "plane", IN_LABELS, FIELD_TEXT, STABLE, NULL, "quantization, trajectory or random"},
    {"model", "model", IN_LABELS, FIELD_TEXT, STABLE, NULL, "trajectory"},
    {"checkpoint", "checkpoint_name", IN_LABELS, FIELD_TEXT, STABLE, NULL,
     "checkpoint at the plane's origin; of a trajectory's plane none"},
    {"bits", "bits", IN_LABELS, FIELD_INTEGER, STABLE, "1", "width of the quantized weights"},
    {"quantizer", "quantizer", IN_LABELS, FIELD_TEXT, STABLE, NULL,
     "method of the quantized weights"},
    {"dataset", "dataset", IN_LABELS, FIELD_TEXT, STABLE, NULL, "evaluation text"},
    {"point", "point", IN_LABELS, FIELD_TEXT, STABLE, NULL,
     "an exact point: a checkpoint's name, or quantized; empty on the grid"},
    {"column", "column", IN_LABELS, FIELD_INTEGER, STABLE, "1",
     "place on the grid along the first axis"},
    {"grid_row", "grid_row", IN_LABELS, FIELD_INTEGER, STABLE, "1",
     "place on the grid along the second axis"},
    {KEY_FIELD},
    {"status", "status", IN_RECORD, FIELD_STATUS, STABLE, NULL, "how far the point is"},
    {MESSAGE_FIELD("message")},
    {FINGERPRINT_FIELD},
    {PROVENANCE_FIELD},

    {"a", "a", IN_VALUES, FIELD_REAL, STABLE, "1",
     "place along the plane's first axis, a length in weight space; random: a multiple of the "
     "first direction"},
    {"b", "b", IN_VALUES, FIELD_REAL, STABLE, "1", "the same along the second axis"},
    {"alpha", "alpha", IN_VALUES, FIELD_REAL, STABLE, "1",
     "coefficient of the previous checkpoint's weights"},
    {"beta", "beta", IN_VALUES, FIELD_REAL, STABLE, "1", "coefficient of the quantized weights"},
    {"share_1", "share_1", IN_VALUES, FIELD_REAL, STABLE, "1",
     "share of the checkpoints' variance along the first axis"},
    {"share_2", "share_2", IN_VALUES, FIELD_REAL, STABLE, "1", "the same along the second axis"},
    {"loss", "loss", IN_VALUES, FIELD_REAL, STABLE, "nat", "cross-entropy per token at the point"},
    {"loss_stderr", "loss_stderr", IN_VALUES, FIELD_REAL, STABLE, "nat",
     "its standard error over sequences, which all points share"},
    {SECONDS_FIELD("seconds", "seconds", "time of the point's forward pass")},
    {0},
};

/* Of a plan record. */
enum { SIDE_MAX = 10000 };

/* s->exact is freed by the caller. */
static enum status take_surface(const json_t *plan, struct results_surface *s, struct err *e)
{
    const char *name = json_text(plan, "name", NULL), *key = json_text(plan, "key", NULL);
    const json_t *exact = json_object_get(plan, "exact");
    NEED(name && key, ERR_FORMAT, "plan: a surface has no \"name\" or no \"key\"");
    NEED(json_is_array(exact), ERR_FORMAT, "plan: surface %s: \"exact\" is not a list", name);
    s->key = key;
    s->columns = json_int(plan, "columns");
    s->rows = json_int(plan, "rows");
    NEED(s->columns >= 0 && s->rows >= 0 && s->columns <= SIDE_MAX && s->rows <= SIDE_MAX,
         ERR_FORMAT, "plan: surface %s: columns or rows out of range", name);
    s->n_exact = (int64_t)json_array_size(exact);
    PASS(mem_zero(&s->exact, s->n_exact, sizeof *s->exact, "points", e));
    for (int64_t k = 0; k < s->n_exact; k++) {
        s->exact[k] = json_string_value(json_array_get(exact, (size_t)k));
        NEED(s->exact[k], ERR_FORMAT, "plan: surface %s: a point is no text", name);
    }
    return OK;
}

static enum status add_point(const struct results_surface *s, int64_t k, json_t *name,
                             struct rows *out, struct err *e)
{
    const struct results_point p = results_surface_point(s, k);
    struct row row = {.labels = json_object()};
    json_object_set(row.labels, "surface", name);
    json_object_set_new(row.labels, "point", json_string(p.label ? p.label : ""));
    if (!p.label) {
        json_object_set_new(row.labels, "column", json_integer((json_int_t)p.i));
        json_object_set_new(row.labels, "grid_row", json_integer((json_int_t)p.j));
    }
    results_point_key(s->key, &p, row.key);
    enum status st = rows_add(out, &row, e);
    json_decref(row.labels);
    return st;
}

static enum status add_surface(const json_t *plan, struct rows *out, struct err *e)
{
    enum status st = OK;
    struct results_surface s = {0};
    json_t *name = json_object_get(plan, "name");
    TRY(take_surface(plan, &s, e));
    TRY(rows_add_part(out, json_string_value(name), plan, e));
    for (int64_t k = 0; k < results_surface_points(&s); k++) TRY(add_point(&s, k, name, out, e));
done:
    free(s.exact);
    return st;
}

/* Plans of earlier versions have no surfaces. */
static enum status add_rows(const struct axes *a, int64_t m, int64_t c, struct rows *out,
                            struct err *e)
{
    (void)m;
    (void)c;
    const json_t *list = json_object_get(a->plan, "surfaces");
    NEED(!list || json_is_array(list), ERR_FORMAT, "plan: \"surfaces\" is not a list");
    for (size_t i = 0; i < json_array_size(list); i++)
        PASS(add_surface(json_array_get(list, i), out, e));
    return OK;
}

static const char *const identity[] = {"surface", "point", NULL};

/* --- its setup --- */

static enum status setup_finish(void *setup, const struct option_scope *scope, struct err *e)
{
    return ((struct surface_setup *)setup)->n > 0
               ? OK
               : options_fail(scope, "parts", e, "the surface has no parts");
}

static const struct option setup_fields[] = {
    OPTION(surface_setup, surface, TEXT, "", .required = true),
    OPTION(surface_setup, plane, CHOICE, "", .required = true, .choices = surface_planes),
    OPTION(surface_setup, parts, LIST, "", OPTION_ENTRIES(surface_setup, n, &weights_table)),
    OPTION(surface_setup, margin, REAL, "", OPTION_ANY_REAL),
    OPTION(surface_setup, radius, REAL, "", OPTION_ANY_REAL),
    OPTION(surface_setup, point, TEXT, ""),
    OPTION(surface_setup, exact, INT, "", OPTION_ANY_INT),
    OPTION(surface_setup, x, REAL, "", OPTION_ANY_REAL),
    OPTION(surface_setup, y, REAL, "", OPTION_ANY_REAL),
};
static const struct option_table setup_table = {OPTION_ROWS(setup_fields, surface_setup),
                                                .finish = setup_finish};

/* --- cached surfaces --- */

struct surface {
    struct lru lru;     /* key: the settings that all points of the surface share */
    struct reads reads; /* what its parts are made from */
    int64_t n;
    struct checkpoint **parts; // (n) parts of the plane
    struct plane plane;
    struct err failure; /* why there is no plane */
};

static void drop(void *surface)
{
    struct surface *s = surface;
    if (!s) return;
    for (int64_t i = 0; i < s->n; i++) checkpoint_close(s->parts[i]);
    reads_close(&s->reads);
    free(s->parts);
    plane_free(&s->plane);
    free(s->lru.key);
    free(s);
}

static enum status make_plane(const struct part_context *context, struct surface *s, struct err *e)
{
    AUTO_FREE double *gram = NULL;
    struct part_context own = *context;
    const struct part_context *c = &own;
    own.provenance.reads = &s->reads;
    const struct surface_setup *t = c->visit->setup[MEASURE_point];
    log_trace("visit", "surface %s: its plane is made", t->surface);
    PASS(group_agree(c->group, mem_zero(&s->parts, t->n, sizeof *s->parts, "checkpoints", e), e));
    for (; s->n < t->n; s->n++) PASS(weights_open(&t->parts[s->n], c, &s->parts[s->n], e));
    if (t->plane != SURFACE_RANDOM) {
        PASS(mem_alloc(&gram, s->n * s->n, sizeof *gram, "Gram matrix", e));
        PASS(plane_gram((const struct checkpoint *const *)s->parts, s->n, gram, e));
    }
    PASS(t->plane == SURFACE_RANDOM       ? plane_of_directions(&s->plane, e)
         : t->plane == SURFACE_TRAJECTORY ? plane_principal(gram, s->n, &s->plane, e)
                                          : plane_of_three(gram, &s->plane, e));
    log_trace("visit", "surface %s: %lld parts", t->surface, (long long)s->n);
    return OK;
}

/* *key = the settings that all points of a surface share, calibration and tokenizer included. */
static enum status surface_key(const struct visit *v, char **key, struct err *e)
{
    json_auto_t *json = options_to_json(&setup_table, v->setup[MEASURE_point]);
    static const char *const of_point[] = {"point", "exact", "x", "y"};
    for (size_t i = 0; i < sizeof of_point / sizeof *of_point; i++)
        json_object_del(json, of_point[i]);
    json_object_set_new(json, "calibration", data_options_to_json(&v->calibration));
    if (v->tokenizer) json_object_set_new(json, "tokenizer", json_string(v->tokenizer));
    *key = json ? json_dump_whole(json, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    NEED(*key, ERR_NOMEM, "out of memory for a surface");
    return OK;
}

/* A process may alternate between points of several surfaces. */
enum { SURFACES_KEPT = 8 };

/* All ranks cache it, or none, so that the ranks of the next point agree on whether to make it. */
static enum status make_surface(const struct part_context *c, char **key, struct surface **out,
                                struct err *e)
{
    struct surface *s = NULL;
    enum status st = mem_zero(&s, 1, sizeof *s, "a surface", e);
    TRY(group_agree(c->group, st, e));
    pace_prepare(c->pace, true);
    st = group_agree(c->group, make_plane(c, s, e), e);
    pace_prepare(c->pace, false);
    /* These errors are cached: other points would fail too, after quantizing again. */
    if (st != ERR_NUMERIC && st != ERR_FORMAT && st != ERR_SHAPE) TRY(st);
    if (st != OK) s->failure = *e;
    s->lru.key = *key;
    s->lru.drop = drop;
    *key = NULL;
    lru_add(&c->cache->surfaces, &s->lru);
    *out = TAKE(s);
    lru_trim(&c->cache->surfaces, SURFACES_KEPT);
done:
    drop(s);
    return st;
}

static enum status get_surface(const struct part_context *c, struct surface **out, struct err *e)
{
    AUTO_FREE char *key = NULL;
    PASS(group_agree(c->group, surface_key(c->visit, &key, e), e));
    *out = lru_find(&c->cache->surfaces, key);
    /* Its files may have changed since. */
    if (*out && reads_finish(&(*out)->reads, c->group, NULL) != OK) {
        lru_trim(&c->cache->surfaces, 0);
        *out = NULL;
    }
    if (*out) {
        const struct err *failure = &(*out)->failure;
        NEED(failure->code == OK, failure->code, "%s", failure->text);
    } else {
        PASS(make_surface(c, &key, out, e));
    }
    return OK;
}

/* --- points --- */

static void inputs(const struct visit *v, char stamp[HASH_HEX])
{
    const struct surface_setup *t = v->setup[MEASURE_point];
    for (int64_t i = 0; i < t->n; i++) stamp_weights(stamp, &t->parts[i]);
    stamp_data(stamp, &v->calibration);
    for (int64_t i = 0; i < v->n_evaluations; i++) stamp_data(stamp, &v->evaluations[i]);
}

struct point {
    double a, b;        /* coordinates along e1, e2; random: multiples of the two directions */
    double alpha, beta; /* coefficients of the previous and the quantized weights; else NaN */
    double share[2];    /* of the checkpoints' variance along e1, e2; else NaN */
    json_t *datasets;   /* metrics of the one dataset */
};

/* Ends of the grid along axis k. */
static void bounds(const struct surface *s, const struct surface_setup *t, int k, double *low,
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

/* c (n) = the coefficients of the setup's point. An exact point is one part with coefficient 1. */
static void locate(const struct surface *s, const struct surface_setup *t, double *c,
                   struct point *place)
{
    *place = (struct point){.alpha = NAN, .beta = NAN};
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

/* Opens the weighted sum of the open parts. */
static enum status open_point(const struct part_context *c, const struct surface *s,
                              struct point *place, struct checkpoint **out, struct err *e)
{
    const struct surface_setup *t = c->visit->setup[MEASURE_point];
    /* shallow copies of the parts, with the point's coefficients */
    AUTO_FREE struct weights *terms = NULL;
    AUTO_FREE double *x = NULL;
    NEED(!t->point || (t->exact >= 0 && t->exact < s->n), ERR_FORMAT, "surface %s: no part %lld",
         t->surface, (long long)t->exact);
    PASS(mem_alloc(&x, s->n, sizeof *x, "coefficients", e));
    PASS(mem_alloc(&terms, s->n, sizeof *terms, "coefficients", e));
    locate(s, t, x, place);
    memcpy(terms, t->parts, (size_t)s->n * sizeof *terms);
    for (int64_t i = 0; i < s->n; i++) terms[i].coefficient = x[i];
    const struct weights point = {.kind = WEIGHTS_SUM, .n = s->n, .parts = terms};
    return weights_open_from(&point, c, s->parts, out, e);
}

static enum status run(struct part_context *c, struct err *e)
{
    struct point *p = c->state[MEASURE_point];
    struct surface *s;
    PASS(get_surface(c, &s, e));
    c->provenance.reads = &s->reads;
    PASS(group_agree(c->group, open_point(c, s, p, &c->checkpoint, e), e));
    c->provenance.weights_hash = checkpoint_hash(c->checkpoint);
    return c->engine->evaluate(c, c->checkpoint, &p->datasets, &c->provenance.memory_planned, e);
}

static enum status emit(struct part_context *c, const struct err *failure, struct err *e)
{
    const struct point *p = c->state[MEASURE_point];
    const struct surface_setup *t = c->visit->setup[MEASURE_point];
    struct provenance from = c->provenance;
    from.stamp = c->stamp[MEASURE_point];
    json_t *record = provenance_record(&from, "point", c->visit->key, failure);
    json_object_set_new(record, "surface", json_string(t->surface));
    json_object_set_new(record, "point", json_string(t->point ? t->point : ""));
    json_t *values = json_object_get(record, "values");
    record_number(values, "seconds", clock_seconds() - c->start);
    if (failure->code == OK) {
        record_number(values, "a", p->a);
        record_number(values, "b", p->b);
        record_number(values, "alpha", p->alpha);
        record_number(values, "beta", p->beta);
        record_number(values, "share_1", p->share[0]);
        record_number(values, "share_2", p->share[1]);
        const json_t *dataset = json_object_iter_value(json_object_iter(p->datasets));
        json_object_set(values, "loss", json_object_get(dataset, "loss"));
        json_object_set(values, "loss_stderr", json_object_get(dataset, "loss_stderr"));
    }
    return part_emit(c, record, e);
}

static void close_state(struct part_context *c)
{
    json_decref(((struct point *)c->state[MEASURE_point])->datasets);
}

static const struct option keys[] = {
    OPTION(surfaces_section, surfaces, LIST,
           "planes through weight space on which the loss is measured",
           .count = offsetof(struct surfaces_section, n), .otherwise = "none",
           .high = SWEEP_ENTRIES_MAX, .table = &surface_table),
};

const struct measure measure_point = {
    .name = "point",
    .section = {OPTION_ROWS(keys, surfaces_section)},
    .check = surfaces_check,
    .group = "surfaces",
    .fields = fields,
    .add_rows = add_rows,
    .identity = identity,
    .report = REPORT_PARTS,
    .prefix = "",
    .noun = "points",
    .part = "surface",
    .json = "surfaces",
    .plan = surfaces_plan,
    .visits = surfaces_visits,
    .plan_free = surfaces_free,
    .doing = "a point",
    .inputs = inputs,
    .setup = &setup_table,
    .state = sizeof(struct point),
    .run = run,
    .emit = emit,
    .close = close_state,
};
