#include "records/view.h"
#include "records/complete.h"
#include "records/rows.h"
#include "records/seal.h"
#include "records/weights_read.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/quantity.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct results_view {
    json_t *plan;    /* the newest plan; NULL: none yet */
    json_t *before;  /* the inputs of the one before; NULL: none */
    json_t *end;     /* the newest record if it is an end record */
    json_t *records; /* key → record */
    struct journal_mark mark;
    struct journal_damage damage;
    bool lean;       /* what the records are not asked for is left out */
    json_t *weights; /* the newest of each checkpoint (weights_read.h) */
    json_t *stale;   /* key → true of results of other weights, which are left out */
    json_t *losses;  /* key of a visit → the newest of its loss records */
    /* VIEW_BY_LINE, else NULL: the journal; key → where the record and its completions are in it */
    struct journal *journal;
    json_t *lines;
    json_t *former; /* key → {those of earlier versions: true} (results_view_former) */
};

enum status view_new(struct results_view **out, struct err *e)
{
    PASS(mem_zero(out, 1, sizeof **out, "view", e));
    (*out)->records = json_object();
    (*out)->losses = json_object();
    (*out)->lines = json_object();
    (*out)->weights = json_object();
    (*out)->stale = json_object();
    (*out)->former = json_object();
    NEED((*out)->records && (*out)->losses && (*out)->lines && (*out)->weights && (*out)->stale &&
             (*out)->former,
         ERR_NOMEM, "out of memory for a view");
    return OK;
}

static void replace(json_t **held, json_t *record)
{
    json_incref(record);
    json_decref(*held);
    *held = record;
}

/* The record of the key is, or is completed by, record `at` of the view's journal. */
static enum status add_line(struct results_view *v, const char *key, int64_t at, bool first,
                            struct err *e)
{
    if (!v->journal) return OK;
    int failed = first ? json_object_set_new(v->lines, key, json_array()) : 0;
    failed |= json_array_append_new(json_object_get(v->lines, key), json_integer((json_int_t)at));
    NEED(!failed, ERR_NOMEM, "out of memory for a view");
    return OK;
}

/* Joins it with the record that it completes. Without one that is done and of the same weights it
 * says nothing: its line was damaged, or the checkpoint has changed. */
static enum status add_completion(struct results_view *v, const char *key, const json_t *completion,
                                  int64_t at, struct err *e)
{
    enum status st = OK;
    json_t *record = NULL;
    const json_t *old = json_object_get(v->records, key);
    if (!completion_fits(old, completion)) return OK;
    TRY(completion_join(old, completion, &record, e));
    ENSURE(json_object_set(v->records, key, record) == 0, ERR_NOMEM, "out of memory for a view");
    TRY(add_line(v, key, at, false, e));
done:
    json_decref(record);
    return st;
}

static void leave_out(struct results_view *v, const char *key)
{
    json_object_set_new(v->stale, key, json_true());
    json_object_del(v->lines, key);
    json_object_del(v->records, key);
}

/* What was made from other weights than the newest is left out. */
static void leave_out_stale(struct results_view *v)
{
    const char *key;
    json_t *record;
    void *next;
    json_object_foreach_safe(v->records, next, key, record)
    {
        if (!weights_read_agree(v->weights, record)) leave_out(v, key);
    }
}

static void warn_of_stale(const struct results_view *v)
{
    const int64_t n = (int64_t)json_object_size(v->stale);
    if (n)
        log_warn("%lld result%s left out, of weights that have changed since", (long long)n,
                 quantity_plural(n));
}

/* at: its number in the view's journal. */
static enum status add(struct results_view *v, json_t *record, int64_t at, struct err *e)
{
    const char *type = json_text(record, "type", ""), *key = json_text(record, "key", NULL);
    replace(&v->end, strcmp(type, "end") == 0 ? record : NULL);
    if (strcmp(type, "plan") == 0) {
        replace(&v->before, json_object_get(v->plan, "inputs"));
        replace(&v->plan, record);
        PASS(results_view_former(v, json_object_get(record, "former_keys"), e));
    }
    if (weights_read_learn(v->weights, record)) leave_out_stale(v);
    if (v->lean) weights_read_share(v->weights, record);
    if (strcmp(type, "completion") == 0 && key) return add_completion(v, key, record, at, e);
    if (strcmp(type, "loss") == 0 && key)
        NEED(json_object_set(v->losses, key, record) == 0, ERR_NOMEM, "out of memory for a view");
    if (!measure_find(type) || !key) return OK;
    const json_t *old = json_object_get(v->records, key);
    if (result_state_of(old) == STATE_DONE && result_state_of(record) != STATE_DONE) return OK;
    NEED(json_object_set(v->records, key, record) == 0, ERR_NOMEM, "out of memory for a view");
    json_object_del(v->stale, key);
    return add_line(v, key, at, true, e);
}

