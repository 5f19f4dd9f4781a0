#include "records/part_files.h"
#include "records/measures.h"
#include "records/running.h"
#include "records/view.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>

enum status parts_folder(const char *results, char **out, struct err *e)
{
    return mem_format(out, e, "%s.parts", results);
}

enum status parts_path(const char *results, int64_t k, int64_t n, char **out, struct err *e)
{
    enum { LEAST = 3 };
    AUTO_FREE char *folder = NULL;
    const int width = snprintf(NULL, 0, "%lld", (long long)n), w = width > LEAST ? width : LEAST;
    PASS(parts_folder(results, &folder, e));
    return mem_format(out, e, "%s/part-%0*lld-of-%0*lld.h5", folder, w, (long long)k, w,
                      (long long)n);
}

void parts_free(struct part_places *p)
{
    for (int64_t i = 0; i < p->n; i++) {
        free(p->part[i].cube);
        free(p->part[i].journal);
    }
    free(p->part);
    *p = (struct part_places){0};
}

static int in_order(const void *a, const void *b)
{
    const struct part_place *x = a, *y = b;
    if (x->n != y->n) return x->n < y->n ? -1 : 1;
    return (x->k > y->k) - (x->k < y->k);
}

enum status parts_list(const char *folder, struct part_places *out, struct err *e)
{
    *out = (struct part_places){0};
    CLEANUP(fsx_closedir) DIR *dir = opendir(folder);
    if (!dir && errno == ENOENT) return OK;
    NEED(dir, ERR_IO, "%s: %s", folder, strerror(errno));
    for (const struct dirent *entry; (entry = readdir(dir));) {
        const char *name = entry->d_name;
        long long k, n;
        int used = 0;
        if (sscanf(name, "part-%lld-of-%lld%n", &k, &n, &used) != 2) continue;
        if (strcmp(name + used, ".journal") != 0) continue;
        PASS(mem_grow(&out->part, out->n, &out->capacity, sizeof *out->part, e));
        struct part_place *p = &out->part[out->n++];
        *p = (struct part_place){.k = k, .n = n};
        PASS(mem_format(&p->journal, e, "%s/%s", folder, name));
        PASS(mem_format(&p->cube, e, "%s/%.*s.h5", folder, used, name));
    }
    if (out->n) qsort(out->part, (size_t)out->n, sizeof *out->part, in_order);
    return OK;
}

enum status parts_of(const char *results, struct part_places *out, struct err *e)
{
    AUTO_FREE char *folder = NULL;
    CLEANUP(parts_free) struct part_places parts = {0};
    *out = (struct part_places){0};
    PASS(parts_folder(results, &folder, e));
    PASS(parts_list(folder, &parts, e));
    PASS(mem_zero(&out->part, parts.n + 1, sizeof *out->part, "journals", e));
    out->n = 1;
    PASS(journal_path(results, &out->part[0].journal, e));
    for (; out->n <= parts.n; out->n++) out->part[out->n] = parts.part[out->n - 1];
    parts.n = 0; /* they are of *out now */
    return OK;
}

/* --- what they hold --- */

static enum status add_journal(const char *path, const char *own, enum view_content content,
                               const struct view_sink *sink, struct results_view *v, json_t *late,
                               struct err *e)
{
    CLEANUP(journal_close_at) struct journal *j = NULL;
    if (!fsx_is_file(path) || (own && fsx_same(path, own))) return OK;
    PASS(journal_open_beside(path, &j, e));
    journal_warn(j);
    return view_add_elsewhere(v, j, content, sink, late, e);
}

enum status parts_add_records(const char *results, const char *own, int64_t but,
                              enum view_content content, const struct view_sink *sink,
                              struct results_view *v, struct err *e)
{
    CLEANUP(parts_free) struct part_places all = {0};
    json_auto_t *late = json_array();
    PASS(parts_of(results, &all, e));
    for (int64_t i = 0; i < all.n; i++)
        if (i == 0 || all.part[i].n != but)
            PASS(add_journal(all.part[i].journal, own, content, sink, v, late, e));
    return view_add_late(v, sink, late, e);
}

enum status parts_view(const char *results, enum view_content content, struct results_view **out,
                       struct err *e)
{
    CLEANUP(results_view_close_at) struct results_view *v = NULL;
    PASS(view_new(&v, e));
    PASS(parts_add_records(results, NULL, 0, content, NULL, v, e));
    *out = TAKE(v);
    return OK;
}

/* --- how far they are --- */

void part_look_free(struct part_look *l)
{
    json_decref(l->plan);
    json_decref(l->running);
    *l = (struct part_look){0};
}

enum status part_look(const char *journal, const struct results_view *merged, struct part_look *out,
                      struct err *e)
{
    static const char *const without[] = {"values", "layers", "tables", "sequence_loss", NULL};
    CLEANUP(journal_close_at) struct journal *j = NULL;
    json_auto_t *record = NULL;
    /* First the lock: a run that ends in between leaves a journal that says so. */
    out->holder = lock_look(journal);
    out->running = running_read(journal, &out->holder);
    PASS(journal_open_beside(journal, &j, e));
    for (int64_t i = 0; i < journal_n(j); i++) {
        PASS(journal_read(j, i, without, &record, e));
        const char *type = json_text(record, "type", "");
        const char *utc = json_text(json_object_get(record, "provenance"), "utc_end", "");
        out->ended = strcmp(type, "end") == 0;
        out->stopped = out->ended && strcmp(json_text(record, "status", ""), "done") != 0;
        if (out->holder.held && measure_find(type) && strcmp(utc, out->holder.utc) >= 0)
            out->recent++;
        if (merged && measure_find(type) &&
            !results_view_find(merged, json_text(record, "key", "")))
            out->alone = true;
        if (strcmp(type, "plan") == 0) {
            const json_t *part = json_object_get(record, "part");
            json_decref(out->plan);
            out->plan = json_incref((json_t *)(uintptr_t)record);
            out->first = json_int(part, "first");
            out->end = json_int(part, "end");
        }
        json_drop(&record);
    }
    return OK;
}

static enum status add_plan(struct results_view *v, const json_t *plan, struct err *e)
{
    const json_t *had = v->plan;
    if (!plan || (had && strcmp(json_text(plan, "utc", ""), json_text(had, "utc", "")) < 0))
        return OK;
    return view_add(v, plan, e);
}

enum status parts_join(const struct part_places *p, const char *journal, enum view_content content,
                       struct part_look *looks, struct results_view **out, struct err *e)
{
    CLEANUP(results_view_close_at) struct results_view *v = NULL;
    CLEANUP(part_look_free) struct part_look whole = {0};
    json_auto_t *late = json_array();
    PASS(view_new(&v, e));
    if (journal && fsx_is_file(journal)) {
        PASS(part_look(journal, NULL, &whole, e));
        PASS(add_plan(v, whole.plan, e));
        PASS(add_journal(journal, NULL, content, NULL, v, late, e));
    }
    for (int64_t i = 0; i < p->n; i++) PASS(part_look(p->part[i].journal, v, &looks[i], e));
    for (int64_t i = 0; i < p->n; i++) {
        PASS(add_plan(v, looks[i].plan, e));
        PASS(add_journal(p->part[i].journal, NULL, content, NULL, v, late, e));
    }
    PASS(view_add_late(v, NULL, late, e));
    NEED(v->plan, ERR_FORMAT, "%s: no plan in any part yet: nothing has been run",
         p->n ? p->part[0].journal : "no parts");
    *out = TAKE(v);
    return OK;
}
