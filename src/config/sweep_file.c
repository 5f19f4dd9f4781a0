/* The sweep file as a whole: reading, what holds between its parts, its JSON form and listing. */
#include "config/preset.h"
#include "config/sweep_internal.h"
#include "config/trajectory.h"
#include "options/nearest.h"
#include "options/yaml.h"
#include "quant/quant.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/page.h"

/* ---- models ---- */

static void model_release(void *entry)
{
    trajectory_free(entry);
}

static enum status model_finish(void *entry, const struct option_scope *scope, struct err *e)
{
    struct model_entry *m = entry;
    const struct sweep_so_far *so_far = scope->source->context;
    struct err why = {0}, where = {0};
    enum status st = OK;
    if (!so_far || fsx_is_file(m->trajectory)) st = trajectory_read(m->trajectory, so_far, m, &why);
    if (st == ERR_IO) { /* the table does not exist: name the key that refers to it */
        enum status placed = options_fail(scope, "trajectory", &where, "%s", why.text);
        RAISE(placed ? ERR_IO : st, "%s", where.text);
    }
    NEED(st == OK, st, "%s", why.text);
    if (m->n_rows != 1 && !strstr(m->path, "{checkpoint}"))
        PASS(options_fail(scope, "path", e,
                          "expected {checkpoint} in it, for the %lld checkpoints of %s",
                          (long long)m->n_rows, m->trajectory));
    PASS(stage_resolve(m, scope, e));
    if (so_far) so_far_keep(m, so_far);
    return OK;
}

static const struct option model_keys[] = {
    OPTION(model_entry, name, TEXT, "label on the cube's model axis, each only once",
           .required = true),
    OPTION(
        model_entry, branch_of, TEXT,
        "name of the model in whose training this one starts, such as the main run of a cooldown",
        .otherwise = "none"),
    OPTION(model_entry, trajectory, PATH, "CSV table of the checkpoints in training order",
           .required = true),
    OPTION(model_entry, path, PATH,
           "Hugging Face folder of a checkpoint; {checkpoint} is replaced by its name in the table",
           .required = true),
    OPTION(model_entry, tokenizer, PATH, "tokenizer.json of all checkpoints",
           .otherwise = "tokenizer.json of each checkpoint's folder"),
    OPTION(
        model_entry, stage, TEXTS,
        "command that fetches a checkpoint into the folder {path}: a list of arguments, in which "
        "{checkpoint}, {revision} and {hub} are replaced too; no shell reads it",
        .otherwise = "the sweep's"),
    OPTION(model_entry, hub, TEXT, "repository of the checkpoints, which {hub} in stage stands for",
           .otherwise = "none", .with = "stage"),
    OPTION(model_entry, keep, BOOL,
           "what stage has fetched stays; false: it is removed after the last visit that needs it",
           .fallback = "true", .with = "stage"),
    OPTION(model_entry, averages, LIST,
           "averages of the checkpoints, which are quantized and measured like checkpoints",
           .count = offsetof(struct model_entry, n_averages), .otherwise = "none",
           .high = SWEEP_ENTRIES_MAX, .table = &average_table),
};
const struct option_table model_table = {OPTION_ROWS(model_keys, model_entry),
                                         .finish = model_finish, .release = model_release};

/* ---- between the entries ---- */

enum status sweep_check_names(const struct option_scope *scope, const char *list,
                              const void *entries, int64_t n, size_t size, struct err *e)
{
    const char *base = entries;
    const struct option_scope in_list = options_in(scope, list);
    for (int64_t i = 1; i < n; i++)
        for (int64_t j = 0; j < i; j++) {
            const char *mine, *other;
            memcpy(&mine, base + (size_t)i * size, sizeof mine);
            memcpy(&other, base + (size_t)j * size, sizeof other);
            if (strcmp(mine, other) != 0) continue;
            const struct option_scope entry = options_entry(&in_list, i);
            const struct node *first = options_entry(&in_list, j).node;
            char shown[NODE_SHOWN];
            text_show(mine, shown, sizeof shown);
            return options_fail(&entry, "name", e,
                                "the name %s is already that of %s[%lld] (line %lld), give one of "
                                "them another name",
                                shown, list, (long long)j,
                                first ? (long long)first->place.line : 0);
        }
    return OK;
}

static int64_t find_model(const struct sweep *s, const char *name)
{
    for (int64_t i = 0; name && i < s->n_models; i++)
        if (strcmp(s->models[i].name, name) == 0) return i;
    return -1;
}