enum status view_add(struct results_view *v, const json_t *record, struct err *e)
{
    /* Only its reference count changes. */
    return add(v, (json_t *)(uintptr_t)record, -1, e);
}

/* --- of a journal --- */

/* The plan is wanted whole. */
static enum status add_from_journal(struct results_view *v, struct journal *j, int64_t i,
                                    const char *const *without, struct err *e)
{
    enum status st = OK;
    json_t *record = NULL;
    TRY(journal_read(j, i, without, &record, e));
    if (without[0] && strcmp(json_text(record, "type", ""), "plan") == 0) {
        json_decref(record);
        record = NULL;
        TRY(journal_read(j, i, NULL, &record, e));
    }
    TRY(add(v, record, i, e));
done:
    json_decref(record);
    return st;
}

static enum status read_records(struct journal *j, const struct view_names *without, bool by_line,
                                struct results_view **out, struct err *e)
{
    enum status st = OK;
    struct results_view *v = NULL;
    TRY(view_new(&v, e));
    if (by_line) v->journal = j;
    v->lean = without->n > 0;
    for (int64_t i = 0; i < journal_n(j); i++) TRY(add_from_journal(v, j, i, without->name, e));
    v->mark = journal_mark(j);
    v->damage = journal_damage(j);
    if (!by_line) warn_of_stale(v);
    *out = v;
    v = NULL;
done:
    results_view_close(v);
    return st;
}

enum status results_view_of_journal(struct journal *j, enum view_content content,
                                    struct results_view **out, struct err *e)
{
    enum status st = OK;
    struct view_names without;
    TRY(view_leave_out(content, NULL, &without, e));
    TRY(read_records(j, &without, content == VIEW_BY_LINE, out, e));
done:
    view_names_free(&without);
    return st;
}

/* Adds a record that is not of the view's own journal: how that ended stays. */
static enum status add_beside(struct results_view *v, const json_t *record, struct err *e)
{
    if (!weights_read_agree(v->weights, record)) return OK;
    json_t *end = json_incref(v->end);
    enum status st = view_add(v, record, e);
    replace(&v->end, end);
    json_decref(end);
    return st;
}

/* Whether a record of another journal is taken. */
static bool wants_elsewhere(const struct results_view *v, const json_t *record)
{
    const char *type = json_text(record, "type", ""), *key = json_text(record, "key", NULL);
    if (!key) return false;
    const json_t *own = json_object_get(v->records, key);
    if (strcmp(type, "completion") == 0) return completion_adds(own, record);
    if (!measure_find(type)) return false;
    return !own || (result_state_of(own) != STATE_DONE && result_state_of(record) == STATE_DONE);
}

/* Learns the newest weights of another journal. */
static enum status learn_elsewhere(struct results_view *v, struct journal *j,
                                   const char *const *without, struct err *e)
{
    enum status st = OK;
    json_t *record = NULL, *weights = json_object();
    ENSURE(weights, ERR_NOMEM, "out of memory for a view");
    for (int64_t i = 0; i < journal_n(j); i++) {
        TRY(journal_read(j, i, without, &record, e));
        weights_read_learn(weights, record);
        json_decref(record);
        record = NULL;
    }
    if (weights_read_join(v->weights, weights)) leave_out_stale(v);
done:
    json_decref(record);
    json_decref(weights);
    return st;
}

enum status view_add_elsewhere(struct results_view *v, struct journal *j, enum view_content content,
                               json_t *late, struct err *e)
{
    enum status st = OK;
    struct view_names without;
    json_t *record = NULL;
    TRY(view_leave_out(content, NULL, &without, e));
    TRY(learn_elsewhere(v, j, without.name, e));
    for (int64_t i = 0; i < journal_n(j); i++) {
        TRY(journal_read(j, i, without.name, &record, e));
        if (strcmp(json_text(record, "type", ""), "completion") == 0)
            ENSURE(json_array_append(late, record) == 0, ERR_NOMEM, "out of memory for a view");
        else if (wants_elsewhere(v, record))
            TRY(add_beside(v, record, e));
        json_decref(record);
        record = NULL;
    }
done:
    json_decref(record);
    view_names_free(&without);
    return st;
}

