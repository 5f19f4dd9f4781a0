/* Makes the records of a visit's checkpoint and cells. */
#include "engine/stored.h"
#include "engine/weights_greedy.h"
#include "model/rotated.h"
#include "records/scores.h"
#include "util/clock.h"
#include <math.h>
#include <stdlib.h>

json_t *record_datasets(const struct run *r, const struct scores *scores, enum metric_scope scope)
{
    json_t *datasets = json_object();
    const int64_t *first = r->inputs.first;
    for (int64_t i = 0; i < r->visit->n_evaluations; i++) {
        const char *name = r->visit->evaluations[i].name;
        char text[HASH_HEX];
        if (visit_text_key(r->visit, i, text)) name = text;
        json_object_set_new(datasets, name ? name : "evaluation",
                            metrics_record(r->inputs.evaluation, first[i], first[i + 1],
                                           scores->sum, r->full.scores.sum, scope));
    }
    return datasets;
}

/* Numbers of the whole texts alone: those of sequences and layers would make a journal as large as
 * all cells. */
static json_t *shorten(json_t *datasets)
{
    const char *name;
    json_t *one;
    json_object_foreach(datasets, name, one) json_object_del(one, "sequence_loss");
    return datasets;
}

/* Says of the texts that a record is done on, or of those among `wanted` (wanted.h) that a
 * completion adds, or why not. */
static void note_texts(json_t *to, const struct run *r, const char *wanted,
                       const struct err *failure)
{
    const struct visit *v = r->visit;
    for (int64_t i = 0; i < v->n_evaluations; i++) {
        const bool failed = failure->code != OK;
        char text[HASH_HEX], stamp[HASH_HEX] = "";
        if (!visit_text_key(v, i, text) || (wanted && !wanted_has(wanted, text))) continue;
        if (failed) visit_text_stamp(v, i, stamp);
        scores_note(to, text, v->evaluations[i].name, wanted, failed ? failure->text : NULL,
                    provenance_stamp(failure, stamp));
    }
}

json_t *record_texts(const struct part_context *c, const struct run *r, int64_t i,
                     const char *wanted, const struct err *failure)
{
    const struct stream *s = i < 0 ? &r->full : &r->streams[i];
    const struct variant *v = s->variant;
    if (failure->code == OK && s->st != OK) failure = &s->err;
    json_t *record =
        provenance_record(&c->provenance, "completion", v ? v->key : r->visit->key, NULL);
    json_t *all = failure->code == OK
                      ? record_datasets(r, &s->scores, v ? METRIC_CELL : METRIC_CHECKPOINT)
                      : json_object();
    json_t *completes = json_object(), *one;
    const char *text;
    void *next;
    note_texts(completes, r, wanted, failure);
    json_object_foreach_safe(all, next, text, one) {
        if (!wanted_has(wanted, text)) json_object_del(all, text);
    }
    if (v) {
        record_integer(record, "bits", v->bits);
        json_object_set_new(record, "quantizer", json_string(v->method.name));
    }
    json_object_del(record, "message");
    json_object_set_new(record, "datasets", v && v->replicate ? shorten(all) : all);
    json_object_set_new(record, "completes", completes);
    return record;
}

/* Time and memory that the visit has taken so far. */
static void set_checkpoint_costs(json_t *values, const struct part_context *c, const struct run *r)
{
    record_number(values, "seconds", clock_seconds() - c->start);
    record_number(values, "seconds_read", r->seconds_read);
    record_number(values, "seconds_forward", r->full.seconds.forward);
    record_number(values, "seconds_hessian", r->full.seconds.hessian);
    record_number(values, "seconds_head", r->seconds_head);
    record_number(values, "peak_memory", provenance_peak_memory());
    if (c->provenance.memory_planned)
        record_number(values, "planned_memory", (double)c->provenance.memory_planned);
}

/* Of one folder its digest, of several that of their names and digests. */
static void set_digest(json_t *record, const struct reads *reads)
{
    char hash[HASH_HEX];
    const json_t *all = reads->digests;
    json_t *one = json_object_iter_value(json_object_iter((json_t *)(uintptr_t)all));
    char *text = json_object_size(all) > 1 ? json_dump_whole(all, JSON_SORT_KEYS) : NULL;
    if (text) hash_text(text, hash);
    json_object_set_new(json_object_get(record, "provenance"), "weights_digest",
                        text ? json_string(hash) : json_incref(one));
    free(text);
}

/* Which members of a greedy soup were chosen, and by which losses. */
static void set_choice(json_t *record, const json_t *choice)
{
    if (!choice) return;
    json_object_set(record, "soup_text", json_object_get(choice, "text"));
    json_object_set(record, "soup_members", json_object_get(choice, "members"));
    json_object_set(json_object_get(record, "values"), "soup_loss",
                    json_object_get(choice, "loss"));
    json_object_set_new(record, "tables",
                        json_pack("{s:O}", "candidates", json_object_get(choice, "candidates")));
}