static enum status fail_branch(const struct sweep *s, const struct option_scope *entry,
                               const char *name, struct err *e)
{
    AUTO_FREE const char **names = NULL;
    char shown[NODE_SHOWN], advice[300];
    text_show(name, shown, sizeof shown);
    PASS(mem_zero(&names, s->n_models, sizeof *names, "names of models", e));
    for (int64_t i = 0; i < s->n_models; i++) names[i] = s->models[i].name;
    nearest_advice(name, names, s->n_models, advice, sizeof advice);
    return options_fail(entry, "branch_of", e, "no model of the sweep is called %s%s", shown,
                        advice);
}

/* Every branch_of names a model, and none leads back to where it starts. */
static enum status check_branches(const struct sweep *s, const struct option_scope *scope,
                                  struct err *e)
{
    const struct option_scope list = options_in(scope, "models");
    for (int64_t i = 0; i < s->n_models; i++) {
        const struct model_entry *m = &s->models[i];
        const struct option_scope entry = options_entry(&list, i);
        int64_t at = find_model(s, m->branch_of);
        if (!m->branch_of) continue;
        if (at < 0) PASS(fail_branch(s, &entry, m->branch_of, e));
        for (int64_t steps = 0; at >= 0 && at != i && steps < s->n_models; steps++)
            at = find_model(s, s->models[at].branch_of);
        if (at == i)
            PASS(options_fail(&entry, "branch_of", e,
                              "following branch_of from %s leads back to it; a branch starts in "
                              "the training of another model",
                              m->name));
    }
    return OK;
}

/* ERR_USAGE at `bits` of the scope: a width that the method does not have; of the sweep's, that no
 * method has that takes them. */
static enum status check_bits(const struct sweep *s, const struct option_scope *scope,
                              const struct method_entry *only, const int64_t *bits, int64_t n,
                              struct err *e)
{
    for (int64_t k = 0; k < n; k++) {
        bool any = false, found = false;
        const struct quant_method *last = NULL;
        int64_t low = 0, high = 0;
        for (int64_t i = 0; i < s->n_methods; i++) {
            const struct method_entry *m = &s->methods[i];
            if (only ? m != only : m->n_bits > 0) continue;
            const struct quant_method *method = quant_find(m->method);
            any = true;
            if (method) quant_widths(method, &m->options, &low, &high);
            found = found || !method /* check_methods refuses it */ ||
                    (bits[k] >= low && bits[k] <= high);
            last = method;
        }
        if (!any || found) continue;
        char range[32] = "";
        if (low < high) snprintf(range, sizeof range, "%lld to ", (long long)low);
        return options_fail(scope, "bits", e, "%lld: %s has %s%lld bits%s", (long long)bits[k],
                            last->name, range, (long long)high,
                            only ? "" : ", and no other method has it");
    }
    return OK;
}

static enum status spread_bits(struct sweep *s, const struct option_scope *scope, struct err *e)
{
    const struct option_scope list = options_in(scope, "methods");
    PASS(check_bits(s, scope, NULL, s->bits, s->n_bits, e));
    for (int64_t i = 0; i < s->n_methods; i++) {
        struct method_entry *m = &s->methods[i];
        const struct option_scope entry = options_entry(&list, i);
        if (m->n_bits) {
            PASS(check_bits(s, &entry, m, m->bits, m->n_bits, e));
            continue;
        }
        if (s->n_bits == 0) {
            return options_fail(&entry, "bits", e,
                                "missing, and the sweep has no bits either; expected a list of "
                                "integers from %d to %d",
                                QUANT_BITS_LEAST, QUANT_BITS_MAX);
        }
        m->n_bits = s->n_bits;
        memcpy(m->bits, s->bits, sizeof m->bits);
    }
    return OK;
}

/* Refuses padding that counts in texts whose loss is measured. */
static enum status check_scored(const struct sweep *s, const struct option_scope *scope,
                                struct err *e)
{
    const struct option_scope list = options_in(scope, "evaluation");
    for (int64_t i = 0; i < s->n_evaluations; i++) {
        if (s->evaluations[i].padding != PADDING_COUNTED) continue;
        const struct option_scope entry = options_entry(&list, i);
        return options_fail(&entry, "padding", e, "counted is for calibration");
    }
    return OK;
}

/* What stays on disk leaves no space for the next. */
static enum status check_staging(const struct sweep *s, const struct option_scope *scope,
                                 struct err *e)
{
    const struct option_scope list = options_in(scope, "models");
    for (int64_t i = 0; s->run.stage_bytes > 0 && i < s->n_models; i++) {
        if (!s->models[i].stage || !s->models[i].keep) continue;
        const struct option_scope entry = options_entry(&list, i);
        return options_fail(&entry, "keep", e,
                            "run.stage_space limits what stage fetches, so keep must be false");
    }
    return OK;
}

