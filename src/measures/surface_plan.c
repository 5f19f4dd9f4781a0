/* Loss surfaces in a plan: their keys and the visits of their points. */
#include "measures/surface.h"
#include "plan/plan.h"
#include "quant/quant.h"
#include "util/mem.h"
#include "util/rng.h"

struct planned_surface {
    const struct surface_entry *entry;    /* borrowed from the sweep */
    const struct method_entry *quantizer; /* NULL: none */
    const struct data_options *dataset;
    int64_t model;
    int64_t n, *checkpoints; /* indices into the plan's: the origin, then the end of the first axis,
                                or all of the trajectory, then those of its branches */
    char **names;            // (n) of points: those of a branch's checkpoints begin with MODEL/
    char key[HASH_HEX];
    struct results_surface points; /* owns points.exact */
};

/* What the plan has of them. */
struct surfaces {
    int64_t n;
    struct planned_surface *surfaces; // (n)
};

void surfaces_free(void *own)
{
    struct surfaces *all = own;
    for (int64_t i = 0; i < all->n; i++) {
        for (int64_t k = 0; k < all->surfaces[i].n; k++) free(all->surfaces[i].names[k]);
        free(all->surfaces[i].names);
        free(all->surfaces[i].checkpoints);
        free(all->surfaces[i].points.exact);
    }
    free(all->surfaces);
    free(all);
}

static const struct plan_checkpoint *origin_of(const struct plan *p,
                                               const struct planned_surface *s)
{
    return &p->checkpoints[s->checkpoints[0]];
}

/* --- surfaces --- */

/* *name = a checkpoint's, after the model's and a slash if it is of a branch. */
static enum status name_of(const struct planned_surface *s, int64_t model, const char *model_name,
                           const char *own, char **name, struct err *e)
{
    const bool branch = model != s->model;
    return mem_format(name, e, "%s%s%s", branch ? model_name : "", branch ? "/" : "", own);
}

static enum status add_checkpoint(const struct plan *p, struct planned_surface *s, int64_t model,
                                  const char *name, struct err *e)
{
    int64_t capacity = s->n, same = s->n;
    PASS(mem_grow(&s->checkpoints, s->n, &capacity, sizeof *s->checkpoints, e));
    PASS(mem_grow(&s->names, s->n, &same, sizeof *s->names, e));
    for (int64_t i = 0; i < p->n_checkpoints; i++) {
        const struct plan_checkpoint *c = &p->checkpoints[i];
        if (c->model != model || strcmp(plan_name_of(p, c), name) != 0) continue;
        PASS(name_of(s, model, p->sweep->models[model].name, name, &s->names[s->n], e));
        s->checkpoints[s->n++] = i;
        return OK;
    }
    RAISE(ERR_USAGE, "surface %s: no checkpoint %s", s->entry->name, name);
}

static enum status add_trajectory(const struct plan *p, struct planned_surface *s, int64_t model,
                                  struct err *e)
{
    const struct model_entry *m = &p->sweep->models[model];
    for (int64_t i = 0; i < m->n_rows; i++)
        if (surface_takes(s->entry, &m->rows[i]))
            PASS(add_checkpoint(p, s, model, m->rows[i].checkpoint, e));
    return OK;
}

