/* The loops over the measures that a visit does. */
#include "engine/visit_internal.h"
#include "engine/wanted.h"
#include "util/clock.h"

/* Whether any variant lacks its record. */
static bool wanted_of_cells(const struct visit *v, const char *name)
{
    bool any = false;
    for (int64_t i = 0; i < v->n_variants; i++)
        any = any || wanted_count(v->variants[i].records, name, NULL) > 0;
    return any;
}

bool visit_wants(const struct visit *v, int i)
{
    const struct measure *m = measures[i];
    bool any = !m->takes;
    if (m->cell_key) return wanted_of_cells(v, m->name);
    if (m->wanted) return m->wanted(v);
    for (int64_t k = 0; k < v->n_variants && !any; k++) any = m->takes(v, &v->variants[k]);
    return any && v->setup[i];
}

/* Whether the part wants the weights of a variant. */
static bool part_takes(const struct visit *visit, int i, const struct variant *v)
{
    if (!v) return false;
    if (measures[i]->takes) return measures[i]->takes(visit, v);
    if (measures[i]->cell_key) return wanted_count(v->records, measures[i]->name, NULL) > 0;
    return measures[i]->of_cells ? variant_is_completed(v) : v->replicate == 0;
}

enum status parts_begin(struct part_context *c, struct err *e)
{
    for (int i = 0; i < MEASURES_N; i++)
        if (measures[i]->begin && visit_wants(c->visit, i)) PASS(measures[i]->begin(c, e));
    return OK;
}

enum status parts_linear(void *context, const struct variant *v, const struct linear *l,
                         const float *q, const struct quant_grids *grids, struct err *e)
{
    struct part_context *c = context;
    for (int i = 0; i < MEASURES_N; i++) {
        if (!measures[i]->linear || !visit_wants(c->visit, i) || !part_takes(c->visit, i, v))
            continue;
        PASS(method_entry_check_weights(&v->method, measures[i]->name, e));
        PASS(measures[i]->linear(c, v, l, q, grids, e));
    }
    if (!c->hooks->weights) return OK;
    PASS(method_entry_check_weights(&v->method, "weights", e));
    return c->hooks->weights(c->hooks->context, v, l, q, grids, e);
}

void parts_move(const struct part_context *c, const struct variant *v, struct saved_move *m)
{
    struct part_context *own = (struct part_context *)(uintptr_t)c;
    for (int i = 0; i < MEASURES_N; i++) {
        const size_t size = measures[i]->state_of_variant;
        if (!visit_wants(c->visit, i) ||
            (measures[i]->observe ? v != NULL : !part_takes(c->visit, i, v)))
            continue;
        if (measures[i]->move) measures[i]->move(own, v, m);
        if (size)
            saved_bytes(m, (char *)c->state[i] + (size_t)(v - c->visit->variants) * size, size);
    }
}

json_t *part_record(const struct part_context *c, int i, const struct err *failure)
{
    struct provenance from = c->provenance;
    if (measures[i]->by_ranks) from.fingerprint = c->ranks_fingerprint;
    from.stamp = c->stamp[i];
    json_t *record = provenance_record(&from, measures[i]->name, c->visit->record_key[i], failure);
    json_object_del(record, "datasets");
    record_number(json_object_get(record, "values"), "seconds", clock_seconds() - c->began[i]);
    return record;
}

static json_t *record_of_cell(const struct part_context *c, int i, const struct variant *v,
                              const char *key, const struct err *failure)
{
    json_t *record = provenance_record(&c->provenance, measures[i]->name, key, failure);
    json_object_del(record, "datasets");
    record_integer(record, "bits", v->bits);
    json_object_set_new(record, "quantizer", json_string(v->method.name));
    return record;
}

enum status parts_emit_of_cells(const struct part_context *c, int i, const struct err *failure,
                                struct err *e)
{
    for (int64_t k = 0; k < c->visit->n_variants; k++) {
        const struct variant *v = &c->visit->variants[k];
        const struct err *why = failure->code != OK ? failure : cells_failure(c, k);
        char key[HASH_HEX];
        if (!wanted_count(v->records, measures[i]->name, key)) continue;
        json_t *record = record_of_cell(c, i, v, key, why);
        const enum status st = why->code == OK ? measures[i]->fill(c, v, record, e) : OK;
        if (st != OK) json_decref(record);
        PASS(st);
        PASS(part_emit(c, record, e));
    }
    return OK;
}

bool parts_complete(const struct visit *v)
{
    for (int i = 0; i < MEASURES_N; i++)
        if (measures[i]->of_cells && visit_wants(v, i)) return true;
    return false;
}

void parts_annotate(const struct part_context *c, const struct variant *v,
                    const struct err *failure, json_t *record)
{
    for (int i = 0; i < MEASURES_N; i++)
        if (measures[i]->annotate && visit_wants(c->visit, i))
            measures[i]->annotate(c, v, failure, record);
}

bool parts_movable(const struct visit *v)
{
    bool all = true;
    for (int i = 0; i < MEASURES_N; i++)
        all = all && (!measures[i]->linear || measures[i]->move || measures[i]->state_of_variant ||
                      !visit_wants(v, i));
    return all;
}

bool parts_want_grids(const struct visit *v)
{
    bool any = false;
    for (int i = 0; i < MEASURES_N; i++) any = any || (measures[i]->grids && visit_wants(v, i));
    return any;
}

bool parts_score(const char *records)
{
    struct wanted one;
    bool any = false;
    while (wanted_next(&records, &one)) any = any || measure_find(one.measure)->scored;
    return any;
}
