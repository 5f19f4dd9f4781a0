/* The keys of curvature in the sweep file, and what a plan asks of it: keys of its records, setups,
 * and the chain of a warm start. */
#include "curvature/hvp_predict.h"
#include "measures/curvature.h"
#include "plan/plan.h"
#include "records/record_parts.h"
#include "util/mem.h"
#include <fnmatch.h>

/* --- the section --- */

static const struct option section_keys[] = {
    {.type = OPTION_KEYS,
     .table = &curvature_table,
     .offset = offsetof(struct curvature_section, options)},
    OPTION(curvature_section, sequences, INT, "sequences of the text that are used",
           .unit = "sequences", .fallback = "4", .low = 1, .high = 1000000),
    OPTION(curvature_section, length, INT,
           "tokens of each sequence that are used, the first ones; own: all", .unit = "tokens",
           .fallback = "own", .low = 2, .high = 1 << 24, OPTION_SPECIAL(0, "own")),
    OPTION(curvature_section, data, GROUP, "separate text for curvature",
           .otherwise = "the first evaluation text", .table = &data_table),
    OPTION(curvature_section, seed, INT, "seed of start vectors and probes", .fallback = "0",
           .low = 0, .high = INT64_MAX),
    OPTION(curvature_section, checkpoints, TEXT,
           "shell pattern: only checkpoints (and averages) with such names", .otherwise = "all"),
    OPTION(curvature_section, phase, TEXT, "only checkpoints of this phase", .otherwise = "all"),
    OPTION(
        curvature_section, every, INT,
        "of these checkpoints of a model, or averages of an entry, only the first and then every "
        "Nth",
        .fallback = "1", .low = 1, .high = 1000000),
    OPTION(curvature_section, warm_start, BOOL,
           "the sharpness starts from the eigenvector of the previous checkpoint; results then "
           "depend on that checkpoint too",
           .fallback = "false", .with = "sharpness"),
    {.type = OPTION_KEYS,
     .table = &second_order_table,
     .offset = offsetof(struct curvature_section, predicted)},
};

static bool absent(const void *entry)
{
    const struct curvature_section *c = entry;
    return !curvature_asked_for(&c->options) && c->predicted.depth == SECOND_ORDER_NONE &&
           !c->predicted.critical;
}

static enum status section_finish(void *entry, const struct option_scope *scope, struct err *e)
{
    struct curvature_section *c = entry;
    PASS(curvature_table.finish(&c->options, scope, e));
    if (absent(c))
        PASS(options_fail(scope, "sharpness", e,
                          "nothing is requested, expected sharpness, trace, density, second_order "
                          "or critical; "
                          "without the section no curvature is measured"));
    return OK;
}

const struct option_table curvature_section_table = {OPTION_ROWS(section_keys, curvature_section),
                                                     .finish = section_finish, .absent = absent};

static const struct data_options *source_of(const struct sweep *s)
{
    const struct data_options *own = &curvature_section(s)->data;
    return own->text || own->ids ? own : &s->evaluations[0];
}

/* --- of which checkpoints --- */

static bool matches(const struct curvature_section *s, const struct trajectory_row *row)
{
    return (!s->checkpoints || fnmatch(s->checkpoints, row->checkpoint, 0) == 0) &&
           (!s->phase || strcmp(s->phase, row->phase) == 0);
}

bool curvature_takes(const struct plan *p, const struct plan_checkpoint *c)
{
    const struct curvature_section *s = curvature_section(p->sweep);
    const struct trajectory_row *rows = p->sweep->models[c->model].rows, *own = &rows[c->row];
    int64_t before = 0;
    if (!matches(s, own)) return false;
    for (const struct trajectory_row *r = rows; r < own; r++)
        before += r->average == own->average && matches(s, r);
    return before % s->every == 0;
}

/* ERR_USAGE: it takes no checkpoint, or a warm start misses those before. */
static enum status check_checkpoints(const struct sweep *s, const struct option_scope *section,
                                     struct err *e)
{
    const struct curvature_section *c = curvature_section(s);
    const char *key = c->checkpoints ? "checkpoints" : c->phase ? "phase" : "every";
    bool any = false;
    for (int64_t i = 0; i < s->n_models; i++)
        for (int64_t k = 0; k < s->models[i].n_rows; k++)
            any = any || matches(c, &s->models[i].rows[k]);
    if (!any && (c->checkpoints || c->phase))
        return options_fail(section, key, e, "%s: no checkpoint of the sweep is so",
                            c->checkpoints ? c->checkpoints : c->phase);
    if (c->warm_start && (c->checkpoints || c->phase || c->every > 1))
        return options_fail(section, key, e,
                            "with warm_start the curvature of a checkpoint needs that of all "
                            "checkpoints before it; leave one of them out");
    return OK;
}

/* Curvature takes the first tokens of sequences that are there. */
enum status curvature_check(const struct sweep *s, const struct option_scope *scope, struct err *e)
{
    const struct curvature_section *c = curvature_section(s);
    const struct option_scope section = options_in(scope, "curvature"),
                              data = options_in(&section, "data");
    const struct data_options *d = source_of(s);
    if (!absent(c)) PASS(check_checkpoints(s, &section, e));
    const int64_t length = data_options_length(d, 0);
    if (c->data.padding == PADDING_COUNTED)
        return options_fail(&data, "padding", e, "counted is for calibration");
    if (!d->text || d->layout != LAYOUT_PACKED || c->length <= length) return OK;
    return options_fail(&section, "length", e,
                        "the sequences of %s have %lld tokens, expected at most as many; `data` "
                        "gives curvature a separate text",
                        d->name, (long long)length);
}