/* Whether --set gives the node or anything in it. */
static bool is_overridden(const struct node *n)
{
    bool given = n->place.override != NULL;
    for (int64_t i = 0; i < n->n; i++) given = given || is_overridden(n->items[i]);
    return given;
}

/* Methods with their options and widths. Replicates differ in their calibration sequences alone. */
static enum status check_methods(const struct sweep *s, const struct option_scope *scope,
                                 struct err *e)
{
    const struct option_scope list = options_in(scope, "methods");
    const struct data_options *d = &s->calibration;
    for (int64_t i = 0; i < s->n_methods; i++) {
        const struct method_entry *m = &s->methods[i];
        const struct quant_method *method = quant_find(m->method);
        const struct option_scope entry = options_entry(&list, i);
        struct err own = {0};
        const bool f32 = activation_any(&m->grids) || method_entry_places(m);
        if (f32 && s->run.rounding == ROUNDING_BF16)
            return options_fail(&entry, NULL, e,
                                "grids and rotations are in f32; expected run.rounding: f32");
        if (quant_check(m->method, &m->options, m->bits, m->n_bits, &own) != OK)
            return options_fail(&entry, method ? NULL : "method", e, "%s", own.text);
        if (m->replicates == 1) continue;
        if (!quant_calibrates(method, &m->options))
            return options_fail(&entry, "replicates", e,
                                "%s uses no calibration text, so that all replicates are equal",
                                m->method);
        if ((d->text || d->ids) && !d->samples && !d->tokens)
            return options_fail(&entry, "replicates", e,
                                "calibration takes the whole text, so that no other sequences are "
                                "left for replicates; give calibration.samples or "
                                "calibration.tokens");
    }
    return OK;
}

/* A calibration text has an effect, unless --set has taken its methods from it. */
static enum status check_calibration(const struct sweep *s, const struct option_scope *scope,
                                     struct err *e)
{
    const struct node *methods = node_find(scope->node, "methods"),
                      *text = node_find(scope->node, "calibration");
    bool used = scope->source->whole || !text || text->kind == NODE_NULL ||
                (is_overridden(methods) && !text->key_place.override) || averages_calibrate(s);
    for (int64_t i = 0; i < s->n_methods; i++) {
        const struct quant_method *method = quant_find(s->methods[i].method);
        used = used || !method ||
               quant_calibrates(method,
                                &s->methods[i].options); /* check_methods refuses what is none */
    }
    if (used) return OK;
    return options_fail(scope, "calibration", e,
                        "has no effect here: it goes with a method that calibrates");
}

_Static_assert(offsetof(struct model_entry, name) == 0 &&
                   offsetof(struct method_entry, name) == 0 &&
                   offsetof(struct data_options, name) == 0,
               "sweep_check_names reads the first field");

static enum status sweep_finish(void *entry, const struct option_scope *scope, struct err *e)
{
    struct sweep *s = entry;
    if (scope->source->context) PASS(so_far_drop(s, node_find(scope->node, "models"), e));
    if (s->n_models == 0) return OK;
    PASS(sweep_check_names(scope, "models", s->models, s->n_models, sizeof *s->models, e));
    PASS(sweep_check_names(scope, "methods", s->methods, s->n_methods, sizeof *s->methods, e));
    PASS(sweep_check_names(scope, "evaluation", s->evaluations, s->n_evaluations,
                           sizeof *s->evaluations, e));
    PASS(check_branches(s, scope, e));
    PASS(spread_bits(s, scope, e));
    PASS(check_methods(s, scope, e));
    PASS(averages_resolve(s, scope, e));
    PASS(check_scored(s, scope, e));
    PASS(check_staging(s, scope, e));
    PASS(check_calibration(s, scope, e));
    for (int k = 0; k < MEASURES_N; k++)
        if (measures[k]->check) PASS(measures[k]->check(s, scope, e));
    return preset_check(s, scope, e);
}

/* ---- the file ---- */

