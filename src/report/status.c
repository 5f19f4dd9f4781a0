/* How far a sweep is, and why cells or curvature failed. */
#include "report/text_table.h"
#include "results/cube.h"
#include "util/mem.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct counts {
    int64_t checkpoints, cells, by_status[STATUS_N];
    int64_t curvature[STATUS_N]; /* of checkpoints; not applicable: not asked for */
};

struct report {
    const struct results_view *view;
    struct axes axes;
    struct counts *models; // (n_models)
    struct counts total;
    FILE *out;
};

static const json_t *cell_record(const struct report *r, const struct axis_checkpoint *c,
                                 const struct axis_variant *v)
{
    char key[HASH_HEX];
    results_cell_key(c->key, v->key, key);
    return results_view_find(r->view, key);
}

static const json_t *curvature_record(const struct report *r, const struct axis_checkpoint *c)
{
    return c->curvature_key ? results_view_find(r->view, c->curvature_key) : NULL;
}

static void add(struct counts *to, const struct counts *from)
{
    to->checkpoints += from->checkpoints;
    to->cells += from->cells;
    for (int k = 0; k < STATUS_N; k++) {
        to->by_status[k] += from->by_status[k];
        to->curvature[k] += from->curvature[k];
    }
}

static enum status count(struct report *r, struct err *e)
{
    enum status st = OK;
    TRY(mem_zero(&r->models, r->axes.n_models, sizeof *r->models, "counts", e));
    for (int64_t m = 0; m < r->axes.n_models; m++) {
        const struct axis_model *model = &r->axes.models[m];
        struct counts *n = &r->models[m];
        n->checkpoints = model->n;
        for (int64_t c = 0; c < model->n; c++) {
            const struct axis_checkpoint *checkpoint = &model->checkpoints[c];
            for (int64_t i = 0; i < r->axes.n_variants; i++) {
                const struct axis_variant *v = &r->axes.variants[i];
                enum cube_status state = v->applicable
                                             ? cube_status_of(cell_record(r, checkpoint, v))
                                             : STATUS_NOT_APPLICABLE;
                n->by_status[state]++;
                n->cells += state != STATUS_NOT_APPLICABLE;
            }
            n->curvature[checkpoint->curvature_key ? cube_status_of(curvature_record(r, checkpoint))
                                                   : STATUS_NOT_APPLICABLE]++;
        }
        add(&r->total, n);
    }
done:
    return st;
}

/* --- text --- */

static enum status put_counts(struct table *t, const char *name, const struct counts *n,
                              struct err *e)
{
    enum status st = OK;
    const int64_t numbers[] = {n->checkpoints,
                               n->cells,
                               n->by_status[STATUS_DONE],
                               n->by_status[STATUS_FAILED],
                               n->by_status[STATUS_PENDING],
                               n->by_status[STATUS_NOT_APPLICABLE]};
    TRY(table_add_row(t, e));
    TRY(table_set(t, 0, e, "%s", name));
    for (int k = 0; k < 6; k++) TRY(table_set(t, k + 1, e, "%lld", (long long)numbers[k]));
done:
    return st;
}

static enum status print_counts(const struct report *r, struct err *e)
{
    enum status st = OK;
    static const char *const heads[] = {"model",  "checkpoints", "cells",         "done",
                                        "failed", "pending",     "not applicable"};
    struct table t = {0};
    TRY(table_init(&t, 7, 7, e));
    t.align_left[0] = true;
    TRY(table_add_row(&t, e));
    for (int k = 0; k < 7; k++) TRY(table_set(&t, k, e, "%s", heads[k]));
    for (int64_t m = 0; m < r->axes.n_models; m++)
        TRY(put_counts(&t, r->axes.models[m].name, &r->models[m], e));
    if (r->axes.n_models != 1) TRY(put_counts(&t, "all", &r->total, e));
    TRY(table_print(&t, table_page_width(r->out), r->out, e));
done:
    table_free(&t);
    return st;
}

static void print_one_line(const char *text, FILE *out)
{
    for (; *text; text++) putc((unsigned char)*text < ' ' ? ' ' : *text, out);
}

/* Of that status and with that message, NULL: with any. A record that is done has one when a part
 * of it could not be found. */
static bool says(const json_t *record, enum cube_status status, const char *message)
{
    const char *own = json_text(record, "message", "");
    if (cube_status_of(record) != status) return false;
    return message ? strcmp(own, message) == 0 : status == STATUS_FAILED || own[0];
}

static bool curvature_asked_for(const struct report *r)
{
    return r->total.curvature[STATUS_NOT_APPLICABLE] < r->total.checkpoints;
}

