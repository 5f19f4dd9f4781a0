#include "run/merge.h"
#include "records/complete.h"
#include "records/rows.h"
#include "records/scores.h"
#include "records/weights_read.h"
#include "run/merge_source.h"
#include "util/mem.h"
#include <stdio.h>

struct merge {
    int64_t n, capacity;
    struct merge_source *sources; // (n)
    json_t *weights;              /* the newest of each checkpoint (weights_read.h) */
    json_t *former, *keys;        /* those of all sources, and what places with such are now */
};

enum status merge_new(struct merge **out, struct err *e)
{
    PASS(mem_zero(out, 1, sizeof **out, "a merge", e));
    (*out)->weights = json_object();
    (*out)->former = json_object();
    (*out)->keys = json_object();
    return json_whole(e);
}

void merge_free(struct merge *m)
{
    if (!m) return;
    for (int64_t i = 0; i < m->n; i++) merge_source_free(&m->sources[i]);
    free(m->sources);
    json_decref(m->weights);
    json_decref(m->former);
    json_decref(m->keys);
    free(m);
}

int64_t merge_damaged(const struct merge *m)
{
    int64_t n = 0;
    for (int64_t i = 0; i < m->n; i++) {
        if (!m->sources[i].journal) continue;
        const struct journal_damage d = journal_damage(m->sources[i].journal);
        n += d.lines + d.tail_lines;
    }
    return n;
}

bool merge_of_journals(const struct merge *m)
{
    for (int64_t i = 0; i < m->n; i++)
        if (m->sources[i].view) return false;
    return true;
}

const json_t *merge_plan_of(const struct merge *m, int64_t i)
{
    return m->sources[i].plan;
}

enum status merge_add(struct merge *m, const char *path, struct err *e)
{
    PASS(mem_grow(&m->sources, m->n, &m->capacity, sizeof *m->sources, e));
    struct merge_source *s = &m->sources[m->n++];
    *s = (struct merge_source){0};
    PASS(merge_source_open(s, path, m->weights, e));
    json_object_update(m->former, s->former);
    /* Two sweeps have two plans, of which a cube could only show one. */
    const char *name = json_text(s->plan, "name", "");
    for (int64_t i = 0; s->plan && i < m->n; i++) {
        const struct merge_source *other = &m->sources[i];
        if (!other->plan || other == s) continue;
        NEED(strcmp(json_text(other->plan, "name", ""), name) == 0, ERR_USAGE,
             "%s: results of the sweep %s, but %s are of the sweep %s; merge results of one sweep",
             s->name, name, other->name, json_text(other->plan, "name", ""));
    }
    return OK;
}

/* --- the order in which records are preferred --- */

/* A record with what decides between it and another one of its key. */
struct attempt {
    json_t *record; /* owned */
    char *text;     /* of it, as a journal has it */
    size_t length;
};

static void attempt_free(struct attempt *a)
{
    json_decref(a->record);
    free(a->text);
    *a = (struct attempt){0};
}

static int sign(int64_t x)
{
    return (x > 0) - (x < 0);
}

/* Whether a is preferred: one that is done; with more numbers (a cube's, with its prediction);
 * newer; then any fixed order, but that a record of a journal has more text than that of its cube.
 * Of losses the one that counts the most. */
static bool precedes(const struct attempt *a, const struct attempt *b)
{
    const bool result = measure_find(json_text(a->record, "type", "")) != NULL;
    const json_t *x = json_object_get(a->record, "values"),
                 *y = json_object_get(b->record, "values");
    const int by[] = {
        (result_state_of(a->record) == STATE_DONE) - (result_state_of(b->record) == STATE_DONE),
        sign(json_int(a->record, "count") - json_int(b->record, "count")),
        result ? sign((int64_t)json_object_size(x) - (int64_t)json_object_size(y)) : 0,
        strcmp(weights_read_time(a->record), weights_read_time(b->record)),
        sign((int64_t)a->length - (int64_t)b->length),
        strcmp(a->text, b->text),
    };
    for (size_t i = 0; i < sizeof by / sizeof *by; i++)
        if (by[i]) return by[i] > 0;
    return false;
}

/* --- writing --- */

/* A place that a source has, and its key now: of a completion behind it what it adds. */
struct item {
    const char *key, *place;
    enum merge_class class;
    const struct merge_source *source;
};

/* By key, a result before its completion. */
static int in_order(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    const int by_key = strcmp(x->key, y->key);
    return by_key ? by_key : (int)x->class - (int)y->class;
}

