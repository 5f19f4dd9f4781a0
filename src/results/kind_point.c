/* The loss at one point of a loss surface: a data frame, not on the grid. */
#include "results/kind.h"
#include "util/mem.h"
#include <stdlib.h>

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

/* --- points --- */

int64_t results_surface_points(const struct results_surface *s)
{
    return s->n_exact + s->columns * s->rows;
}

struct results_point results_surface_point(const struct results_surface *s, int64_t k)
{
    struct results_point p = {.columns = s->columns, .rows = s->rows};
    if (k < s->n_exact) {
        p.label = s->exact[k];
    } else {
        p.i = (k - s->n_exact) % s->columns;
        p.j = (k - s->n_exact) / s->columns;
    }
    return p;
}

void results_point_place(const struct results_point *p, double *x, double *y)
{
    *x = p->columns > 1 ? (double)p->i / (double)(p->columns - 1) : 0;
    *y = p->rows > 1 ? (double)p->j / (double)(p->rows - 1) : 0;
}

void results_point_key(const char *surface_key, const struct results_point *p, char out[HASH_HEX])
{
    char text[6 + 2 * HASH_HEX] = "point ", place[64];
    double x, y;
    results_point_place(p, &x, &y);
    snprintf(place, sizeof place, "/grid %.17g %.17g", x, y); /* labels do not begin with a slash */
    hash_text(surface_key, text + 6);
    hash_text(p->label ? p->label : place, text + 6 + HASH_HEX - 1);
    hash_text(text, out);
}

/* --- surfaces of a plan record --- */

enum { SIDE_MAX = 10000 };

/* s->exact is freed by the caller. */
static enum status take_surface(const json_t *plan, struct results_surface *s, struct err *e)
{
    const char *name = json_text(plan, "name", NULL), *key = json_text(plan, "key", NULL);
    const json_t *exact = json_object_get(plan, "exact");
    NEED(name && key, ERR_FORMAT, "plan: a surface has no \"name\" or no \"key\"");
    NEED(json_is_array(exact), ERR_FORMAT, "plan: surface %s: \"exact\" is not a list", name);
    s->key = key;
    s->columns = json_integer_value(json_object_get(plan, "columns"));
    s->rows = json_integer_value(json_object_get(plan, "rows"));
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

const struct kind kind_point = {
    .name = "point",
    .group = "surfaces",
    .fields = fields,
    .add_rows = add_rows,
    .identity = identity,
    .report = REPORT_PARTS,
    .prefix = "",
    .noun = "points",
    .part = "surface",
    .json = "surfaces",
};
