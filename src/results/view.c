#include "results/view.h"
#include "results/kind.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct results_view {
    json_t *plan;    /* the newest plan; NULL: none yet */
    json_t *end;     /* the newest record if it is an end record */
    json_t *records; /* key → record */
};

enum status view_new(struct results_view **out, struct err *e)
{
    PASS(mem_zero(out, 1, sizeof **out, "view", e));
    (*out)->records = json_object();
    NEED((*out)->records, ERR_NOMEM, "out of memory for a view");
    return OK;
}

static void replace(json_t **held, json_t *record)
{
    json_incref(record);
    json_decref(*held);
    *held = record;
}

enum status view_add(struct results_view *v, const json_t *borrowed, struct err *e)
{
    json_t *record = (json_t *)borrowed; /* only its reference count changes */
    const char *type = json_text(record, "type", ""), *key = json_text(record, "key", NULL);
    replace(&v->end, strcmp(type, "end") == 0 ? record : NULL);
    if (strcmp(type, "plan") == 0) replace(&v->plan, record);
    if (!kind_find(type) || !key) return OK;
    const json_t *old = json_object_get(v->records, key);
    if (result_state_of(old) == STATE_DONE && result_state_of(record) != STATE_DONE) return OK;
    NEED(json_object_set(v->records, key, record) == 0, ERR_NOMEM, "out of memory for a view");
    return OK;
}

enum status results_view_of_journal(const struct journal *j, struct results_view **out,
                                    struct err *e)
{
    enum status st = OK;
    struct results_view *v = NULL;
    TRY(view_new(&v, e));
    for (int64_t i = 0; i < journal_n(j); i++) TRY(view_add(v, journal_record(j, i), e));
    ENSURE(v->plan, ERR_FORMAT, "the journal holds no plan yet: nothing has been run");
    *out = v;
    v = NULL;
done:
    results_view_close(v);
    return st;
}

static enum status open_journal(const char *path, struct results_view **out, struct err *e)
{
    enum status st = OK;
    struct journal *j = NULL;
    TRY(journal_open_readonly(path, &j, e));
    st = results_view_of_journal(j, out, e);
    if (st == ERR_FORMAT) err_prefix(e, "%s", path);
done:
    journal_close(j);
    return st;
}

enum status results_view_open(const char *path, struct results_view **out, struct err *e)
{
    enum status st = OK;
    static const char signature[8] = {'\x89', 'H', 'D', 'F', '\r', '\n', '\x1a', '\n'};
    char head[sizeof signature];
    int fd = -1;
    TRY(fsx_open(path, &fd, NULL, e));
    if (read(fd, head, sizeof head) == sizeof head && memcmp(head, signature, sizeof head) == 0)
        TRY(cube_read(path, out, e));
    else
        TRY(open_journal(path, out, e));
done:
    if (fd >= 0) close(fd);
    return st;
}

void results_view_close(struct results_view *v)
{
    if (!v) return;
    json_decref(v->plan);
    json_decref(v->end);
    json_decref(v->records);
    free(v);
}

const json_t *results_view_plan(const struct results_view *v)
{
    return v->plan;
}

const json_t *results_view_end(const struct results_view *v)
{
    return v->end;
}

const json_t *results_view_find(const struct results_view *v, const char *key)
{
    return json_object_get(v->records, key);
}