/* *out (borrowed) = what a place is now. ERR_NOMEM. */
static enum status key_of(const struct merge *m, const char *place, const char **out, struct err *e)
{
    char key[HASH_HEX];
    *out = place;
    snprintf(key, sizeof key, "%s", place);
    const json_t *now = json_object_get(m->former, key);
    if (!now) return OK;
    json_t *name = json_sprintf("%s%s", json_text(now, "key", ""), place + strlen(key));
    json_object_set_new(m->keys, place, name);
    *out = json_string_value(name);
    return json_whole(e);
}

/* *out (n, the caller frees) = the keys of all sources, sorted. */
static enum status list_items(const struct merge *m, struct item **out, int64_t *n, struct err *e)
{
    int64_t most = 0;
    const char *place;
    json_t *at;
    *n = 0;
    for (int64_t i = 0; i < m->n; i++)
        for (int c = 0; c < CLASS_N; c++)
            most += (int64_t)json_object_size(m->sources[i].places[c]);
    PASS(mem_zero(out, most, sizeof **out, "keys", e));
    for (int64_t i = 0; i < m->n; i++)
        for (int c = 0; c < CLASS_N; c++)
            json_object_foreach(m->sources[i].places[c], place, at) {
                struct item *item = &(*out)[(*n)++];
                *item = (struct item){
                    .place = place, .class = (enum merge_class)c, .source = &m->sources[i]};
                PASS(key_of(m, place, &item->key, e));
            }
    if (*n) qsort(*out, (size_t)*n, sizeof **out, in_order);
    return OK;
}

static enum status note(const struct attempt *kept, const struct attempt *other, const char *name,
                        struct merge_findings *out, struct err *e)
{
    char why[256], what[256];
    AUTO_FREE char *text = NULL;
    if (strcmp(kept->text, other->text) == 0) return OK; /* a copy, as of an earlier merge */
    const enum merge_verdict verdict = merge_compare(kept->record, other->record, why, sizeof why);
    out->repeated++;
    out->differing += verdict == MERGE_DIFFERENT;
    if (verdict != MERGE_CONFLICT) return OK;
    result_describe(kept->record, what, sizeof what);
    PASS(mem_format(&text, e, "%s: %s (%s; the one of %s is kept)", what, why, name,
                    weights_read_time(kept->record)));
    return texts_add(&out->conflicts, text, e);
}

/* The result that was written last, before its completion. */
struct kept {
    const char *key;
    char time[32];
};

/* Keeps the better one of *best and `record`, whose reference is taken over; *other (freed by the
 * caller): the one that is not kept, if there are two. */
static enum status choose(struct attempt *best, json_t *record, struct attempt *other,
                          struct err *e)
{
    *other = (struct attempt){.record = record};
    other->text = json_dump_whole(record, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_SORT_KEYS);
    NEED(other->text, ERR_NOMEM, "out of memory for a record");
    other->length = strlen(other->text);
    if (best->record && !precedes(other, best)) return OK;
    const struct attempt before = *best;
    *best = *other;
    *other = before;
    return OK;
}

/* A completion is of the result that was kept, unless that is newer: it was measured again then. */
static bool is_outdated(const struct item *item, const struct attempt *completion,
                        const struct kept *kept)
{
    const char *time = weights_read_time(completion->record);
    return item->class == CLASS_COMPLETION && kept->key &&
           strncmp(kept->key, item->key, strlen(kept->key)) == 0 && time[0] &&
           strcmp(time, kept->time) < 0;
}

/* A record of other weights than the newest of its checkpoint. */
static enum status leave_out(const json_t *record, const char *name, struct merge_findings *out,
                             struct err *e)
{
    char what[256];
    AUTO_FREE char *text = NULL;
    result_describe(record, what, sizeof what);
    PASS(mem_format(&text, e,
                    "%s: measured on other weights than the newest results of its checkpoint (%s; "
                    "left out)",
                    what, name));
    return texts_add(&out->conflicts, text, e);
}

/* The record of an item, as this version writes it. */
static enum status read_item(const struct merge *m, const struct item *item, json_t **out,
                             struct err *e)
{
    json_auto_t *raw = NULL;
    PASS(merge_source_read(item->source, item->class, item->place, &raw, e));
    return former_record(m->former, raw, out, e);
}

/* Writes completions of `best`, of the texts that the results that are not kept have and it lacks.
 */
