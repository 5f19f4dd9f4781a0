/* What the engine does for other parts: it runs a checkpoint through the blocks beside the visit's.
 */
#include "engine/visit_internal.h"

/* Runs checkpoint c through the blocks as visit v describes it; sets *datasets (of the variant, if
 * v has one) and *planned (see part_engine) unless they are NULL. The failure of a variant is
 * returned. */
static enum status streams_checkpoint(const struct part_context *context, struct checkpoint *c,
                                      const struct visit *v, const struct weights_sink *sink,
                                      json_t **datasets, int64_t *planned, struct err *e)
{
    CLEANUP(model_close_at) struct model *model = NULL;
    CLEANUP(streams_free) struct run r = {0};
    enum status st = model_open(c, &model, e);
    if (st == OK) visit_set_numbers(context, model);
    if (st == OK) st = streams_init(&r, context, v, model, e);
    PASS(group_agree(context->group, st, e));
    r.sink = sink;
    if (datasets && v->evaluations == context->visit->evaluations) r.pace = context->pace;
    PASS(streams_prepare(&r, e));
    PASS(streams_run(&r, e));
    for (int64_t i = 0; i < r.n; i++)
        NEED(r.streams[i].st == OK, r.streams[i].st, "%s", r.streams[i].err.text);
    if (datasets && r.n) *datasets = record_datasets(&r, &r.streams[0].scores, METRIC_CELL);
    if (datasets && !r.n) *datasets = record_datasets(&r, &r.full.scores, METRIC_CHECKPOINT);
    if (planned) *planned = streams_planned(&r);
    return OK;
}

static enum status quantize(const struct part_context *context, struct checkpoint *c,
                            const struct variant *variant, const struct weights_sink *sink,
                            struct err *e)
{
    struct visit v = *context->visit; /* shallow */
    v.n_variants = 1;
    v.variants = (struct variant *)(uintptr_t)variant;
    v.n_evaluations = 0;
    v.requests.tasks = NULL;
    PASS(method_entry_check_weights(&variant->method, "a quantized model's weights", e));
    return streams_checkpoint(context, c, &v, sink, NULL, NULL, e);
}

static enum status evaluate(const struct part_context *context, struct checkpoint *c,
                            json_t **datasets, int64_t *planned, struct err *e)
{
    struct visit v = *context->visit; /* shallow */
    v.n_variants = 0;
    v.requests.tasks = NULL;
    return streams_checkpoint(context, c, &v, NULL, datasets, planned, e);
}

static enum status judge(const struct part_context *context, struct checkpoint *c,
                         const struct weights *w, double *loss, struct err *e)
{
    json_auto_t *datasets = NULL;
    struct visit v = *context->visit; /* shallow */
    v.requests.tasks = NULL;
    v.evaluations = (struct data_options *)(uintptr_t)&w->heldout;
    v.n_evaluations = 1;
    v.calibration = w->calibration;
    v.variants = (struct variant *)(uintptr_t)&w->variant;
    v.n_variants = w->variant.method.method != NULL;
    PASS(streams_checkpoint(context, c, &v, NULL, &datasets, NULL, e));
    *loss = json_number_get(
        json_object_get(json_object_iter_value(json_object_iter(datasets)), "loss"));
    return OK;
}

const struct part_engine streams_engine = {
    .quantize = quantize, .evaluate = evaluate, .judge = judge, .complete = cells_complete};