static enum status find_parts(const struct plan *p, struct planned_surface *s, struct err *e)
{
    const struct surface_entry *entry = s->entry;
    const struct sweep *sweep = p->sweep;
    while (strcmp(sweep->models[s->model].name, entry->model) != 0) s->model++;
    s->dataset = sweep->evaluations;
    while (strcmp(s->dataset->name, entry->dataset) != 0) s->dataset++;
    if (entry->plane == SURFACE_TRAJECTORY) {
        PASS(add_trajectory(p, s, s->model, e));
        for (int64_t k = 0; k < sweep->n_models; k++)
            if (k != s->model && surface_spans(entry, &sweep->models[k]))
                PASS(add_trajectory(p, s, k, e));
        return OK;
    }
    PASS(add_checkpoint(p, s, s->model, entry->checkpoint, e));
    if (entry->plane != SURFACE_QUANTIZATION) return OK;
    PASS(add_checkpoint(p, s, s->model, entry->previous, e));
    s->quantizer = sweep->methods;
    while (strcmp(s->quantizer->name, entry->quantizer) != 0) s->quantizer++;
    const struct quant_method *method = quant_find(s->quantizer->method);
    int64_t low, high;
    quant_widths(method, &s->quantizer->options, &low, &high);
    NEED(entry->bits >= low && entry->bits <= high, ERR_USAGE,
         "surfaces: %s: %lld bits; %s takes %lld to %lld", entry->name, (long long)entry->bits,
         method->name, (long long)low, (long long)high);
    return method_entry_check_weights(s->quantizer, "surfaces", e);
}

static enum status make_key(struct plan *p, struct planned_surface *s, struct err *e)
{
    const struct surface_entry *entry = s->entry;
    char variant[HASH_HEX] = "";
    json_auto_t *names = json_array(), *data = NULL, *calibration = NULL;
    PASS(plan_data_identity(p, s->model, s->dataset, &data, e));
    PASS(plan_calibration_identity(p, s->model, &calibration, e));
    if (s->quantizer) PASS(plan_variant_key(p, s->quantizer, entry->bits, calibration, variant, e));
    for (int64_t i = 0; i < s->n; i++) {
        const struct plan_checkpoint *c = &p->checkpoints[s->checkpoints[i]];
        const char *own = c->recipe[0] ? c->recipe : plan_known_name(p, c);
        char *name;
        PASS(name_of(s, c->model, plan_known_model(p, c->model), own, &name, e));
        json_array_append_new(names, json_string(name));
        free(name);
    }
    bool random = entry->plane == SURFACE_RANDOM;
    return plan_digest(
        json_pack("{s:i, s:s, s:s, s:s, s:O, s:O, s:I, s:s, s:f, s:I, s:s*, s:s*, s:s*}", "surface",
                  1, "plane", surface_planes[entry->plane], "model", plan_known_model(p, s->model),
                  "tokenizer", origin_of(p, s)->tokenizer, "checkpoints", names, "data", data,
                  "samples", (json_int_t)entry->samples, "variant", variant, "extent",
                  random ? entry->radius : entry->margin, "seed",
                  (json_int_t)(random ? p->sweep->seed : 0), "activations",
                  plan_activations(p->sweep), "products", plan_products(p->sweep), "rounding",
                  plan_rounding(p->sweep)),
        s->key, e);
}

/* --- points --- */

/* Exact points: every checkpoint and the quantized one; for random directions only the origin. */
static enum status make_points(struct planned_surface *s, struct err *e)
{
    bool quantized = s->entry->plane == SURFACE_QUANTIZATION;
    s->points = (struct results_surface){.key = s->key,
                                         .n_exact = s->n + quantized,
                                         .columns = s->entry->columns,
                                         .rows = s->entry->rows};
    PASS(mem_zero(&s->points.exact, s->points.n_exact, sizeof *s->points.exact, "points", e));
    for (int64_t k = 0; k < s->n; k++) s->points.exact[k] = s->names[k];
    if (quantized) s->points.exact[s->n] = "quantized";
    return OK;
}

static json_t *surface_record(const struct planned_surface *s)
{
    const struct surface_entry *entry = s->entry;
    json_t *exact = json_array();
    for (int64_t k = 0; k < s->points.n_exact; k++)
        json_array_append_new(exact, json_string(s->points.exact[k]));
    json_t *json = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:o, s:s}", "name",
                             entry->name, "plane", surface_planes[entry->plane], "model",
                             entry->model, "checkpoint", entry->checkpoint ? entry->checkpoint : "",
                             "quantizer", entry->quantizer ? entry->quantizer : "", "dataset",
                             entry->dataset, "columns", (json_int_t)entry->columns, "rows",
                             (json_int_t)entry->rows, "exact", exact, "key", s->key);
    if (entry->bits) json_object_set_new(json, "bits", json_integer((json_int_t)entry->bits));
    return json;
}