static enum status write_texts(const struct merge *m, const struct item *items, int64_t n,
                               const json_t *best, struct journal *to, struct err *e)
{
    json_auto_t *record = NULL, *more = NULL, *whole = json_incref((json_t *)(uintptr_t)best);
    json_t *next;
    for (int64_t i = 0; items->class == CLASS_RESULT && n > 1 && i < n; i++) {
        PASS(read_item(m, &items[i], &record, e));
        if (weights_read_agree(m->weights, record))
            PASS(scores_completion(whole, record, &more, e));
        if (more) {
            PASS(journal_append(to, more, e));
            PASS(completion_join(whole, more, &next, e));
            json_decref(whole);
            whole = next;
        }
        json_drop(&record);
        json_drop(&more);
    }
    return OK;
}

/* Of n items of one key: writes the preferred record. */
static enum status write_best(const struct merge *m, const struct item *items, int64_t n,
                              struct journal *to, struct kept *kept, struct merge_findings *out,
                              struct err *e)
{
    CLEANUP(attempt_free) struct attempt best = {0}, other = {0};
    for (int64_t i = 0; i < n; i++) {
        json_t *record;
        PASS(read_item(m, &items[i], &record, e));
        if (!weights_read_agree(m->weights, record)) {
            enum status st = leave_out(record, items[i].source->name, out, e);
            json_decref(record);
            PASS(st);
            continue;
        }
        PASS(choose(&best, record, &other, e));
        if (other.record && items->class != CLASS_LOSS)
            PASS(note(&best, &other, items[i].source->name, out, e));
        attempt_free(&other);
    }
    if (!best.record || is_outdated(items, &best, kept)) return OK;
    PASS(journal_append(to, best.record, e));
    PASS(write_texts(m, items, n, best.record, to, e));
    if (items->class != CLASS_RESULT) return OK;
    kept->key = items->key;
    snprintf(kept->time, sizeof kept->time, "%s", weights_read_time(best.record));
    out->records++;
    return OK;
}

/* Adds the run of a source to {"START HOST COMMAND": its end}, or those that it was merged of. */
static enum status add_runs(const struct merge_source *s, json_t *runs, struct err *e)
{
    AUTO_FREE char *name = NULL;
    const char *run;
    json_t *end;
    json_auto_t *own = json_incref(json_object_get(s->plan, "merged"));
    if (!own) {
        PASS(mem_format(&name, e, "%s %s %s", json_text(s->plan, "utc", "?"),
                        json_text(s->plan, "host", "?"), json_text(s->plan, "command", "?")));
        own = json_pack("{s:s}", name, json_text(s->end, "utc", ""));
    }
    json_object_foreach(own, run, end) {
        if (strcmp(json_text(own, run, ""), json_text(runs, run, "")) >= 0)
            json_object_set(runs, run, end);
    }
    return json_whole(e);
}

/* The newest plan, of the whole sweep: instead of which part it was made for, what was merged. */
static enum status write_plan(const struct merge *m, struct journal *to, struct err *e)
{
    CLEANUP(attempt_free) struct attempt best = {0}, other = {0};
    json_auto_t *runs = json_object();
    for (int64_t i = 0; i < m->n; i++) {
        if (!m->sources[i].plan) continue;
        PASS(add_runs(&m->sources[i], runs, e));
        json_t *plan = json_copy(m->sources[i].plan);
        json_object_del(plan, "part");
        json_object_del(plan, "merged");
        PASS(choose(&best, plan, &other, e));
        attempt_free(&other);
    }
    NEED(best.record, ERR_FORMAT, "%s%s: no plan in it: nothing has been run yet",
         m->n ? m->sources[0].name : "nothing to merge", m->n > 1 ? " and the others" : "");
    json_object_set(best.record, "merged", runs);
    PASS(json_whole(e));
    return journal_append(to, best.record, e);
}

enum status merge_write(struct merge *m, const char *path, struct merge_findings *out,
                        struct err *e)
{
    CLEANUP(journal_close_at) struct journal *to = NULL;
    PASS(journal_open(path, &to, e));
    PASS(write_plan(m, to, e));
    AUTO_FREE struct item *items = NULL;
    struct kept kept = {0};
    int64_t n;
    PASS(list_items(m, &items, &n, e));
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && in_order(&items[end], &items[i]) == 0;) end++;
        PASS(write_best(m, items + i, end - i, to, &kept, out, e));
    }
    return journal_sync(to, e);
}
