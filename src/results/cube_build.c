/* Variables, rows and provenance: what the other parts of the cube are made with. */
#include "results/cube.h"
#include "util/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const cube_status_words[STATUS_N] = {
    [STATUS_PENDING] = "pending",
    [STATUS_DONE] = "done",
    [STATUS_FAILED] = "failed",
    [STATUS_NOT_APPLICABLE] = "not_applicable",
};

enum cube_status cube_status_of(const json_t *record)
{
    const char *word = json_text(record, "status", "");
    if (!record) return STATUS_PENDING;
    for (int i = 0; i < STATUS_N; i++)
        if (strcmp(word, cube_status_words[i]) == 0) return (enum cube_status)i;
    return STATUS_FAILED;
}

/* --- variables --- */

static const size_t element_size[] = {
    [CUBE_DOUBLE] = sizeof(double),
    [CUBE_INTEGER] = sizeof(int64_t),
    [CUBE_STATUS] = sizeof(uint8_t),
    [CUBE_TEXT] = sizeof(char *),
};

static void fill(struct cube_variable *x)
{
    for (int64_t i = 0; i < x->n; i++) {
        switch (x->type) {
        case CUBE_DOUBLE:
            x->data.d[i] = NAN;
            break;
        case CUBE_INTEGER:
            x->data.i[i] = -1;
            break;
        case CUBE_STATUS:
            x->data.s[i] = STATUS_NOT_APPLICABLE;
            break;
        case CUBE_TEXT:
            x->data.t[i] = "";
            break;
        }
    }
}

enum status cube_add(struct cube *c, const struct cube_variable *like, struct cube_variable **out,
                     struct err *e)
{
    enum status st = OK;
    struct cube_variable *x = NULL;
    TRY(mem_alloc(&x, 1, sizeof *x, "a variable", e));
    *x = *like;
    x->n = 1;
    x->data.any = NULL;
    for (int k = 0; k < x->rank; k++)
        ENSURE(!__builtin_mul_overflow(x->n, c->dims[x->dims[k]].n, &x->n), ERR_NOMEM,
               "%s: too many elements", x->name);
    TRY(mem_alloc(&x->data.any, x->n, element_size[x->type], x->name, e));
    fill(x);
    TRY(mem_grow(&c->variables, c->n, &c->capacity, sizeof *c->variables, e));
    *out = c->variables[c->n++] = x;
    x = NULL;
done:
    if (x) free(x->data.any);
    free(x);
    return st;
}

enum status cube_own(struct cube *c, char *text, struct err *e)
{
    enum status st = OK;
    TRY(mem_grow(&c->owned, c->n_owned, &c->owned_capacity, sizeof *c->owned, e));
    c->owned[c->n_owned++] = text;
    text = NULL;
done:
    free(text);
    return st;
}

enum status cube_json(struct cube *c, const json_t *value, const char **out, struct err *e)
{
    enum status st = OK;
    *out = "";
    if (!value) goto done;
    char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    ENSURE(text, ERR_NOMEM, "out of memory for a JSON text");
    TRY(cube_own(c, text, e));
    *out = text;
done:
    return st;
}

int64_t cube_place(const struct cube *c, const struct cube_variable *x, const struct cube_row *row)
{
    int64_t place = 0;
    for (int k = 0; k < x->rank; k++) {
        if (row->at[x->dims[k]] < 0) return -1;
        place = place * c->dims[x->dims[k]].n + row->at[x->dims[k]];
    }
    return place;
}

void cube_free(struct cube *c)
{
    for (int64_t i = 0; i < c->n; i++) {
        free(c->variables[i]->data.any);
        free(c->variables[i]);
    }
    for (int64_t i = 0; i < c->n_owned; i++) free(c->owned[i]);
    free(c->variables);
    free(c->owned);
    *c = (struct cube){0};
}

/* --- rows --- */

/* Puts one row a dataset. */
static void put_rows(struct cube_rows *r, const struct axes *a, struct cube_row row,
                     const struct results_view *v)
{
    row.cell = r->n_cells++;
    row.record = v ? results_view_find(v, row.key) : NULL;
    for (int64_t d = 0; d < a->n_datasets || d == 0; d++) {
        row.at[DIM_DATASET] = d < a->n_datasets ? d : -1;
        r->rows[r->n++] = row;
    }
}

