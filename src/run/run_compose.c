#include "run/run_compose.h"
#include "records/complete.h"
#include "records/measures.h"
#include "records/part_files.h"
#include "util/fsx.h"
#include "util/mem.h"

struct compose_source {
    struct journal *journal; /* NULL: the run's own */
    struct results_view *view;
};

void run_compose_free(struct run_compose *c)
{
    for (int64_t i = 0; i < c->n; i++) {
        results_view_close(c->sources[i].view);
        journal_close(c->sources[i].journal);
    }
    free(c->sources);
    *c = (struct run_compose){0};
}

/* path NULL: the run's own journal. */
static enum status add_source(struct run_compose *c, const struct run_journal *own,
                              const char *path, struct err *e)
{
    if (path && (!fsx_is_file(path) || fsx_same(path, own->path))) return OK;
    PASS(mem_grow(&c->sources, c->n, &c->capacity, sizeof *c->sources, e));
    struct compose_source *s = &c->sources[c->n++];
    *s = (struct compose_source){0};
    if (path) PASS(journal_open_beside(path, &s->journal, e));
    return results_view_of_journal(path ? s->journal : own->journal, VIEW_BY_LINE, &s->view, e);
}

static enum status open_sources(struct run_compose *c, const struct run_journal *own,
                                const char *results, struct err *e)
{
    CLEANUP(parts_free) struct part_places all = {0};
    if (c->open) return OK;
    c->open = true;
    PASS(add_source(c, own, NULL, e));
    PASS(parts_of(results, &all, e));
    for (int64_t i = 0; i < all.n; i++) PASS(add_source(c, own, all.part[i].journal, e));
    return OK;
}

/* *out (the caller's) = the records that the parts are from, in their order; null: from none.
 * *all: they are there. */
static enum status read_sources(const struct run_compose *c, const json_t *parts, json_t **out,
                                bool *all, struct err *e)
{
    json_t *one, *record;
    size_t i;
    *out = json_array();
    *all = true;
    json_array_foreach(parts, i, one) {
        const char *key = json_text(one, "from", NULL);
        record = NULL;
        for (int64_t k = 0; key && k < c->n && !record; k++)
            if (result_state_of(results_view_find(c->sources[k].view, key)) == STATE_DONE)
                PASS(results_view_read(c->sources[k].view, key, &record, e));
        *all = *all && (!key || record);
        json_array_append_new(*out, record ? record : json_null());
    }
    return json_whole(e);
}

/* Whether a source is of other weights than the record. */
static bool differs(const json_t *record, const json_t *source)
{
    const json_t *own = json_object_get(record, "provenance"),
                 *other = json_object_get(source, "provenance");
    const char *name;
    json_t *digest;
    if (strcmp(json_text(own, "weights_hash", ""), json_text(other, "weights_hash", "")) != 0)
        return true;
    json_object_foreach(json_object_get(own, "weights_read"), name, digest) {
        const json_t *had = json_object_get(json_object_get(other, "weights_read"), name);
        if (had && !json_equal(had, digest)) return true;
    }
    return false;
}

static bool any_differs(const json_t *record, const json_t *sources)
{
    const json_t *one;
    size_t i;
    json_array_foreach(sources, i, one)
        if (json_is_object(one) && differs(record, one)) return true;
    return false;
}

/* Puts the record together, which is the caller's alone. */
static enum status join(json_t *record, const json_t *parts, const json_t *sources, struct err *e)
{
    const struct measure *of = measure_find(json_text(record, "type", ""));
    json_t *one;
    size_t i;
    PASS(of->parts->compose(record, parts, sources, e));
    json_array_foreach(sources, i, one)
        if (json_is_object(one)) completion_fingerprint(record, one);
    return json_whole(e);
}

enum status run_compose(struct run_compose *c, const struct run_journal *own, const char *results,
                        const json_t *record, json_t **out, struct err *e)
{
    json_auto_t *sources = NULL, *whole = NULL;
    const json_t *parts = json_object_get(json_object_get(record, "provenance"), "parts");
    bool all;
    *out = json_incref((json_t *)(uintptr_t)record);
    if (!parts || result_state_of(record) != STATE_DONE) return OK;
    PASS(open_sources(c, own, results, e));
    PASS(read_sources(c, parts, &sources, &all, e));
    whole = json_deep_copy(record);
    PASS(json_whole(e));
    if (!all || any_differs(record, sources)) {
        /* The parts are taken from other weights: nothing of the record counts. */
        json_object_del(whole, "tables");
        json_object_set_new(whole, "status", json_string("failed"));
        json_object_set_new(
            whole, "message",
            json_string("its parts are of other weights: start the run again, with --redo if that "
                        "does not help"));
        json_object_set_new(whole, "values", json_object());
        json_object_set_new(json_object_get(whole, "provenance"), "inputs", json_string("changed"));
    } else
        PASS(join(whole, parts, sources, e));
    json_decref(*out);
    *out = TAKE(whole);
    return json_whole(e);
}

enum status run_compose_whole(struct run_compose *c, const struct plan *p, struct run_journal *own,
                              bool *any, struct err *e)
{
    const json_t *one;
    size_t i;
    *any = false;
    if (json_array_size(p->composed) == 0) return OK;
    PASS(open_sources(c, own, p->sweep->results, e));
    json_array_foreach(p->composed, i, one) {
        /* All parts are others'. The rest is that of the first. */
        json_auto_t *sources = NULL, *record = NULL;
        json_t *parts = json_object_get(one, "parts");
        bool all;
        PASS(read_sources(c, parts, &sources, &all, e));
        if (!all) continue; /* the next run computes it */
        record = json_deep_copy(json_array_get(sources, 0));
        PASS(json_whole(e));
        json_object_set(record, "key", json_object_get(one, "key"));
        json_object_set(json_object_get(record, "provenance"), "parts", parts);
        if (any_differs(record, sources)) continue;
        PASS(join(record, parts, sources, e));
        PASS(run_journal_append(own, record, e));
        *any = true;
    }
    return OK;
}