json_t *record_checkpoint(const struct part_context *c, const struct run *r,
                          const struct err *failure)
{
    json_t *record = provenance_record(&c->provenance, "checkpoint", r->visit->key, failure);
    json_t *values = json_object_get(record, "values");
    set_checkpoint_costs(values, c, r);
    if (failure->code != OK) return record;
    set_choice(record, c->choice->record);
    set_digest(record, c->provenance.reads);
    record_integer(values, "parameters", model_shape(r->model)->parameters);
    record_integer(values, "parameters_non_embedding",
                   model_shape(r->model)->parameters_non_embedding);
    record_number(values, "weight_norm", r->weight_norm);
    json_object_set_new(record, "datasets", record_datasets(r, &r->full.scores, METRIC_CHECKPOINT));
    note_texts(json_object_get(record, "provenance"), r, NULL, failure);
    return record;
}

static json_t *layer_new(const struct layer_report *l)
{
    json_t *layer = json_pack("{s:s}", "name", l->name);
    record_number(layer, "error", l->report.error);
    record_number(layer, "relative_error", l->report.relative_error);
    record_number(layer, "damping", l->report.damping);
    record_number(layer, "squared_distance", l->report.squared_distance);
    return layer;
}

static void set_cell_values(json_t *values, const struct stream *s)
{
    record_number(values, "weight_distance", sqrt(s->squared_distance));
    record_number(values, "bits_per_weight", s->bits / s->weights);
    record_number(values, "seconds_forward", s->seconds.forward);
    record_number(values, "seconds_hessian", s->seconds.hessian);
    record_number(values, "seconds_factor", s->seconds.factor);
    record_number(values, "seconds_sweep", s->seconds.sweep);
    record_number(values, "seconds_read", s->seconds.read);
    record_number(values, "seconds_head", s->seconds.head);
    record_number(values, "seconds",
                  s->seconds.forward + s->seconds.hessian + s->seconds.factor + s->seconds.sweep);
    record_number(values, "peak_memory", provenance_peak_memory());
}

/* How many sequences it was calibrated on, where they are fewer than were asked for. */
static void note_calibration(json_t *provenance, const struct run *r, const struct variant *v)
{
    const struct sequences *s = r->inputs.calibration;
    const struct method_entry *m = &v->method;
    if (s && s->n < r->visit->calibration.samples && !r->visit->calibration.tokens &&
        quant_calibrates(quant_find(m->method), &m->options))
        record_integer(provenance, "calibration_sequences", s->n);
}

json_t *record_cell(const struct part_context *c, const struct run *r, int64_t i,
                    const struct err *failure)
{
    const struct stream *s = &r->streams[i];
    if (failure->code == OK) failure = &s->err;
    const int64_t replicate = s->variant->replicate;
    json_t *record = provenance_record(&c->provenance, replicate ? "replicate" : "cell",
                                       s->variant->key, failure);
    record_integer(record, "bits", s->variant->bits);
    json_object_set_new(record, "quantizer", json_string(s->variant->method.name));
    if (replicate) record_integer(record, "replicate", replicate);
    if (s->stored && s->stored->checkpoint)
        json_object_set_new(json_object_get(record, "provenance"), "quantized_hash",
                            json_string(checkpoint_hash(s->stored->checkpoint)));
    if (s->turned) {
        char text[ROTATION_TEXT];
        model_rotation_text(s->turned, text);
        json_object_set_new(json_object_get(record, "provenance"), "rotation", json_string(text));
    }
    json_auto_t *layers = json_array();
    if (!replicate) json_object_set(record, "layers", layers);
    if (failure->code == OK) {
        set_cell_values(json_object_get(record, "values"), s);
        for (int64_t l = 0; l < s->n_layers; l++)
            json_array_append_new(layers, layer_new(&s->layers[l]));
        json_t *datasets = record_datasets(r, &s->scores, METRIC_CELL);
        json_object_set_new(record, "datasets", replicate ? shorten(datasets) : datasets);
        json_t *provenance = json_object_get(record, "provenance");
        note_texts(provenance, r, NULL, failure);
        note_calibration(provenance, r, s->variant);
        const char *drawn = r->visit->drawn_texts ? r->visit->drawn_texts : r->visit->texts;
        if (replicate && drawn) json_object_set_new(provenance, "drawn", json_string(drawn));
    }
    return record;
}