static int64_t all_checkpoints(const struct axes *a)
{
    int64_t n = 0;
    for (int64_t m = 0; m < a->n_models; m++) n += a->models[m].n;
    return n;
}

enum status cube_rows_of_checkpoints(const struct axes *a, const struct results_view *v,
                                     struct cube_rows *out, struct err *e)
{
    enum status st = OK;
    int64_t datasets = a->n_datasets ? a->n_datasets : 1;
    *out = (struct cube_rows){0};
    TRY(mem_alloc(&out->rows, all_checkpoints(a) * datasets, sizeof *out->rows, "rows", e));
    for (int64_t m = 0; m < a->n_models; m++)
        for (int64_t c = 0; c < a->models[m].n; c++) {
            struct cube_row row = {.at = {m, c, -1, -1, -1}};
            snprintf(row.key, sizeof row.key, "%s", a->models[m].checkpoints[c].key);
            put_rows(out, a, row, v);
        }
done:
    return st;
}

enum status cube_rows_of_cells(const struct axes *a, const struct results_view *v,
                               struct cube_rows *out, struct err *e)
{
    enum status st = OK;
    int64_t datasets = a->n_datasets ? a->n_datasets : 1;
    *out = (struct cube_rows){0};
    TRY(mem_alloc(&out->rows, all_checkpoints(a) * a->n_variants * datasets, sizeof *out->rows,
                  "rows", e));
    for (int64_t m = 0; m < a->n_models; m++)
        for (int64_t c = 0; c < a->models[m].n; c++)
            for (int64_t i = 0; i < a->n_variants; i++) {
                const struct axis_variant *variant = &a->variants[i];
                struct cube_row row = {.at = {m, c, variant->bits_at, variant->quantizer_at, -1}};
                if (!variant->applicable) continue;
                results_cell_key(a->models[m].checkpoints[c].key, variant->key, row.key);
                put_rows(out, a, row, v);
            }
done:
    return st;
}

enum status cube_rows_of_curvature(const struct axes *a, const struct results_view *v,
                                   struct cube_rows *out, struct err *e)
{
    enum status st = OK;
    *out = (struct cube_rows){0};
    TRY(mem_alloc(&out->rows, all_checkpoints(a), sizeof *out->rows, "rows", e));
    for (int64_t m = 0; m < a->n_models; m++)
        for (int64_t c = 0; c < a->models[m].n; c++) {
            const char *key = a->models[m].checkpoints[c].curvature_key;
            struct cube_row row = {.at = {m, c, -1, -1, -1}, .cell = out->n};
            if (!key) continue;
            snprintf(row.key, sizeof row.key, "%s", key);
            row.record = v ? results_view_find(v, row.key) : NULL;
            out->rows[out->n++] = row;
        }
    out->n_cells = out->n;
done:
    return st;
}

/* --- provenance --- */

static enum status put_text(struct cube *c, const char *name, const char *long_name, bool volatile_,
                            const char *text, struct err *e)
{
    enum status st = OK;
    struct cube_variable *x;
    const struct cube_variable like = {.group = "provenance",
                                       .name = name,
                                       .type = CUBE_TEXT,
                                       .long_name = long_name,
                                       .volatile_ = volatile_};
    TRY(cube_add(c, &like, &x, e));
    x->data.t[0] = text;
done:
    return st;
}

static enum status put_json(struct cube *c, const char *name, const char *long_name, bool volatile_,
                            const json_t *value, struct err *e)
{
    enum status st = OK;
    const char *text;
    TRY(cube_json(c, value, &text, e));
    TRY(put_text(c, name, long_name, volatile_, text, e));
done:
    return st;
}

enum status cube_build_provenance(struct cube *c, const struct results_view *v, struct err *e)
{
    enum status st = OK;
    const json_t *plan = results_view_plan(v), *end = results_view_end(v);
    const json_t *config = json_object_get(plan, "config");
    TRY(put_text(c, "version", "version of qtraj", false, json_text(plan, "version", ""), e));
    TRY(put_text(c, "git", "commit of qtraj", false, json_text(plan, "git", ""), e));
    TRY(put_json(c, "libraries", "versions of libraries (JSON)", false,
                 json_object_get(plan, "libraries"), e));
    TRY(put_json(c, "config", "the resolved sweep (JSON)", false, config, e));
    TRY(put_json(c, "inputs", "digest of every input file by its path (JSON)", false,
                 json_object_get(plan, "inputs"), e));
    TRY(put_text(c, "host", "host of rank 0", true, json_text(plan, "host", ""), e));
    TRY(put_text(c, "command", "command of the first run of the plan", true,
                 json_text(plan, "command", ""), e));
    TRY(put_text(c, "utc_start", "start of the first run of the plan", true,
                 json_text(plan, "utc", ""), e));
    TRY(put_text(c, "utc_end", "end of the last run; empty while one goes on or when it was killed",
                 true, json_text(end, "utc", ""), e));
    TRY(put_json(c, "end", "how the last run ended (JSON)", true, end, e));
    TRY(put_json(c, "plan", "axes, keys and provenance as in the journal (JSON)", true, plan, e));
done:
    return st;
}

