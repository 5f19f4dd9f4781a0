#include "visit/visit_internal.h"
#include <math.h>
#include <string.h>

static void set_number(json_t *object, const char *name, double value)
{
    json_object_set_new(object, name, json_number_new(value));
}

static void set_integer(json_t *object, const char *name, int64_t value)
{
    json_object_set_new(object, name, json_integer((json_int_t)value));
}

static json_t *dataset_new(const struct loss_summary *s)
{
    json_t *d = json_object();
    set_number(d, "loss", s->loss);
    set_number(d, "perplexity", s->perplexity);
    set_number(d, "bits_per_byte", s->bits_per_byte);
    json_object_set_new(d, "sequence_loss", json_numbers_new(s->sequence_loss, s->n));
    return d;
}

static const char *dataset_name(const struct visit_outcome *o, int64_t i)
{
    const char *name = o->common.visit->evaluations[i].name;
    return name ? name : "evaluation";
}

/* Whether it was made or not, the record says for which settings, so that it is tried once. */
static void set_second_order(json_t *record, const struct visit_outcome *o,
                             const struct second_order_result *r)
{
    json_t *values = json_object_get(record, "values");
    json_object_set_new(json_object_get(record, "provenance"), "second_order",
                        json_string(o->common.visit->second_order->identity));
    if (r->failure) json_object_set_new(record, "message", json_string(r->failure));
    if (!r->done) return;
    if (r->critical.passes) set_number(values, "critical_sharpness", r->critical.sharpness);
    if (o->second_order == r) return; /* of the checkpoint itself */
    const struct prediction *p = &r->prediction;
    set_number(values, "true_difference", r->true_difference);
    set_number(values, "seconds_second_order", r->seconds);
    if (!p->n_tensors) return;
    set_number(values, "first_order", p->first_order);
    set_number(values, "second_order", p->second_order);
    set_number(values, "curvature_along_delta", 2 * p->second_order / p->squared_norm);
}

enum status record_checkpoint(const struct visit_outcome *o, const struct err *failure,
                              json_t **out, struct err *e)
{
    enum status st = OK;
    json_t *record = provenance_record(&o->common, "checkpoint", o->common.visit->key, failure);
    ENSURE(record, ERR_NOMEM, "out of memory for a record");
    json_t *values = json_object_get(record, "values");
    set_number(values, "seconds", o->seconds);
    set_number(values, "seconds_read", o->seconds_read);
    set_number(values, "seconds_forward", o->seconds_forward);
    set_number(values, "seconds_hessian", o->seconds_hessian);
    set_number(values, "seconds_head", o->seconds_head);
    set_number(values, "peak_memory", provenance_peak_memory());
    if (o->common.memory_planned)
        set_number(values, "planned_memory", (double)o->common.memory_planned);
    if (failure && failure->code != OK) goto done;
    set_integer(values, "parameters", model_shape(o->model)->parameters);
    set_integer(values, "parameters_non_embedding",
                model_shape(o->model)->parameters_non_embedding);
    if (o->second_order) set_second_order(record, o, o->second_order);
    set_number(values, "weight_norm", o->weight_norm);
    for (int64_t i = 0; i < o->common.visit->n_evaluations; i++) {
        json_t *d = dataset_new(&o->full[i]);
        set_number(d, "loss_stderr", o->full[i].loss_stderr);
        set_integer(d, "tokens", o->full[i].tokens);
        set_integer(d, "bytes", o->full[i].bytes);
        json_object_set_new(json_object_get(record, "datasets"), dataset_name(o, i), d);
    }
done:
    *out = record;
    return st;
}

