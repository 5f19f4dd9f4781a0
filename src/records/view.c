#include "records/view.h"
#include "records/complete.h"
#include "records/measures.h"
#include "records/scores.h"
#include "records/seal.h"
#include "records/weights_read.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <unistd.h>

enum status view_new(struct results_view **out, struct err *e)
{
    PASS(mem_zero(out, 1, sizeof **out, "view", e));
    (*out)->records = json_object();
    (*out)->losses = json_object();
    (*out)->lines = json_object();
    (*out)->weights = json_object();
    (*out)->stale = json_object();
    (*out)->others = json_object();
    (*out)->former = json_object();
    (*out)->waiting = json_array();
    (*out)->old_plans = json_array();
    return json_whole(e);
}

static void replace(json_t **held, json_t *record)
{
    json_incref(record);
    json_decref(*held);
    *held = record;
}

/* The record of the key is, or is completed by, record `at` of the view's journal. */
static void add_line(struct results_view *v, const char *key, int64_t at, bool first)
{
    if (!v->journal) return;
    if (first) json_object_set_new(v->lines, key, json_array());
    json_array_append_new(json_object_get(v->lines, key), json_integer((json_int_t)at));
}

/* Joins it with the record that it completes. Without one that is done and of the same weights it
 * says nothing, unless a further journal has that: its line was damaged, or the checkpoint has
 * changed. */
static enum status add_completion(struct results_view *v, const char *key, json_t *completion,
                                  int64_t at, struct err *e)
{
    json_auto_t *record = NULL;
    const json_t *old = json_object_get(v->records, key);
    if (!completion_fits(old, completion)) {
        json_array_append(v->waiting, completion);
        return json_whole(e);
    }
    PASS(completion_join(old, completion, &record, e));
    json_object_set(v->records, key, record);
    add_line(v, key, at, false);
    return json_whole(e);
}

/* at: its number in the view's journal. */
static enum status add(struct results_view *v, json_t *record, int64_t at, struct err *e)
{
    json_auto_t *now = NULL;
    PASS(former_record(v->former, record, &now, e));
    const char *type = json_text(now, "type", ""), *key = json_text(now, "key", NULL);
    replace(&v->end, strcmp(type, "end") == 0 ? now : NULL);
    if (strcmp(type, "plan") == 0) {
        replace(&v->before, json_object_get(v->plan, "inputs"));
        replace(&v->plan, now);
        PASS(former_plan(v->old_plans, now, e));
        PASS(results_view_former(v, now, e));
    }
    if (weights_read_learn(v->weights, now)) view_leave_out_stale(v);
    if (v->lean) weights_read_share(v->weights, now);
    if (strcmp(type, "completion") == 0 && key) return add_completion(v, key, now, at, e);
    if (strcmp(type, "loss") == 0 && key) json_object_set(v->losses, key, now);
    if (!measure_find(type) || !key) return json_whole(e);
    json_t *old = json_object_get(v->records, key);
    if (result_state_of(old) == STATE_DONE && result_state_of(now) != STATE_DONE) return OK;
    if (!weights_read_same(old, now)) view_remember(v, key, old);
    json_object_set(v->records, key, now);
    json_object_del(v->stale, key);
    add_line(v, key, at, true);
    return json_whole(e);
}

enum status view_add(struct results_view *v, const json_t *record, struct err *e)
{
    /* Only its reference count changes. */
    return add(v, (json_t *)(uintptr_t)record, -1, e);
}

/* --- of a journal --- */

static enum status read_records(struct journal *j, const struct texts *without, bool by_line,
                                struct results_view **out, struct err *e)
{
    CLEANUP(results_view_close_at) struct results_view *v = NULL;
    PASS(view_new(&v, e));
    if (by_line) v->journal = j;
    v->lean = without->n > 0;
    for (int64_t i = 0; i < journal_n(j); i++) {
        json_auto_t *record = NULL;
        PASS(journal_read(j, i, texts_list(without), &record, e));
        PASS(add(v, record, i, e));
    }
    v->mark = journal_mark(j);
    v->damage = journal_damage(j);
    *out = TAKE(v);
    return OK;
}

enum status results_view_of_journal(struct journal *j, enum view_content content,
                                    struct results_view **out, struct err *e)
{
    CLEANUP(texts_free) struct texts without = {0};
    PASS(view_leave_out(content, NULL, &without, e));
    return read_records(j, &without, content == VIEW_BY_LINE, out, e);
}

enum status results_is_hdf5(const char *path, bool *is, struct err *e)
{
    char head[SEAL_HDF5];
    int fd;
    PASS(fsx_open(path, &fd, NULL, e));
    const ssize_t got = fsx_pread(fd, head, sizeof head, 0);
    *is = got > 0 && seal_is_hdf5(head, (size_t)got);
    close(fd);
    return OK;
}