#define SECTION(measure)                                                                           \
    {.type = OPTION_BOXED,                                                                         \
     .offset = offsetof(struct sweep, sections) + MEASURE_##measure * sizeof(void *),              \
     .table = &measure_##measure.section},

static const struct option sweep_keys[] = {
    OPTION(sweep, name, TEXT, "name of the sweep", .required = true),
    OPTION(sweep, results, PATH, "the results cube (HDF5); its journal is next to it",
           .required = true),
    OPTION(sweep, preset, CHOICE,
           "a published protocol: defaults of methods, calibration and evaluation (listed below)",
           .fallback = "none", .choices = preset_names),
    OPTION(sweep, seed, INT, "seed of replicates and of random surfaces", .fallback = "0", .low = 0,
           .high = INT64_MAX),
    OPTION(sweep, stage, TEXTS, "`stage` of every model that has none of its own",
           .otherwise = "none: the checkpoints are on disk"),
    OPTION(sweep, models, LIST, "the training runs", .count = offsetof(struct sweep, n_models),
           .required = true, .low = 1, .high = SWEEP_ENTRIES_MAX, .table = &model_table),
    OPTION(sweep, bits, INTS, "bit-widths of every method that has no `bits`", .unit = "bits",
           .count = offsetof(struct sweep, n_bits), .capacity = QUANT_BITS_N,
           .otherwise = "each method has its own", .low = QUANT_BITS_LEAST, .high = QUANT_BITS_MAX),
    OPTION(
        sweep, methods, LIST,
        "the quantizers; in an entry the lists W, A and KV of widths of weights, activations, and "
        "keys and values stand for an entry for each combination",
        .count = offsetof(struct sweep, n_methods), .required = true, .low = 1,
        .high = SWEEP_ENTRIES_MAX, .table = &method_table),
    OPTION(sweep, calibration, GROUP, "text that methods with a Hessian are calibrated on",
           .otherwise = "none, if no method needs it", .table = &data_table),
    OPTION_AT("evaluation", sweep, evaluations, LIST, "texts that losses are measured on",
              .count = offsetof(struct sweep, n_evaluations), .required = true, .low = 1,
              .high = SWEEP_ENTRIES_MAX, .table = &data_table),
    OPTION(sweep, count_tokens, PATH,
           "tokenizer.json, or a folder with one, that counts the tokens of the evaluation texts "
           "for losses per common token",
           .otherwise = "none"),
    MEASURES(SECTION, SECTION)
        OPTION(sweep, run, GROUP, "how the work is spread", .table = &run_table),
};
const struct option_table sweep_table = {OPTION_ROWS(sweep_keys, sweep), .finish = sweep_finish};

enum status sweep_read_so_far(const char *path, const char *const *overrides, int64_t n,
                              struct sweep_so_far *so_far, struct sweep *out, struct err *e)
{
    CLEANUP(node_free_at) struct node *root = NULL;
    AUTO_FREE char *folder = NULL;
    memset(out, 0, sizeof *out);
    PASS(yaml_read_file(path, &root, e));
    static const char *const own[] = {"models", "evaluation", "methods", "results", NULL},
                             *const of_runs[] = {"output", "schedule", "steps", "model", NULL};
    PASS(node_check_kind(root, own, of_runs,
                         "a file of training runs, which qtraj train takes, not a sweep", e));
    for (int64_t i = 0; i < n; i++) PASS(override_apply(root, overrides[i], e));
    PASS(sweep_spread(root, e));
    PASS(fsx_parent(path, &folder, e));
    struct option_source source = {
        .code = ERR_USAGE, .folder = folder, .paths = json_object(), .context = so_far};
    if (so_far) so_far->texts = so_far_texts(root);
    const enum status st = options_read(&sweep_table, root, &source, out, e);
    if (st == OK) out->paths = json_incref(source.paths);
    json_decref(source.paths);
    return st == OK ? sweep_find_lacks(out, folder, overrides, n, e) : st;
}

enum status sweep_read(const char *path, const char *const *overrides, int64_t n, struct sweep *out,
                       struct err *e)
{
    return sweep_read_so_far(path, overrides, n, NULL, out, e);
}

json_t *sweep_to_json(const struct sweep *s)
{
    json_t *json = options_to_json(&sweep_table, s);
    json_t *methods = json_object_get(json, "methods");
    for (int64_t i = 0; i < s->n_methods; i++)
        json_array_set_new(methods, (size_t)i, method_entry_to_json(&s->methods[i]));
    return json;
}

void sweep_print_options(FILE *out)
{
    page_print(out, page_width(out, OPTION_PAGE), 0, 0,
               "Keys of a sweep file (YAML). Relative paths are relative to the file, ${VAR} in a "
               "path is the environment's. --set key=value overrides: --set run.threads=2, "
               "--set 'methods[0].bits=[3,4]'.");
    putc('\n', out);
    options_print(&sweep_table, out);
    fprintf(out, "\nmodels[].trajectory: columns of the CSV table, named in its first line\n");
    options_print_keys(&row_table, out);
    fprintf(out, "lr is learning_rate; any other column becomes a variable of the cube\n");
    preset_print(out);
}

json_t *sweep_options_json(void)
{
    json_t *list = json_array();
    options_describe_keys(&sweep_table, "", list);
    options_describe_keys(&row_table, "models[].trajectory[].", list);
    return list;
}