static enum status describe(struct cube *c, const json_t *plan, struct err *e)
{
    enum status st = OK;
    char *text;
    c->title = json_text(plan, "name", "");
    TRY(mem_format(&text, e, "qtraj %s, commit %s", json_text(plan, "version", "unknown"),
                   json_text(plan, "git", "unknown")));
    TRY(cube_own(c, text, e));
    c->source = text;
    TRY(mem_format(&text, e, "%s: made by %s", json_text(plan, "utc", ""), c->source));
    TRY(cube_own(c, text, e));
    c->history = text;
done:
    return st;
}

static void set_dims(struct cube *c, const struct axes *a, const struct cube_rows *checkpoints,
                     const struct cube_rows *cells, const struct cube_rows *curvature)
{
    c->dims[DIM_MODEL] = (struct cube_dim){"", "model", a->n_models};
    c->dims[DIM_CHECKPOINT] = (struct cube_dim){"", "checkpoint", a->n_checkpoints};
    c->dims[DIM_BITS] = (struct cube_dim){"", "bits", a->n_bits};
    c->dims[DIM_QUANTIZER] = (struct cube_dim){"", "quantizer", a->n_quantizers};
    c->dims[DIM_DATASET] = (struct cube_dim){"", "dataset", a->n_datasets};
    c->dims[DIM_CHECKPOINT_ROW] = (struct cube_dim){"checkpoints", "row", checkpoints->n};
    c->dims[DIM_CELL_ROW] = (struct cube_dim){"cells", "row", cells->n};
    c->dims[DIM_SEQUENCE] = (struct cube_dim){"sequences", "sequence", 0}; /* counted later */
    c->dims[DIM_CELL] = (struct cube_dim){"layers", "cell", cells->n_cells};
    c->dims[DIM_LAYER] = (struct cube_dim){"layers", "layer", 0}; /* counted later */
    c->dims[DIM_CURVATURE_ROW] = (struct cube_dim){"curvature", "row", curvature->n};
    for (int i = 0; i < RECORD_TABLES; i++)
        c->dims[DIM_TABLE + i] = (struct cube_dim){record_tables[i].group, "row", 0}; /* likewise */
    c->dims[DIM_POINT] = (struct cube_dim){"surfaces", "row", cube_n_points(a)};
}

enum status cube_build(const struct results_view *v, struct cube *out, struct err *e)
{
    enum status st = OK;
    struct axes a = {0};
    struct cube c = {0};
    struct cube_rows checkpoints = {0}, cells = {0}, curvature = {0};
    TRY(axes_of_plan(results_view_plan(v), &a, e));
    TRY(cube_rows_of_checkpoints(&a, v, &checkpoints, e));
    TRY(cube_rows_of_cells(&a, v, &cells, e));
    TRY(cube_rows_of_curvature(&a, v, &curvature, e));
    set_dims(&c, &a, &checkpoints, &cells, &curvature);
    TRY(describe(&c, results_view_plan(v), e));
    TRY(cube_build_grid(&c, &a, &checkpoints, &cells, &curvature, e));
    TRY(cube_build_frames(&c, &a, &checkpoints, &cells, &curvature, e));
    TRY(cube_build_layers(&c, &a, &cells, e));
    TRY(cube_build_tables(&c, &a, &curvature, e));
    TRY(cube_build_surfaces(&c, &a, v, e));
    TRY(cube_build_provenance(&c, v, e));
    *out = c;
    c = (struct cube){0};
done:
    free(checkpoints.rows);
    free(cells.rows);
    free(curvature.rows);
    cube_free(&c);
    axes_free(&a);
    return st;
}
