/* Makes the records of accuracies: of a checkpoint's, or of a cell's beside those of the
 * checkpoint. */
#include "util/mem.h"
#include "visit/visit_internal.h"

static void set_accuracy(json_t *values, const struct accuracy *x)
{
    record_number(values, "accuracy", x->accuracy);
    record_number(values, "accuracy_stderr", x->error);
    record_number(values, "accuracy_norm", x->norm);
    record_number(values, "accuracy_norm_stderr", x->norm_error);
    record_integer(values, "items", x->items);
}

static void set_change(json_t *values, const struct accuracy_change *x)
{
    record_number(values, "accuracy_delta", x->change);
    record_number(values, "accuracy_delta_stderr", x->error);
    record_number(values, "accuracy_degradation", x->degradation);
    record_integer(values, "items_lost", x->lost);
    record_integer(values, "items_gained", x->gained);
    record_number(values, "mcnemar_p", x->p);
}

static void set_answers(json_t *record, const struct run *r, const struct stream *s,
                        const char *task)
{
    const struct requests *q = r->inputs.requests;
    json_t *values = json_object_get(record, "values");
    const struct answers full = walk_answers(r, &r->full), own = walk_answers(r, s);
    const struct accuracy x = accuracy_of(q, &own, task);
    set_accuracy(values, &x);
    if (s->variant) {
        const struct accuracy_change change = accuracy_compare(q, &full, &own, task);
        set_change(values, &change);
    } else
        record_integer(values, "items_truncated", x.truncated);
    if (r->visit->log_likelihoods)
        json_object_set_new(record, "tables",
                            json_pack("{s:o}", "choices", answers_table(q, &own, task)));
}

json_t *record_accuracy(const struct part_context *c, const struct run *r, int64_t i,
                        const struct accuracy_wanted *of, const struct err *failure)
{
    const struct stream *s = i < 0 ? &r->full : &r->streams[i];
    if (failure->code == OK && s->st != OK) failure = &s->err;
    if (failure->code == OK) failure = &r->unanswered;
    json_t *record =
        provenance_record(&c->provenance, i < 0 ? "baseline_task" : "task", of->key, failure);
    json_object_del(record, "datasets");
    if (s->variant) {
        record_integer(record, "bits", s->variant->bits);
        json_object_set_new(record, "quantizer", json_string(s->variant->method.name));
    }
    json_object_set_new(record, "task", json_string(of->task));
    if (failure->code == OK) set_answers(record, r, s, of->task);
    return record;
}