json_t *record_completion(const struct part_context *c, const struct run *r, int64_t i,
                          const struct err *failure)
{
    const struct variant *v = i < 0 ? NULL : r->streams[i].variant;
    json_t *record =
        provenance_record(&c->provenance, "completion", v ? v->key : r->visit->key, NULL);
    json_t *values = json_object_get(record, "values");
    json_object_del(record, "datasets");
    json_object_set_new(record, "completes", json_object());
    if (v) {
        record_integer(record, "bits", v->bits);
        json_object_set_new(record, "quantizer", json_string(v->method.name));
        json_object_set_new(record, "layers", json_object());
        record_number(values, "peak_memory", provenance_peak_memory());
    } else if (!r->visit->scored) {
        set_checkpoint_costs(values, c, r);
    }
    parts_annotate(c, v, failure, record);
    return record;
}

/* --- what is measured of the checkpoint itself, with its cells --- */

#define CHECKPOINT_FIELD(metric, name, type, units, text)                                          \
    {#name, "baseline_" #name, IN_INNER, FIELD_##type, STABLE, units, text},

static const struct field fields[] = {
    {STATUS_FIELD("checkpoint_status")},
    {MESSAGE_FIELD("checkpoint_message")},
    {"weights_hash", "weights_hash", IN_PROVENANCE, FIELD_TEXT, STABLE, NULL,
     "digest of config.json and of samples of the checkpoint's weights"},
    {"weights_digest", "weights_digest", IN_PROVENANCE, FIELD_TEXT, STABLE, NULL,
     "digest of all bytes of the weights that were read"},

    {"soup_text", "soup_text", IN_RECORD, FIELD_TEXT, STABLE, NULL,
     "text that the members of a greedy soup are chosen by"},
    {"soup_members", "soup_members", IN_RECORD, FIELD_TEXT, STABLE, NULL,
     "members of a greedy soup, the best first"},

    {"soup_loss", "soup_loss", IN_VALUES, FIELD_REAL, STABLE, "nat",
     "cross-entropy per token of a greedy soup on the text that it is chosen by"},
    {"parameters", "parameters", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "parameters, embeddings included"},
    {"parameters_non_embedding", "parameters_non_embedding", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "parameters without the token embeddings and the output matrix"},
    {"weight_norm", "weight_norm", IN_VALUES, FIELD_REAL, STABLE, "1",
     "Euclidean norm of the weights that quantization changes"},
    {"critical_sharpness", "critical_sharpness", IN_VALUES, FIELD_REAL, STABLE, "1",
     "2/step at which the loss begins to rise along the direction from the previous checkpoint, in "
     "units "
     "of that way, on curvature's tokens"},
    {SECONDS_FIELD("seconds", "checkpoint_seconds", "wall time of the visit of the checkpoint")},
    {SECONDS_FIELD("seconds_read", "checkpoint_seconds_read", "time spent waiting for weights")},
    {SECONDS_FIELD("seconds_forward", "checkpoint_seconds_forward",
                   "time of the full-precision forward pass")},
    {SECONDS_FIELD("seconds_hessian", "checkpoint_seconds_hessian",
                   "time of the Hessian sums that variants share")},
    {SECONDS_FIELD("seconds_head", "checkpoint_seconds_head",
                   "time at the output matrix, all variants together")},
    {"peak_memory", "checkpoint_peak_memory", IN_VALUES, FIELD_REAL, VOLATILE, "byte",
     "peak resident memory of a process of the group so far"},
    {"planned_memory", "checkpoint_planned_memory", IN_VALUES, FIELD_REAL, VOLATILE, "byte",
     "peak memory that the visit was planned to take"},

    METRIC_CHECKPOINT_FIELDS(CHECKPOINT_FIELD) RECORD_FIELDS,
};

static const struct field candidates[] = {
    {"candidate", "candidate", IN_LIST, FIELD_TEXT, STABLE, NULL,
     "checkpoint that a greedy soup may have as a member, in the order of trial"},
    {"heldout_loss", "heldout_loss", IN_LIST, FIELD_REAL, STABLE, "nat",
     "its own cross-entropy per token on the text that the soup is chosen by"},
    {"soup_loss", "soup_loss", IN_LIST, FIELD_REAL, STABLE, "nat", "that of the soup with it"},
    {"kept", "kept", IN_LIST, FIELD_INTEGER, STABLE, "1", "1: it is a member; 0: it is not"},
    {0},
};

static const struct record_table tables[] = {
    {"candidates", "soup_candidates", candidates},
    {0},
};

const struct measure measure_checkpoint = {
    .name = "checkpoint",
    .group = "checkpoints",
    .axes = {&axis_model, &axis_checkpoint},
    .inner = &axis_dataset,
    .fields = fields,
    .sequences = true,
    .tables = tables,
    .plan_key = "key",
    .number = "checkpoint_number",
    .number_long_name = "number of the checkpoint",
    .axis_long_names = {"trajectory of the checkpoint", "name of the checkpoint"},
    .whole_grid = true,
    .report = REPORT_NONE,
    .noun = "checkpoints",
};
