#include "run/run_lost_ranks.h"
#include "engine/wanted.h"
#include "records/results.h"
#include "util/mem.h"

/* --- what was delivered --- */

static uint64_t digest(const char *type, const char *key)
{
    char text[HASH_HEX + 32];
    int n = snprintf(text, sizeof text, "%s %s", type, key);
    return hash_u64(text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

enum status run_delivered_add(struct run_delivered *d, const json_t *record, struct err *e)
{
    const char *type = json_text(record, "type", ""), *key = json_text(record, "key", "");
    PASS(mem_grow(&d->records, d->n, &d->capacity, sizeof *d->records, e));
    /* one that failed needs no completion */
    const bool failed = strcmp(json_text(record, "status", ""), "failed") == 0;
    d->records[d->n++] = digest(type, key);
    if (!failed) return OK;
    PASS(mem_grow(&d->records, d->n, &d->capacity, sizeof *d->records, e));
    d->records[d->n++] = digest("completion", key);
    return OK;
}

static bool has(const struct run_delivered *d, const char *type, const char *key)
{
    const uint64_t wanted = digest(type, key);
    for (int64_t i = 0; i < d->n; i++)
        if (d->records[i] == wanted) return true;
    return false;
}

/* Whether a measure completes the cells' records, or the checkpoint's. */
static bool completes(const struct visit *v, bool of_checkpoint)
{
    bool any = false;
    for (int k = 0; k < MEASURES_N; k++)
        if (measures[k]->of_cells && v->setup[k])
            any = any || !of_checkpoint ||
                  (measures[k]->of_checkpoint && measures[k]->of_checkpoint(v->setup[k]));
    return any;
}

/* Whether nothing is left to do of the checkpoint or a variant; *scored: only its completion. */
static bool is_done(const struct run_delivered *d, const char *type, const char *key,
                    bool completed, bool *scored)
{
    if (has(d, type, key)) *scored = true;
    return *scored && (!completed || has(d, "completion", key));
}

static bool answered(const void *delivered, const char *key)
{
    bool any = false;
    for (int i = 0; recorded_measures[i]; i++)
        any = any || has(delivered, recorded_measures[i]->name, key);
    return any;
}

static bool part_done(const struct run_delivered *d, struct visit *v, int64_t batch)
{
    if (batch == 0) {
        wanted_drop(&v->records, answered, d);
        const bool done =
            v->cells_only || is_done(d, "checkpoint", v->key, completes(v, true), &v->scored);
        return done && !v->records;
    }
    if (batch <= v->n_variants) {
        struct variant *one = &v->variants[batch - 1];
        if (one->replicate > 0) return has(d, "replicate", one->key);
        wanted_drop(&one->records, answered, d);
        const bool done =
            one->complete || is_done(d, "cell", one->key, completes(v, false), &one->scored);
        return done && !one->records;
    }
    batch -= 1 + v->n_variants;
    for (int i = 0; i < MEASURES_N; i++)
        if (visit_has_batch(v, i) && batch-- == 0)
            return has(d, measures[i]->name, v->record_key[i]);
    return false;
}

void run_lost_ranks_keep(const struct run_delivered *d, struct visit *v, struct sched_loss *loss)
{
    int64_t n = 0;
    if (loss->n_parts == 0) {
        loss->again = !answered(d, v->key);
        return;
    }
    for (int64_t i = 0; i < loss->n_parts; i++)
        if (!part_done(d, v, loss->parts[i])) loss->parts[n++] = loss->parts[i];
    loss->n_parts = n;
    loss->again = n > 0;
}

enum status
run_lost_ranks_refuse(const struct visit *v, const struct sched_loss *loss, const char *reason,
                      enum status (*emit)(void *context, const json_t *record, struct err *e),
                      void *context, struct err *e)
{
    CLEANUP(visit_free) struct visit rest = {0};
    CLEANUP(visit_cache_free) struct visit_cache cache = {0};
    const struct visit_hooks hooks = {.context = context, .emit = emit, .refusal = reason};
    json_auto_t *json = visit_to_json(v);
    NEED(json, ERR_NOMEM, "out of memory for a visit");
    PASS(visit_from_json(json, &rest, e));
    if (loss->n_parts) visit_keep_batches(&rest, loss->parts, loss->n_parts);
    return visit_run(&rest, MPI_COMM_SELF, &cache, &hooks, e);
}
