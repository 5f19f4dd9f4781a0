#include "cli/single.h"
#include "cli/cli.h"
#include "engine/inputs.h"
#include "engine/provenance.h"
#include "eval/doubts.h"
#include "quant/quant.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/quantity.h"
#include <math.h>
#include <unistd.h>

void single_free(struct single *s)
{
    visit_free(&s->visit);
    json_decref(s->checkpoint);
    json_decref(s->cell);
    free(s->label);
    *s = (struct single){0};
}

enum status single_add_evaluation(struct single *s, struct data_options *d, const char *prefix,
                                  struct err *e)
{
    char *name = NULL;
    int64_t capacity = s->visit.n_evaluations;
    PASS(data_options_finish(d, prefix, e));
    PASS(mem_grow(&s->visit.evaluations, s->visit.n_evaluations, &capacity, sizeof *d, e));
    PASS(mem_string(&name, "evaluation", e)); /* the name that single_number looks up */
    free(s->label);
    s->label = d->name;
    d->name = name;
    s->visit.evaluations[s->visit.n_evaluations++] = *d;
    *d = (struct data_options){0};
    return OK;
}

enum status single_variant(const char *name, const struct quant_options *options, int64_t *bits,
                           const struct data_options *calibration, struct variant *out,
                           struct err *e)
{
    const struct quant_method *method = quant_find(name);
    const bool calibrates = quant_calibrates(method, options);
    const bool calibrated = calibration->text || calibration->ids;
    int64_t low, high;
    quant_widths(method, options, &low, &high);
    NEED(*bits || low == high, ERR_USAGE, "--bits is missing: expected %lld to %lld for %s",
         (long long)low, (long long)high, method->name);
    if (!*bits) *bits = low;
    NEED(*bits == low || low < high, ERR_USAGE, "--bits %lld: %s has %lld bits", (long long)*bits,
         method->name, (long long)low);
    NEED(*bits >= low && *bits <= high, ERR_USAGE, "--bits %lld: expected %lld to %lld for %s",
         (long long)*bits, (long long)low, (long long)high, method->name);
    NEED(!calibrates || calibrated, ERR_USAGE,
         "%s calibrates: give --calibration-text or --calibration-ids", name);
    NEED(calibrates || !calibrated, ERR_USAGE,
         "--calibration-%s has no effect here: it goes with options of %s that calibrate",
         calibration->text ? "text" : "ids", name);
    out->bits = *bits;
    out->method.options = *options;
    PASS(mem_string(&out->method.name, name, e));
    PASS(mem_string(&out->method.method, name, e));
    return quant_check(name, options, bits, 1, e);
}

static enum status keep(void *context, const json_t *record, struct err *e)
{
    struct single *s = context;
    bool cell = strcmp(json_text(record, "type", ""), "cell") == 0;
    json_t **to = cell ? &s->cell : &s->checkpoint;
    NEED(*to = json_deep_copy(record), ERR_NOMEM, "out of memory for a record");
    return provenance_failure(record, e);
}

/* How far it is: a line that is rewritten on a terminal, or one every ten seconds in a log. */
static void tell(void *context, const char *what, double left, double once, bool last)
{
    enum { TERMINAL_SECONDS = 1, LOG_SECONDS = 10 };
    struct single *s = context;
    const double now = clock_seconds();
    char text[2 * QUANTITY + 40], spent[QUANTITY], rest[QUANTITY];
    (void)what;
    (void)once;
    if (last || now - s->printed < (s->terminal ? TERMINAL_SECONDS : LOG_SECONDS)) return;
    s->printed = now;
    quantity_time(now - s->start, spent);
    quantity_time(left, rest);
    snprintf(text, sizeof text, "%s spent, about %s left", spent, rest);
    log_progress(text, s->terminal);
}

/* What is doubtful about its texts; the cache keeps them for the visit. Anything that is wrong with
 * them is the visit's to say. */
static enum status warn_of_texts(const struct visit *v, struct visit_cache *cache, struct err *e)
{
    struct visit_inputs in;
    char text[400];
    int64_t written, positions = 0;
    if (visit_inputs_get(cache, v, &in, NULL) != OK ||
        visit_positions(v->weights.path, &written, &positions, NULL) != OK)
        return OK;
    if (v->n_evaluations == 1 &&
        doubt_of_number("evaluation", v->evaluations, in.texts, text, sizeof text))
        log_warn("%s: %s", v->checkpoint, text);
    warn_of_length(v->checkpoint, "evaluation", in.evaluation, 0, in.texts, positions);
    if (!in.calibration || v->n_variants == 0 ||
        !quant_calibrates(quant_find(v->variants[0].method.method), &v->variants[0].method.options))
        return OK;
    if (doubt_of_number("calibration", &v->calibration, in.calibration->n, text, sizeof text))
        log_warn("%s: %s", v->checkpoint, text);
    warn_of_length(v->checkpoint, "calibration", in.calibration, 0, in.calibration->n, positions);
    return warn_of_overlap(v, &in, e);
}

void single_numbers(struct single *s, const char *products, const char *rounding)
{
    s->visit.run.products = (int)products_of_word(products);
    for (int i = 0; rounding && rounding_words[i]; i++)
        if (strcmp(rounding_words[i], rounding) == 0) s->visit.run.rounding = i;
}

enum status single_run(struct single *s, const char *dir, const char *tokenizer, struct err *e)
{
    CLEANUP(visit_cache_free) struct visit_cache cache = {0};
    /* Of an unknown duration: the first blocks tell what the others take (engine/pace.h). */
    static const double planned[MEASURES_N] = {[MEASURE_cell] = 1};
    PASS(mem_string(&s->visit.model, "", e));
    PASS(mem_string(&s->visit.checkpoint, dir, e));
    PASS(mem_string(&s->visit.weights.path, dir, e));
    PASS(mem_string(&s->visit.key, "", e));
    if (tokenizer) PASS(mem_string(&s->visit.tokenizer, tokenizer, e));
    s->hooks.context = s;
    s->hooks.emit = keep;
    s->hooks.memory = cli_memory();
    s->hooks.ranks = 1;
    s->hooks.progress = tell;
    s->hooks.planned = planned;
    s->terminal = isatty(STDERR_FILENO);
    s->start = s->printed = clock_seconds();
    products_warn((enum products)s->visit.run.products);
    json_t *said = json_object();
    for (int64_t i = 0; i < s->visit.n_evaluations; i++)
        warn_of_json(&s->visit.evaluations[i], said);
    warn_of_json(&s->visit.calibration, said);
    json_decref(said);
    PASS(warn_of_texts(&s->visit, &cache, e));
    const enum status st = visit_run(&s->visit, MPI_COMM_SELF, &cache, &s->hooks, e);
    log_clear_line();
    return st;
}

json_t *single_number(const json_t *record, const char *key)
{
    const json_t *datasets = json_object_get(record, "datasets");
    double value = json_number_get(json_object_get(json_object_get(datasets, "evaluation"), key));
    return isfinite(value) ? json_real(value) : json_null();
}