enum status results_view_open(const char *path, enum view_content content, const char *metrics,
                              struct results_view **out, struct err *e)
{
    CLEANUP(texts_free) struct texts without = {0};
    bool cube;
    PASS(view_leave_out(content, metrics, &without, e));
    PASS(results_is_hdf5(path, &cube, e));
    if (cube) return cube_read(path, content, &without, out, e);
    CLEANUP(journal_close_at) struct journal *j = NULL;
    CLEANUP(results_view_close_at) struct results_view *v = NULL;
    PASS(journal_open_readonly(path, &j, e));
    PASS(read_records(j, &without, false, &v, e));
    NEED(v->plan, ERR_FORMAT, "%s: the journal holds no plan yet: nothing has been run", path);
    *out = TAKE(v);
    return OK;
}

void results_view_close(struct results_view *v)
{
    if (!v) return;
    json_decref(v->plan);
    json_decref(v->before);
    json_decref(v->end);
    json_decref(v->records);
    json_decref(v->weights);
    json_decref(v->stale);
    json_decref(v->others);
    json_decref(v->losses);
    json_decref(v->lines);
    json_decref(v->former);
    json_decref(v->waiting);
    json_decref(v->old_plans);
    free(v);
}

enum status results_view_changed(const json_t *before, const json_t *now, const json_t *grown,
                                 struct texts *out, struct err *e)
{
    const char *path;
    json_t *digest;
    json_object_foreach((json_t *)(uintptr_t)now, path, digest) {
        const json_t *old = json_object_get(before, path);
        if (old && !json_equal(old, digest) && !json_flag(grown, path))
            PASS(texts_add(out, path, e));
    }
    return OK;
}

/* What the view has under former keys gets those of now; of two results of one key the later has
 * the other's texts too. */
static enum status rekey(struct results_view *v, const char *was, struct err *e)
{
    json_auto_t *record = NULL, *more = NULL, *whole = NULL;
    const json_t *old = json_object_get(v->records, was);
    if (!old) return OK;
    PASS(former_record(v->former, old, &record, e));
    const char *key = json_text(record, "key", "");
    const json_t *own = json_object_get(v->records, key);
    json_t *lines = json_object_get(v->lines, was);
    if (result_state_of(own) == STATE_DONE) {
        PASS(scores_completion(record, own, &more, e));
        if (more) PASS(completion_join(record, more, &whole, e));
        if (lines && result_state_of(record) == STATE_DONE)
            json_array_extend(lines, json_object_get(v->lines, key));
    }
    if (!own || result_state_of(record) == STATE_DONE) {
        json_object_set(v->records, key, whole ? whole : record);
        if (lines) json_object_set(v->lines, key, lines);
    }
    json_object_del(v->records, was);
    json_object_del(v->lines, was);
    return json_whole(e);
}

enum status results_view_former(struct results_view *v, const json_t *plan, struct err *e)
{
    const char *was;
    json_t *now, *losses;
    if (!v) return OK;
    PASS(former_learn(v->former, plan, e));
    json_object_foreach(v->former, was, now) {
        PASS(rekey(v, was, e));
        losses = json_object_get(v->losses, was);
        if (losses) json_object_set(v->losses, json_text(now, "key", ""), losses);
    }
    return OK;
}

const json_t *results_view_find(const struct results_view *v, const char *key)
{
    return json_object_get(v->records, key);
}

enum status view_read_line(const struct results_view *v, struct journal *j, int64_t i, json_t **out,
                           struct err *e)
{
    json_auto_t *raw = NULL;
    PASS(journal_read(j, i, NULL, &raw, e));
    return former_record(v->former, raw, out, e);
}

enum status results_view_read(const struct results_view *v, const char *key, json_t **out,
                              struct err *e)
{
    json_auto_t *record = NULL, *more = NULL, *completion = NULL;
    json_t *whole = NULL;
    /* The record in the first of these lines, with what completes it in the others. */
    const json_t *lines = v->journal ? json_object_get(v->lines, key) : NULL;
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const int64_t at = json_integer_value(json_array_get(lines, i));
        PASS(view_read_line(v, v->journal, at, i ? &more : &record, e));
        if (i == 0) continue;
        if (measure_find(json_text(more, "type", "")))
            PASS(scores_completion(record, more, &completion, e));
        else
            completion = json_incref(more);
        if (completion) {
            PASS(completion_join(record, completion, &whole, e));
            json_decref(record);
            record = whole;
        }
        json_drop(&completion);
        json_drop(&more);
    }
    *out = v->journal ? TAKE(record) : json_incref(json_object_get(v->records, key));
    return OK;
}