enum status record_point(const struct visit_outcome *o, const struct err *failure, json_t **out,
                         struct err *e)
{
    enum status st = OK;
    const struct surface_task *t = o->common.visit->surface;
    json_t *record = provenance_record(&o->common, "point", o->common.visit->key, failure);
    ENSURE(record, ERR_NOMEM, "out of memory for a record");
    json_object_set_new(record, "surface", json_string(t->surface));
    json_object_set_new(record, "point", json_string(t->point ? t->point : ""));
    json_t *values = json_object_get(record, "values");
    set_number(values, "seconds", o->seconds);
    if (failure && failure->code != OK) goto done;
    set_number(values, "a", o->place.a);
    set_number(values, "b", o->place.b);
    set_number(values, "alpha", o->place.alpha);
    set_number(values, "beta", o->place.beta);
    set_number(values, "share_1", o->place.share[0]);
    set_number(values, "share_2", o->place.share[1]);
    set_number(values, "loss", o->full[0].loss);
    set_number(values, "loss_stderr", o->full[0].loss_stderr);
done:
    *out = record;
    return st;
}

/* What the expansion says of one layer. */
static void set_layer_prediction(json_t *layer, const struct second_order_result *r,
                                 const char *name)
{
    int64_t t = 0;
    while (t < r->n_tensors && strcmp(r->names[t], name) != 0) t++;
    if (t == r->n_tensors) return;
    const struct prediction_part *p = &r->prediction.parts[t];
    set_number(layer, "first_order", p->first_order);
    set_number(layer, "second_order", p->second_order);
    if (!isnan(p->diagonal)) set_number(layer, "diagonal", p->diagonal);
}

static json_t *layer_new(const struct layer_report *l, const struct second_order_result *r)
{
    json_t *layer = json_pack("{s:s}", "name", l->name);
    set_number(layer, "error", l->report.error);
    set_number(layer, "relative_error", l->report.relative_error);
    set_number(layer, "damping", l->report.damping);
    set_number(layer, "squared_distance", l->report.squared_distance);
    if (r && r->done) set_layer_prediction(layer, r, l->name);
    return layer;
}

static void set_cell_values(json_t *values, const struct visit_outcome *o, const struct stream *s)
{
    set_number(values, "weight_distance", sqrt(s->squared_distance));
    set_number(values, "bits_per_weight", s->bits / s->weights);
    set_number(values, "seconds_forward", s->seconds.forward);
    set_number(values, "seconds_hessian", s->seconds.hessian);
    set_number(values, "seconds_factor", s->seconds.factor);
    set_number(values, "seconds_sweep", s->seconds.sweep);
    /* Reading and the head serve all streams of the visit at once. */
    double streams = 1 + (double)o->common.visit->n_variants;
    set_number(values, "seconds_read", o->seconds_read / streams);
    set_number(values, "seconds_head", o->seconds_head / streams);
    set_number(values, "seconds",
               s->seconds.forward + s->seconds.hessian + s->seconds.factor + s->seconds.sweep);
    set_number(values, "peak_memory", provenance_peak_memory());
}

enum status record_cell(const struct visit_outcome *o, const struct stream *s,
                        const struct loss_summary *summaries, const struct paired_summary *paired,
                        const struct err *failure, json_t **out, struct err *e)
{
    enum status st = OK;
    json_t *record = provenance_record(&o->common, "cell", s->variant->key, failure);
    ENSURE(record, ERR_NOMEM, "out of memory for a record");
    set_integer(record, "bits", s->variant->bits);
    json_object_set_new(record, "quantizer", json_string(s->variant->method.name));
    json_t *layers = json_array();
    json_object_set_new(record, "layers", layers);
    if (failure && failure->code != OK) goto done;
    set_cell_values(json_object_get(record, "values"), o, s);
    if (s->second_order) set_second_order(record, o, s->second_order);
    for (int64_t i = 0; i < s->n_layers; i++)
        json_array_append_new(layers, layer_new(&s->layers[i], s->second_order));
    for (int64_t i = 0; i < o->common.visit->n_evaluations; i++) {
        json_t *d = dataset_new(&summaries[i]);
        set_number(d, "loss_delta", paired[i].delta);
        set_number(d, "loss_delta_stderr", paired[i].delta_stderr);
        set_number(d, "loss_relative", paired[i].relative);
        set_number(d, "loss_relative_stderr", paired[i].relative_stderr);
        set_number(d, "kl_divergence", paired[i].kl_divergence);
        set_number(d, "top1_agreement", paired[i].top1_agreement);
        json_object_set_new(json_object_get(record, "datasets"), dataset_name(o, i), d);
    }
done:
    *out = record;
    return st;
}
