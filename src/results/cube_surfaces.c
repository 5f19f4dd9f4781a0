/* surfaces/: the points of all loss surfaces as a frame of flat columns, and back. */
#include "results/h5.h"
#include "results/view.h"
#include "util/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One point of the plan, in the order of the rows. */
struct point {
    const struct axis_surface *surface;
    struct results_point place;
    char key[HASH_HEX];
};

static int64_t n_exact(const struct axis_surface *s)
{
    return (int64_t)json_array_size(s->exact);
}

static int64_t n_points(const struct axis_surface *s)
{
    return n_exact(s) + s->columns * s->rows;
}

int64_t cube_n_points(const struct axes *a)
{
    int64_t n = 0;
    for (int64_t i = 0; i < a->n_surfaces; i++) n += n_points(&a->surfaces[i]);
    return n;
}

/* The k-th point of a surface. */
static enum status point_at(const struct axis_surface *s, int64_t k, struct point *p, struct err *e)
{
    enum status st = OK;
    int64_t exact = n_exact(s);
    *p = (struct point){.surface = s, .place = {.columns = s->columns, .rows = s->rows}};
    if (k < exact) {
        p->place.label = json_string_value(json_array_get(s->exact, (size_t)k));
        ENSURE(p->place.label, ERR_FORMAT, "plan: surface %s: a point is no text", s->name);
    } else {
        p->place.i = (k - exact) % s->columns;
        p->place.j = (k - exact) / s->columns;
    }
    results_point_key(s->key, &p->place, p->key);
done:
    return st;
}

/* *out (cube_n_points) is freed by the caller. */
static enum status list_points(const struct axes *a, struct point **out, struct err *e)
{
    enum status st = OK;
    struct point *p;
    TRY(mem_zero(&p, cube_n_points(a), sizeof *p, "points", e));
    *out = p;
    for (int64_t i = 0; i < a->n_surfaces; i++)
        for (int64_t k = 0; k < n_points(&a->surfaces[i]); k++)
            TRY(point_at(&a->surfaces[i], k, p++, e));
done:
    return st;
}

enum status cube_surface_state(const struct axis_surface *s, const struct results_view *v,
                               int64_t by_status[STATUS_N], const char **message, struct err *e)
{
    enum status st = OK;
    memset(by_status, 0, STATUS_N * sizeof *by_status);
    *message = NULL;
    for (int64_t k = 0; k < n_points(s); k++) {
        struct point p;
        TRY(point_at(s, k, &p, e));
        const json_t *record = results_view_find(v, p.key);
        enum cube_status state = cube_status_of(record);
        by_status[state]++;
        if (state == STATUS_FAILED && !*message) *message = json_text(record, "message", "");
    }
done:
    return st;
}

/* --- columns --- */

/* What says which point it is; NULL behind the last. */
static const struct label_column {
    const char *name;
    enum cube_type type;
    const char *long_name;
} labels[] = {
    {"surface", CUBE_TEXT, "name of the surface"},
    {"plane", CUBE_TEXT, "quantization, trajectory or random"},
    {"model", CUBE_TEXT, "trajectory"},
    {"checkpoint_name", CUBE_TEXT,
     "checkpoint at the plane's origin; of a trajectory's plane none"},
    {"bits", CUBE_INTEGER, "width of the quantized weights"},
    {"quantizer", CUBE_TEXT, "method of the quantized weights"},
    {"dataset", CUBE_TEXT, "evaluation text"},
    {"point", CUBE_TEXT, "an exact point: a checkpoint's name, or quantized; empty on the grid"},
    {"column", CUBE_INTEGER, "place on the grid along the first axis"},
    {"grid_row", CUBE_INTEGER, "place on the grid along the second axis"},
    {"key", CUBE_TEXT, "digest of settings and inputs"},
};
enum { LABELS = sizeof labels / sizeof *labels };