static void print_curvature(const struct report *r)
{
    const int64_t *n = r->total.curvature;
    if (curvature_asked_for(r))
        fprintf(r->out, "curvature of checkpoints: %lld done, %lld failed, %lld pending\n",
                (long long)n[STATUS_DONE], (long long)n[STATUS_FAILED],
                (long long)n[STATUS_PENDING]);
}

/* One line a message: the checkpoint, the cells that have it, and the message. */
static void print_message(const struct report *r, const char *model,
                          const struct axis_checkpoint *c, enum cube_status status,
                          const char *message)
{
    int64_t n = 0;
    fprintf(r->out, "  %s %s", model, c->name);
    for (int64_t i = 0; i < r->axes.n_variants; i++) {
        const struct axis_variant *v = &r->axes.variants[i];
        if (!v->applicable || !says(cell_record(r, c, v), status, message)) continue;
        fprintf(r->out, "%s%s %lld", n++ ? ", " : " (", r->axes.quantizers[v->quantizer_at],
                (long long)r->axes.bits[v->bits_at]);
    }
    if (says(curvature_record(r, c), status, message))
        fprintf(r->out, "%scurvature", n++ ? ", " : " (");
    fprintf(r->out, "%s: ", n ? ")" : "");
    print_one_line(message, r->out);
    putc('\n', r->out);
}

/* The i-th of a checkpoint's records: its own, those of its cells, and that of its curvature. */
static const json_t *record_at(const struct report *r, const struct axis_checkpoint *c, int64_t i)
{
    if (i == 0) return results_view_find(r->view, c->key);
    if (i > r->axes.n_variants) return curvature_record(r, c);
    const struct axis_variant *v = &r->axes.variants[i - 1];
    return v->applicable ? cell_record(r, c, v) : NULL;
}

static void print_checkpoint(const struct report *r, const char *model,
                             const struct axis_checkpoint *c, enum cube_status status,
                             const char *head, bool *any)
{
    for (int64_t i = 0; i <= r->axes.n_variants + 1; i++) {
        const json_t *record = record_at(r, c, i);
        bool said = false;
        if (!says(record, status, NULL)) continue;
        const char *message = json_text(record, "message", "");
        for (int64_t k = 0; k < i && !said; k++) said = says(record_at(r, c, k), status, message);
        if (said) continue;
        if (!*any) fprintf(r->out, "%s:\n", head);
        *any = true;
        print_message(r, model, c, status, message);
    }
}

static void print_messages(const struct report *r, enum cube_status status, const char *head)
{
    bool any = false;
    for (int64_t m = 0; m < r->axes.n_models; m++)
        for (int64_t c = 0; c < r->axes.models[m].n; c++)
            print_checkpoint(r, r->axes.models[m].name, &r->axes.models[m].checkpoints[c], status,
                             head, &any);
}

/* A line a surface, and why the first of its failed points did. */
static enum status print_surfaces(const struct report *r, struct err *e)
{
    enum status st = OK;
    for (int64_t i = 0; i < r->axes.n_surfaces; i++) {
        const char *message;
        int64_t n[STATUS_N];
        TRY(cube_surface_state(&r->axes.surfaces[i], r->view, n, &message, e));
        fprintf(r->out, "surface %s: %lld points done, %lld failed, %lld pending\n",
                r->axes.surfaces[i].name, (long long)n[STATUS_DONE], (long long)n[STATUS_FAILED],
                (long long)n[STATUS_PENDING]);
        if (!message) continue;
        fprintf(r->out, "  failed: ");
        print_one_line(message, r->out);
        putc('\n', r->out);
    }
done:
    return st;
}

static enum status surfaces_json(const struct report *r, json_t **out, struct err *e)
{
    enum status st = OK;
    json_t *list = json_array();
    for (int64_t i = 0; i < r->axes.n_surfaces; i++) {
        const char *message;
        int64_t n[STATUS_N];
        TRY(cube_surface_state(&r->axes.surfaces[i], r->view, n, &message, e));
        json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:I, s:s*}", "surface",
                                              r->axes.surfaces[i].name, "done",
                                              (json_int_t)n[STATUS_DONE], "failed",
                                              (json_int_t)n[STATUS_FAILED], "pending",
                                              (json_int_t)n[STATUS_PENDING], "message", message));
    }
    *out = list;
    list = NULL;
done:
    json_decref(list);
    return st;
}

static void print_end(const struct report *r)
{
    const json_t *end = results_view_end(r->view);
    if (!end) {
        fprintf(r->out, "no end recorded: a run is going on, or was killed (start it again to go "
                        "on)\n");
        return;
    }
    fprintf(r->out, "last run: %s at %s, exit code %lld\n", json_text(end, "status", "?"),
            json_text(end, "utc", "?"),
            (long long)json_integer_value(json_object_get(end, "exit_code")));
}