/* --- keys --- */

struct data_options curvature_text(const struct plan *p, int64_t model)
{
    const struct curvature_section *c = curvature_section(p->sweep);
    if (absent(c)) return (struct data_options){0};
    struct data_options d = plan_data(p, model, source_of(p->sweep));
    d.samples = c->sequences;
    d.tokens = 0;
    if (c->length && (d.cut == 0 || d.cut > c->length)) d.cut = c->length;
    return d;
}

/* With a warm start, curvature depends on that of the checkpoint before. */
enum status curvature_key(struct plan *p, const struct plan_checkpoint *c, json_t **own,
                          struct err *e)
{
    const struct curvature_section *s = curvature_section(p->sweep);
    const struct plan_checkpoint *before = plan_before(p, c);
    const char *after = before ? before->keys[MEASURE_curvature] : "";
    const struct data_options data = curvature_text(p, c->model);
    json_t *text;
    *own = NULL;
    if (!curvature_asked_for(&s->options) || !curvature_takes(p, c)) return OK;
    PASS(plan_data_identity(p, c->model, &data, &text, e));
    *own = json_pack("{s:i, s:s, s:{s:o, s:o, s:I}, s:s*, s:s*}", "schema", 1, "tokenizer",
                     c->tokenizer, "curvature", "options",
                     options_to_json(&curvature_table, &s->options), "data", text, "seed",
                     (json_int_t)s->seed, "after", s->warm_start ? after : NULL, "products",
                     plan_products(p->sweep));
    NEED(*own, ERR_NOMEM, "out of memory for a key");
    return OK;
}

static enum status leave(void *setup, const json_t *parts, struct err *e)
{
    struct curvature_setup *t = setup;
    const json_t *one;
    size_t i;
    json_array_foreach(parts, i, one) {
        const char *name = json_text(one, "part", "");
        if (!json_object_get(one, "from")) continue;
        if (strcmp(name, "trace") == 0) t->options.trace = 0;
        if (strcmp(name, "density") == 0) t->options.density = 0;
        if (strcmp(name, "sharpness") != 0) continue;
        t->options.sharpness = SHARPNESS_NONE;
        free(t->vectors); /* no warm start */
        t->vectors = NULL;
    }
    return parts_keep(parts, &t->parts, e);
}

const struct measure_parts curvature_parts = {
    .list = parts_of_curvature, .leave = leave, .compose = compose_curvature};

/* Number of checkpoints before c in the chain. */
static int64_t chain_length(const struct plan *p, const struct plan_checkpoint *c)
{
    int64_t n = 0;
    while ((c = plan_before(p, c)) != NULL) n++;
    return n;
}

/* Whether the weights of the checkpoint, or of an earlier one in the chain, differ from those that
 * its curvature was measured with. */
bool curvature_stale(const struct plan *p, const struct plan_checkpoint *c, const json_t *record)
{
    char now[HASH_HEX];
    bool changed = false;
    const char *was = json_text(json_object_get(record, "provenance"), "weights_chain", "");
    if (!curvature_section(p->sweep)->warm_start || !was[0]) return false;
    const struct weights **of = NULL;
    const int64_t n = chain_length(p, c);
    if (mem_zero(&of, n + 1, sizeof *of, "sources of weights", NULL) != OK) return false;
    for (int64_t i = 0; i <= n; i++) of[i] = &c[i - n].weights;
    if (warm_chain(of, n + 1, now, NULL) == OK) changed = strcmp(now, was) != 0;
    free(of);
    return changed;
}

/* The chain: the earlier rows of the trajectory, or averages of the entry. */
static enum status add_chain(const struct plan *p, const struct plan_checkpoint *c,
                             struct curvature_setup *t, struct err *e)
{
    const struct model_entry *m = &p->sweep->models[c->model];
    const int64_t n = chain_length(p, c);
    t->followed = c->row + 1 < m->n_rows && trajectory_follows(m, c->row + 1);
    PASS(mem_zero(&t->before, n, sizeof *t->before, "checkpoints before", e));
    for (int64_t i = 0; i < n; i++) {
        const struct plan_checkpoint *one = c - n + i;
        t->n_before++;
        PASS(weights_copy(&one->weights, &t->before[i].weights, e));
        PASS(mem_string(&t->before[i].key, one->keys[MEASURE_curvature], e));
    }
    return OK;
}

enum status curvature_make_setup(const struct plan *p, const struct plan_checkpoint *c, void *setup,
                                 struct err *e)
{
    const struct curvature_section *from = curvature_section(p->sweep);
    const struct data_options data = curvature_text(p, c->model);
    struct curvature_setup *t = setup;
    t->options = from->options;
    t->seed = from->seed;
    PASS(options_copy(&data_table, &data, &t->data, e));
    if (!from->warm_start) return OK;
    PASS(mem_format(&t->vectors, e, "%s.vectors", p->sweep->results));
    return add_chain(p, c, t, e);
}