enum status surfaces_plan(struct plan *p, struct err *e)
{
    const struct surfaces_section *section = p->sweep->sections[MEASURE_point];
    struct surfaces *all;
    json_t *list;
    if (section->n == 0) return OK;
    PASS(mem_zero(&all, 1, sizeof *all, "surfaces", e));
    p->own[MEASURE_point] = all;
    PASS(mem_zero(&all->surfaces, section->n, sizeof *all->surfaces, "surfaces", e));
    json_object_set_new(p->lists, "surfaces", list = json_array());
    for (int64_t i = 0; i < section->n; i++) {
        struct planned_surface *s = &all->surfaces[all->n++];
        s->entry = &section->surfaces[i];
        PASS(find_parts(p, s, e));
        PASS(make_key(p, s, e));
        PASS(make_points(s, e));
        json_array_append_new(list, surface_record(s));
        p->more[MEASURE_point] += results_surface_points(&s->points);
    }
    return OK;
}

/* --- visits --- */

/* Fills the setup's parts: the checkpoints, then the quantized one or the two random directions. */
static enum status fill_parts(const struct plan *p, const struct planned_surface *s,
                              struct surface_setup *t, struct err *e)
{
    enum { DIRECTIONS = 2 };
    const struct weights *origin = &origin_of(p, s)->weights;
    PASS(mem_zero(&t->parts, s->n + DIRECTIONS, sizeof *t->parts, "sources of weights", e));
    for (; t->n < s->n; t->n++)
        PASS(weights_copy(&p->checkpoints[s->checkpoints[t->n]].weights, &t->parts[t->n], e));
    if (s->quantizer) {
        struct weights *w = &t->parts[t->n++];
        PASS(weights_derive(WEIGHTS_QUANTIZED, origin, w, e));
        PASS(variant_copy(s->quantizer, s->entry->bits, NULL, &w->variant, e));
    }
    for (uint64_t i = 0; s->entry->plane == SURFACE_RANDOM && i < DIRECTIONS; i++) {
        struct weights *w = &t->parts[t->n++];
        PASS(weights_derive(WEIGHTS_RANDOM, origin, w, e));
        w->stream = rng_stream((uint64_t)p->sweep->seed, i);
    }
    return OK;
}

static enum status fill_setup(const struct plan *p, const struct planned_surface *s,
                              const struct results_point *point, int64_t k, struct surface_setup *t,
                              struct err *e)
{
    const struct surface_entry *entry = s->entry;
    PASS(mem_string(&t->surface, entry->name, e));
    if (point->label) PASS(mem_string(&t->point, point->label, e));
    t->plane = entry->plane;
    t->margin = entry->margin;
    t->radius = entry->radius;
    t->exact = point->label ? k : -1;
    results_point_place(point, &t->x, &t->y);
    return fill_parts(p, s, t, e);
}

static enum status fill_visit(const struct plan *p, const struct planned_surface *s, int64_t k,
                              const char *key, struct visit *v, struct err *e)
{
    const struct sweep *sweep = p->sweep;
    const struct data_options evaluation = plan_data(p, s->model, s->dataset);
    const struct data_options calibration = plan_data(p, s->model, &sweep->calibration);
    struct results_point point = results_surface_point(&s->points, k);
    PASS(plan_visit_begin(p, origin_of(p, s), key, v, e));
    if (s->quantizer && quant_calibrates(quant_find(s->quantizer->method), &s->quantizer->options))
        PASS(options_copy(&data_table, &calibration, &v->calibration, e));
    PASS(mem_zero(&v->evaluations, 1, sizeof *v->evaluations, "datasets", e));
    PASS(options_copy(&data_table, &evaluation, v->evaluations, e));
    v->n_evaluations = 1;
    v->cells_only = true; /* none */
    int64_t samples = s->entry->samples, *own = &v->evaluations->samples;
    if (samples && (*own == 0 || *own > samples)) *own = samples;
    struct surface_setup *t;
    PASS(mem_zero(&t, 1, sizeof *t, "a point", e));
    v->setup[MEASURE_point] = t;
    return fill_setup(p, s, &point, k, t, e);
}