static enum status print_text(const struct report *r, struct err *e)
{
    enum status st = OK;
    const json_t *plan = results_view_plan(r->view);
    fprintf(r->out, "%s, planned %s on %s by qtraj %s\n\n", json_text(plan, "name", ""),
            json_text(plan, "utc", ""), json_text(plan, "host", ""),
            json_text(plan, "version", ""));
    TRY(print_counts(r, e));
    print_curvature(r);
    TRY(print_surfaces(r, e));
    putc('\n', r->out);
    print_messages(r, STATUS_FAILED, "failed");
    print_messages(r, STATUS_DONE, "done, but in part");
    print_end(r);
done:
    return st;
}

/* --- JSON --- */

static json_t *counts_json(const char *name, const struct counts *n)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "model", name, "checkpoints",
                     (json_int_t)n->checkpoints, "cells", (json_int_t)n->cells, "done",
                     (json_int_t)n->by_status[STATUS_DONE], "failed",
                     (json_int_t)n->by_status[STATUS_FAILED], "pending",
                     (json_int_t)n->by_status[STATUS_PENDING], "not_applicable",
                     (json_int_t)n->by_status[STATUS_NOT_APPLICABLE]);
}

/* One object a record of that status that says something; those of checkpoints have no bits and
 * quantizer, those of their curvature say so. */
static json_t *messages_json(const struct report *r, enum cube_status status)
{
    json_t *list = json_array();
    for (int64_t m = 0; m < r->axes.n_models; m++)
        for (int64_t c = 0; c < r->axes.models[m].n; c++)
            for (int64_t i = 0; i <= r->axes.n_variants + 1; i++) {
                const struct axis_checkpoint *at = &r->axes.models[m].checkpoints[c];
                const json_t *record = record_at(r, at, i);
                if (!says(record, status, NULL)) continue;
                json_t *one =
                    json_pack("{s:s, s:s, s:s}", "model", r->axes.models[m].name, "checkpoint",
                              at->name, "message", json_text(record, "message", ""));
                if (i > r->axes.n_variants) {
                    json_object_set_new(one, "curvature", json_true());
                } else if (i > 0) {
                    const struct axis_variant *v = &r->axes.variants[i - 1];
                    json_object_set_new(one, "bits",
                                        json_integer((json_int_t)r->axes.bits[v->bits_at]));
                    json_object_set_new(one, "quantizer",
                                        json_string(r->axes.quantizers[v->quantizer_at]));
                }
                json_array_append_new(list, one);
            }
    return list;
}

static enum status print_json(const struct report *r, struct err *e)
{
    enum status st = OK;
    const json_t *plan = results_view_plan(r->view);
    json_t *models = json_array();
    for (int64_t m = 0; m < r->axes.n_models; m++)
        json_array_append_new(models, counts_json(r->axes.models[m].name, &r->models[m]));
    json_t *all = json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:O?}", "name", json_text(plan, "name", ""), "version",
        json_text(plan, "version", ""), "utc", json_text(plan, "utc", ""), "models", models, "all",
        counts_json("all", &r->total), "failures", messages_json(r, STATUS_FAILED), "in_part",
        messages_json(r, STATUS_DONE), "end", results_view_end(r->view));
    ENSURE(all, ERR_NOMEM, "out of memory for the status");
    if (curvature_asked_for(r)) {
        const int64_t *n = r->total.curvature;
        json_object_set_new(all, "curvature",
                            json_pack("{s:I, s:I, s:I}", "done", (json_int_t)n[STATUS_DONE],
                                      "failed", (json_int_t)n[STATUS_FAILED], "pending",
                                      (json_int_t)n[STATUS_PENDING]));
    }
    if (r->axes.n_surfaces) {
        json_t *surfaces;
        TRY(surfaces_json(r, &surfaces, e));
        json_object_set_new(all, "surfaces", surfaces);
    }
    ENSURE(json_dumpf(all, r->out, JSON_INDENT(1)) == 0, ERR_IO, "cannot write the status");
    putc('\n', r->out);
done:
    json_decref(all);
    return st;
}

enum status results_status(const struct results_view *v, bool json, FILE *out, struct err *e)
{
    enum status st = OK;
    struct report r = {.view = v, .out = out};
    TRY(axes_of_plan(results_view_plan(v), &r.axes, e));
    TRY(count(&r, e));
    if (json)
        TRY(print_json(&r, e));
    else
        TRY(print_text(&r, e));
    ENSURE(fflush(out) == 0 && !ferror(out), ERR_IO, "cannot write the status: %s",
           strerror(errno));
done:
    free(r.models);
    axes_free(&r.axes);
    return st;
}