static void put_label(int which, const struct point *p, union cube_data data, int64_t i)
{
    const struct axis_surface *s = p->surface;
    const char *const texts[LABELS] = {
        s->name, s->plane,     s->model,   s->checkpoint,
        NULL,    s->quantizer, s->dataset, p->place.label ? p->place.label : "",
        NULL,    NULL,         NULL};
    if (texts[which])
        data.t[i] = texts[which];
    else if (strcmp(labels[which].name, "bits") == 0)
        data.i[i] = s->bits;
    else if (!p->place.label)
        data.i[i] = strcmp(labels[which].name, "column") == 0 ? p->place.i : p->place.j;
}

static enum status add(struct cube *c, const char *name, enum cube_type type, const char *long_name,
                       struct cube_variable **out, struct err *e)
{
    const struct cube_variable like = {.group = "surfaces",
                                       .name = name,
                                       .type = type,
                                       .rank = 1,
                                       .dims = {DIM_POINT},
                                       .units = type == CUBE_INTEGER ? "1" : NULL,
                                       .may_miss = type == CUBE_INTEGER || type == CUBE_DOUBLE,
                                       .long_name = long_name};
    return cube_add(c, &like, out, e);
}

static enum status add_labels(struct cube *c, const struct point *points, struct err *e)
{
    enum status st = OK;
    struct cube_variable *x;
    int64_t n = c->dims[DIM_POINT].n;
    TRY(add(c, "row", CUBE_INTEGER, "number of the row", &x, e));
    x->is_scale = true;
    x->may_miss = false;
    for (int64_t i = 0; i < n; i++) x->data.i[i] = i;
    for (int k = 0; k < LABELS; k++) {
        TRY(add(c, labels[k].name, labels[k].type, labels[k].long_name, &x, e));
        bool is_key = strcmp(labels[k].name, "key") == 0;
        for (int64_t i = 0; i < n; i++) {
            if (!is_key) {
                put_label(k, &points[i], x->data, i);
                continue;
            }
            char *key;
            TRY(mem_string(&key, points[i].key, e));
            TRY(cube_own(c, key, e));
            x->data.t[i] = key;
        }
    }
done:
    return st;
}

static enum status add_state(struct cube *c, const json_t *const *records, struct err *e)
{
    enum status st = OK;
    struct cube_variable *status, *message, *fingerprint, *provenance;
    TRY(add(c, "status", CUBE_STATUS, "how far the point is", &status, e));
    TRY(add(c, "message", CUBE_TEXT, "why it failed", &message, e));
    TRY(add(c, "fingerprint", CUBE_TEXT, "what the last bits may depend on", &fingerprint, e));
    TRY(add(c, "provenance", CUBE_TEXT, "host, times and paths (JSON)", &provenance, e));
    provenance->volatile_ = true;
    for (int64_t i = 0; i < status->n; i++) {
        status->data.s[i] = (uint8_t)cube_status_of(records[i]);
        message->data.t[i] = json_text(records[i], "message", "");
        fingerprint->data.t[i] = json_text(records[i], "fingerprint", "");
        TRY(cube_json(c, json_object_get(records[i], "provenance"), &provenance->data.t[i], e));
    }
done:
    return st;
}

static enum status add_field(struct cube *c, const struct record_field *f,
                             const json_t *const *records, struct err *e)
{
    enum status st = OK;
    struct cube_variable *x;
    TRY(add(c, f->variable, CUBE_DOUBLE, f->long_name, &x, e));
    x->units = f->units;
    x->volatile_ = f->volatile_;
    for (int64_t i = 0; i < x->n; i++) {
        const json_t *values = json_object_get(records[i], "values");
        const json_t *value = json_object_get(values, f->name);
        if (value) x->data.d[i] = json_number_get(value);
    }
done:
    return st;
}

enum status cube_build_surfaces(struct cube *c, const struct axes *a, const struct results_view *v,
                                struct err *e)
{
    enum status st = OK;
    struct point *points = NULL;
    const json_t **records = NULL;
    const struct record_field *f;
    int64_t n = c->dims[DIM_POINT].n;
    TRY(list_points(a, &points, e));
    TRY(mem_zero(&records, n, sizeof *records, "points", e));
    for (int64_t i = 0; i < n; i++) records[i] = results_view_find(v, points[i].key);
    TRY(add_labels(c, points, e));
    TRY(add_state(c, records, e));
    for (int i = 0; (f = record_field_at(i)); i++)
        if (f->scope == SCOPE_POINT) TRY(add_field(c, f, records, e));
done:
    free(points);
    free(records);
    return st;
}