/* A point reads what its plane is made of, and evaluates its own text. */
static struct cost cost_of(const struct plan *p, const struct plan_visit *v)
{
    const struct surface_setup *t = v->visit.setup[MEASURE_point];
    const struct plan_model *m = &p->costs.models[v->model];
    const struct data_options *text = v->visit.evaluations;
    struct cost_tokens tokens = {0};
    if (!m->known) return m->shared;
    for (int64_t i = 0; i < p->sweep->n_evaluations; i++)
        if (strcmp(p->sweep->evaluations[i].name, text->name) == 0) tokens = p->costs.texts[i];
    if (text->samples > 0 && text->samples < tokens.sequences) {
        const double share = (double)text->samples / (double)tokens.sequences;
        tokens.tokens *= share;
        tokens.squares *= share;
    }
    double bytes = 0;
    for (int64_t i = 0; i < t->n; i++)
        if (!t->point || i == t->exact)
            bytes += (double)weights_reads(&t->parts[i]) * m->bytes_per_weight;
    return cost_shared(&m->sizes, &tokens, bytes);
}

/* before: visits of the whole plan before the first of the surface's points. */
static enum status add_points(const struct plan *p, const struct planned_surface *s,
                              const struct results_view *view, const struct plan_choice *choice,
                              int64_t before, struct plan_visits *visits, struct err *e)
{
    const struct surfaces *all = p->own[MEASURE_point];
    const int64_t files = 1 + visits->n; /* all points of the surface read the same files */
    for (int64_t k = 0; k < results_surface_points(&s->points); k++) {
        char key[HASH_HEX];
        if (!plan_part_has(choice, before + k)) continue;
        struct results_point point = results_surface_point(&s->points, k);
        results_point_key(s->key, &point, key);
        const json_t *record = view ? results_view_find(view, key) : NULL;
        const bool missing =
            plan_missing(view, key, choice) || plan_special_changed(origin_of(p, s), record);
        if (!missing && result_state_of(record) != STATE_FAILED) continue;
        struct plan_visit *v = &visits->visits[visits->n++];
        *v = (struct plan_visit){.model = s->model,
                                 .row = p->sweep->models[s->model].n_rows,
                                 .at = before + k,
                                 .kind = p->sweep->n_models + (s - all->surfaces),
                                 .files = files};
        PASS(fill_visit(p, s, k, key, &v->visit, e));
        /* A failed one is made again if its input files or its limit have changed. */
        if (!missing && !plan_memory_raised(p, v->model, record) &&
            !plan_inputs_changed(record, "inputs", &v->visit, MEASURE_point)) {
            visit_free(&v->visit);
            visits->n--;
            continue;
        }
        PASS(mem_format(&v->name, e, "surface %s%s%s", s->entry->name, point.label ? " " : "",
                        point.label ? point.label : ""));
        visits->to_make[MEASURE_point]++;
        const struct cost cost = cost_of(p, v);
        PASS(plan_visit_price_own(p, MEASURE_point, &cost, v, e));
    }
    return OK;
}

enum status surfaces_visits(const struct plan *p, const struct results_view *view,
                            const struct plan_choice *choice, int64_t first,
                            struct plan_visits *out, struct err *e)
{
    const struct surfaces *all = p->own[MEASURE_point];
    for (int64_t i = 0; i < all->n; i++) {
        const struct planned_surface *s = &all->surfaces[i];
        if (plan_own_chosen(&measure_point, s->entry->name, s->entry->model, choice))
            PASS(add_points(p, s, view, choice, first, out, e));
        first += results_surface_points(&s->points);
    }
    return OK;
}
