#include "cube/cube_build.h"
#include "records/steps_table.h"
#include "util/mem.h"

/* --- data frames, one per kind: a row per record (and label of its inner axis) --- */

static enum status add_number(struct cube *c, const struct rows *r, int dim, struct err *e)
{
    struct cube_variable *x;
    PASS(cube_add_count(c, dim, "number of the row", e));
    if (!r->kind->inner) return OK;
    PASS(cube_add_column(c, r->kind->group, dim, r->kind->number, FIELD_INTEGER,
                         r->kind->number_long_name, &x, e));
    for (int64_t i = 0; i < x->n; i++) x->data.i[i] = r->rows[i].number;
    return OK;
}

/* --- from the grid --- */

/* Adds grid variables and axis labels as columns. */
static enum status add_gathered(struct cube *c, const struct rows *r, int dim, struct err *e)
{
    for (int64_t k = 0, n = c->n; k < n; k++) {
        const struct cube_variable *from = c->variables[k];
        struct cube_variable like = *from, *x;
        const bool wanted = !from->of || from->of == r->kind || r->kind->whole_grid;
        if (from->group[0] || !wanted || !cube_is_along(from, r->kind)) continue;
        like.group = r->kind->group;
        like.rank = 1;
        like.dims[0] = dim;
        like.coordinates = NULL;
        if (from->is_scale) like.long_name = "label on the axis of that name";
        like.is_scale = false;
        like.of = NULL;
        like.field = NULL;
        like.from = from;
        PASS(cube_add(c, &like, &x, e));
    }
    return OK;
}

static enum status add_frames(struct cube *c, struct err *e)
{
    struct cube_variable *x;
    int sequences;
    for (int k = 0; recorded_measures[k]; k++) {
        const struct rows *r = &c->all.rows[k];
        int dim;
        if (!measure_is_there(r->kind, &c->all.axes)) continue;
        PASS(cube_add_dim(c, r->kind->group, "row", r->n, &dim, e));
        PASS(add_number(c, r, dim, e));
        PASS(add_gathered(c, r, dim, e));
        for (const struct field *f = r->kind->fields; f->name; f++) {
            if (measure_on_grid(r->kind, f)) continue;
            PASS(cube_add_field(c, f, r->kind->group, 1, &dim, &x, e));
            x->of = r->kind;
        }
        if (!r->kind->sequences) continue;
        PASS(cube_add_column(c, r->kind->group, dim, "sequence_start", FIELD_INTEGER,
                             "place of the row's first sequence in sequences/loss", &x, e));
        PASS(cube_add_column(c, r->kind->group, dim, "sequence_count", FIELD_INTEGER,
                             "the row's number of sequences in sequences/loss", &x, e));
    }
    PASS(cube_add_dim(c, "sequences", "sequence", 0, &sequences, e));
    PASS(cube_add_column(
        c, "sequences", sequences, "loss", FIELD_REAL,
        "cross-entropy per token of each sequence, rows of checkpoints/, then cells/", &x, e));
    x->may_miss = true;
    x->units = "nat";
    return OK;
}

/* --- training curves, of models that `qtraj train` has made --- */

static const char curves[] = "training_curves";

static enum status add_training(struct cube *c, struct err *e)
{
    size_t i, k;
    const json_t *model, *value, *models = json_object_get(c->all.axes.plan, "models");
    struct cube_variable *names, *x;
    bool any = false;
    int64_t n = 0, at;
    int dim;
    json_array_foreach(models, i, model) {
        const json_t *curve = json_object_get(model, "training");
        any = any || curve;
        n += (int64_t)json_array_size(json_object_get(curve, steps_curve_columns[0].name));
    }
    if (!any) return OK;
    PASS(cube_add_dim(c, curves, "row", n, &dim, e));
    PASS(cube_add_count(c, dim, "number of the row", e));
    PASS(cube_add_column(c, curves, dim, "model", FIELD_TEXT, "name of the model", &names, e));
    for (const struct field *f = steps_curve_columns; f->name; f++) {
        PASS(cube_add_field(c, f, curves, 1, &dim, &x, e));
        at = 0;
        json_array_foreach(models, i, model) {
            const json_t *curve = json_object_get(model, "training");
            json_array_foreach(json_object_get(curve, f->name), k, value) {
                if (at == n) break;
                cube_put(names, at, json_object_get(model, "name"));
                cube_put(x, at++, value);
            }
        }
    }
    return OK;
}

/* --- all of it --- */

static const struct provenance {
    const char *name, *long_name;
    bool of_end, json, volatile_;
    const char *key; /* in the plan or end record; NULL: all of it */
} provenance[] = {
    {"version", "version of qtraj", false, false, false, "version"},
    {"git", "commit of qtraj", false, false, false, "git"},
    {"libraries", "versions of libraries (JSON)", false, true, false, "libraries"},
    {"config", "the resolved sweep (JSON)", false, true, false, "config"},
    {"inputs", "digest of every input file by its path (JSON)", false, true, false, "inputs"},
    {"host", "host of rank 0", false, false, true, "host"},
    {"command", "command of the first run of the plan", false, false, true, "command"},
    {"utc_start", "start of the first run of the plan", false, false, true, "utc"},
    {"utc_end", "end of the last run; empty while one goes on or when it was killed", true, false,
     true, "utc"},
    {"end", "how the last run ended (JSON)", true, true, true, NULL},
    {"plan", "axes, keys and provenance as in the journal (JSON)", false, true, true, NULL},
};

enum status cube_build(const struct results_view *v, struct cube *out, struct err *e)
{
    const json_t *plan = v->plan;
    char *text;
    *out = (struct cube){.title = json_text(plan, "name", "")};
    PASS(inventory_open(plan, v, &out->all, e));
    PASS(mem_format(&text, e, "qtraj %s, commit %s", json_text(plan, "version", "unknown"),
                    json_text(plan, "git", "unknown")));
    PASS(cube_own(out, text, e));
    out->source = text;
    PASS(mem_format(&text, e, "%s: made by %s", json_text(plan, "utc", ""), out->source));
    PASS(cube_own(out, text, e));
    out->history = text;
    PASS(cube_add_grid(out, e));
    PASS(add_frames(out, e));
    PASS(cube_add_lists(out, e));
    PASS(add_training(out, e));
    struct cube_variable *x;
    for (size_t i = 0; i < sizeof provenance / sizeof *provenance; i++) {
        const struct provenance *p = &provenance[i];
        const json_t *value = p->of_end ? v->end : v->plan;
        if (p->key) value = json_object_get(value, p->key);
        PASS(cube_add_column(out, "provenance", -1, p->name, FIELD_TEXT, p->long_name, &x, e));
        x->volatile_ = p->volatile_;
        if (p->json)
            PASS(cube_json(out, value, &x->data.t[0], e));
        else
            cube_put(x, 0, value);
    }
    PASS(cube_fill(out, v, e));
    return OK;
}