/* --- back --- */

enum { POINT_FIELDS = 16 };

struct columns {
    int64_t n;
    union cube_data status, message, fingerprint, provenance, fields[POINT_FIELDS];
};

static enum status read_columns(hid_t file, const char *name, struct columns *r, struct err *e)
{
    enum status st = OK;
    const struct record_field *f;
    char path[80];
    int k = 0;
    TRY(h5_read(file, name, "surfaces/status", CUBE_STATUS, r->n, &r->status, e));
    TRY(h5_read(file, name, "surfaces/message", CUBE_TEXT, r->n, &r->message, e));
    TRY(h5_read(file, name, "surfaces/fingerprint", CUBE_TEXT, r->n, &r->fingerprint, e));
    TRY(h5_read(file, name, "surfaces/provenance", CUBE_TEXT, r->n, &r->provenance, e));
    for (int i = 0; (f = record_field_at(i)); i++) {
        if (f->scope != SCOPE_POINT || k == POINT_FIELDS) continue;
        snprintf(path, sizeof path, "surfaces/%s", f->variable);
        TRY(h5_read(file, name, path, CUBE_DOUBLE, r->n, &r->fields[k++], e));
    }
done:
    return st;
}

static void columns_free(struct columns *r)
{
    h5_free_data(&r->status, CUBE_STATUS, r->n);
    h5_free_data(&r->message, CUBE_TEXT, r->n);
    h5_free_data(&r->fingerprint, CUBE_TEXT, r->n);
    h5_free_data(&r->provenance, CUBE_TEXT, r->n);
    for (int k = 0; k < POINT_FIELDS; k++) h5_free_data(&r->fields[k], CUBE_DOUBLE, r->n);
}

static const char *text_at(union cube_data data, int64_t i)
{
    return data.t[i] ? data.t[i] : "";
}

static enum status add_record(const char *name, const struct columns *r, const struct point *p,
                              int64_t i, struct results_view *v, struct err *e)
{
    enum status st = OK;
    json_t *record = NULL, *values = json_object(), *provenance = NULL;
    const struct record_field *f;
    const char *text = text_at(r->provenance, i);
    int k = 0;
    ENSURE(r->status.s[i] < STATUS_N, ERR_FORMAT, "%s: surfaces/status: row %lld holds %d", name,
           (long long)i, r->status.s[i]);
    if (text[0]) TRY(json_read_text(name, text, strlen(text), &provenance, e));
    for (int j = 0; (f = record_field_at(j)); j++) {
        if (f->scope != SCOPE_POINT || k == POINT_FIELDS) continue;
        double value = r->fields[k++].d[i];
        if (!isnan(value)) json_object_set_new(values, f->name, json_number_new(value));
    }
    record =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:O, s:O*}", "type", "point", "key", p->key,
                  "fingerprint", text_at(r->fingerprint, i), "surface", p->surface->name, "point",
                  p->place.label ? p->place.label : "", "status", cube_status_words[r->status.s[i]],
                  "message", text_at(r->message, i), "values", values, "provenance", provenance);
    ENSURE(record, ERR_FORMAT, "%s: surfaces: row %lld does not make a record", name, (long long)i);
    TRY(view_add(v, record, e));
done:
    json_decref(record);
    json_decref(values);
    json_decref(provenance);
    return st;
}

enum status cube_read_surfaces(hid_t file, const char *name, const struct axes *a,
                               struct results_view *v, struct err *e)
{
    enum status st = OK;
    struct columns r = {.n = cube_n_points(a)};
    struct point *points = NULL;
    if (r.n == 0) return OK;
    TRY(list_points(a, &points, e));
    TRY(read_columns(file, name, &r, e));
    for (int64_t i = 0; i < r.n; i++)
        if (r.status.s[i] != STATUS_PENDING) TRY(add_record(name, &r, &points[i], i, v, e));
done:
    columns_free(&r);
    free(points);
    return st;
}