enum status view_add_late(struct results_view *v, const json_t *late, struct err *e)
{
    const json_t *record;
    size_t i;
    json_array_foreach(late, i, record) if (wants_elsewhere(v, record))
        PASS(add_beside(v, record, e));
    return OK;
}

static enum status open_journal(const char *path, const struct view_names *without,
                                struct results_view **out, struct err *e)
{
    enum status st = OK;
    struct journal *j = NULL;
    struct results_view *v = NULL;
    TRY(journal_open_readonly(path, &j, e));
    TRY(read_records(j, without, false, &v, e));
    ENSURE(v->plan, ERR_FORMAT, "%s: the journal holds no plan yet: nothing has been run", path);
    *out = v;
    v = NULL;
done:
    results_view_close(v);
    journal_close(j);
    return st;
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
    enum status st = OK;
    struct view_names without;
    bool cube;
    TRY(view_leave_out(content, metrics, &without, e));
    TRY(results_is_hdf5(path, &cube, e));
    TRY(cube ? cube_read(path, content, &without, out, e) : open_journal(path, &without, out, e));
done:
    view_names_free(&without);
    return st;
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
    json_decref(v->losses);
    json_decref(v->lines);
    json_decref(v->former);
    free(v);
}

const json_t *results_view_plan(const struct results_view *v)
{
    return v->plan;
}

enum status results_view_changed(const json_t *before, const json_t *now, struct texts *out,
                                 struct err *e)
{
    const char *path;
    json_t *digest;
    json_object_foreach((json_t *)(uintptr_t)now, path, digest)
    {
        const json_t *old = json_object_get(before, path);
        if (old && !json_equal(old, digest)) PASS(texts_add(out, path, e));
    }
    return OK;
}

const json_t *results_view_inputs_before(const struct results_view *v)
{
    return v->before;
}

struct journal_mark results_view_mark(const struct results_view *v)
{
    return v->mark;
}

const json_t *results_view_stale(const struct results_view *v)
{
    return v->stale;
}

struct journal_damage results_view_damage(const struct results_view *v)
{
    return v->damage;
}

void view_set_mark(struct results_view *v, const struct journal_mark *mark)
{
    v->mark = *mark;
}

const json_t *results_view_end(const struct results_view *v)
{
    return v->end;
}

int64_t results_view_losses(const struct results_view *v, const char *key)
{
    return json_integer_value(json_object_get(json_object_get(v->losses, key), "count"));
}

enum status results_view_former(struct results_view *v, const json_t *former, struct err *e)
{
    const char *key;
    json_t *was;
    if (!v) return OK;
    json_object_foreach((json_t *)(uintptr_t)former, key, was)
    {
        json_t *all = json_object_get(v->former, key);
        if (!all) json_object_set_new(v->former, key, all = json_object());
        NEED(json_object_set_new(all, json_string_value(was), json_true()) == 0, ERR_NOMEM,
             "out of memory for a view");
    }
    return OK;
}

/* The key under which the view has the record. */
static const char *own_key(const struct results_view *v, const char *key)
{
    const char *was;
    json_t *yes;
    if (!json_object_get(v->records, key))
        json_object_foreach(json_object_get(v->former, key), was, yes)
        {
            if (json_object_get(v->records, was)) return was;
        }
    return key;
}

const json_t *results_view_find(const struct results_view *v, const char *key)
{
    return json_object_get(v->records, own_key(v, key));
}

/* The record in the first of these lines, with its completions in the others. */
static enum status read_lines(const struct results_view *v, const json_t *lines, json_t **out,
                              struct err *e)
{
    enum status st = OK;
    json_t *record = NULL, *completion = NULL, *whole = NULL;
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const int64_t at = json_integer_value(json_array_get(lines, i));
        TRY(journal_read(v->journal, at, NULL, i ? &completion : &record, e));
        if (i == 0) continue;
        TRY(completion_join(record, completion, &whole, e));
        json_decref(completion);
        json_decref(record);
        record = whole;
        whole = completion = NULL;
    }
    *out = record;
    record = NULL;
done:
    json_decref(record);
    json_decref(completion);
    json_decref(whole);
    return st;
}

enum status results_view_read(const struct results_view *v, const char *key, json_t **out,
                              struct err *e)
{
    key = own_key(v, key);
    if (v->journal) return read_lines(v, json_object_get(v->lines, key), out, e);
    *out = json_incref(json_object_get(v->records, key));
    return OK;
}
