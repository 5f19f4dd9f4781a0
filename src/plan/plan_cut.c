/* The cut of a sweep into parts, as the first process that needed it has recorded it. */
#include "plan/plan_parts.h"
#include "records/part_files.h"
#include "util/fsx.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/mem.h"
#include "util/temporary.h"
#include <dirent.h>
#include <errno.h>
#include <unistd.h>

/* A digest of the list of visits, which is the sweep's: models, checkpoints, those of measures. */
static enum status visits_digest(const struct plan *p, char hex[HASH_HEX], struct err *e)
{
    char *text = NULL;
    hash_text("visits", hex);
    for (int64_t i = 0; i < p->n_checkpoints; i++) {
        const struct model_entry *m = &p->sweep->models[p->checkpoints[i].model];
        PASS(mem_format(&text, e, "%s %s\n%s", hex, m->name,
                        m->rows[p->checkpoints[i].row].checkpoint));
        hash_text(text, hex);
        free(text);
    }
    PASS(mem_format(&text, e, "%s %lld", hex, (long long)plan_more(p)));
    hash_text(text, hex);
    free(text);
    return OK;
}

/* --- the file --- */

struct cut_file {
    char *folder, *name, *path;
    char start[32]; /* what the names of all cuts into n begin with */
};

static void cut_file_free(struct cut_file *f)
{
    free(f->folder);
    free(f->name);
    free(f->path);
}

static enum status cut_file_init(struct cut_file *f, const struct plan *p, int64_t n, struct err *e)
{
    enum { SHORT = 12 };
    char digest[HASH_HEX];
    PASS(visits_digest(p, digest, e));
    PASS(parts_folder(p->sweep->results, &f->folder, e));
    snprintf(f->start, sizeof f->start, "cut-of-%lld-", (long long)n);
    PASS(mem_format(&f->name, e, "%s%.*s.json", f->start, SHORT, digest));
    return mem_format(&f->path, e, "%s/%s", f->folder, f->name);
}

/* bounds as the file has them, if it is whole. */
static enum status read_bounds(const struct cut_file *f, int64_t n, int64_t *bounds, bool *shared,
                               struct err *e)
{
    json_auto_t *json = NULL;
    PASS(json_read_file(f->path, 0, &json, e));
    const json_t *list = json_object_get(json, "bounds");
    NEED(
        (int64_t)json_array_size(list) == n + 1 && json_integer_value(json_array_get(list, 0)) == 0,
        ERR_FORMAT, "%s: not a cut into %lld parts; remove it, if no part of this sweep is running",
        f->path, (long long)n);
    for (int64_t i = 0; i <= n; i++) {
        const int64_t bound = json_integer_value(json_array_get(list, (size_t)i));
        NEED(bound >= (i ? bounds[i - 1] : 0), ERR_FORMAT,
             "%s: bounds of parts that decrease; remove it, if no part of this sweep is running",
             f->path);
        bounds[i] = bound;
    }
    *shared = *shared || json_flag(json, "shared");
    return OK;
}

/* Whether parts of the same number were, or may have been, cut differently. */
static bool was_cut_before(const struct cut_file *f, int64_t n, bool journals)
{
    CLEANUP(parts_free) struct part_places parts = {0};
    bool found = false;
    CLEANUP(fsx_closedir) DIR *dir = opendir(f->folder);
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        found = found || (strncmp(entry->d_name, f->start, strlen(f->start)) == 0 &&
                          strcmp(entry->d_name, f->name) != 0);
    if (journals && parts_list(f->folder, &parts, NULL) == OK)
        for (int64_t i = 0; i < parts.n; i++) found = found || parts.part[i].n == n;
    return found;
}

/* Writes the file, unless another process was faster. */
static enum status record(const struct cut_file *f, int64_t n, const int64_t *bounds, struct err *e)
{
    AUTO_FREE char *hidden = NULL, *text = NULL;
    CLEANUP(temporary_end_at) char *temporary = NULL;
    json_auto_t *list = json_array(), *json = NULL;
    for (int64_t i = 0; i <= n; i++)
        json_array_append_new(list, json_integer((json_int_t)bounds[i]));
    json = json_pack("{s:I, s:b, s:O}", "parts", (json_int_t)n, "shared",
                     was_cut_before(f, n, true), "bounds", list);
    NEED(json && (text = json_write_text(json, JSON_COMPACT)), ERR_NOMEM,
         "out of memory for a cut into parts");
    PASS(mem_format(&hidden, e, "%s/.%s", f->folder, f->name)); /* was_cut_before does not see it */
    PASS(fsx_make_parent(hidden, e));
    PASS(temporary_begin(hidden, &temporary, e));
    PASS(fsx_write_atomic(temporary, text, strlen(text), e));
    if (link(temporary, f->path) != 0 && errno != EEXIST)
        NEED(rename(temporary, f->path) == 0, fsx_errno_status(errno), "%s: %s", f->path,
             strerror(errno)); /* a file system without links */
    return OK;
}

enum status plan_cut_agree(const struct plan *p, int64_t n, bool recorded, int64_t *bounds,
                           bool *disjoint, struct err *e)
{
    CLEANUP(cut_file_free) struct cut_file f = {0};
    const int64_t visits = p->n_checkpoints + plan_more(p);
    bool shared = false;
    *disjoint = false;
    PASS(cut_file_init(&f, p, n, e));
    if (recorded && !fsx_is_file(f.path)) PASS(record(&f, n, bounds, e));
    if (!fsx_is_file(f.path)) return OK;
    PASS(read_bounds(&f, n, bounds, &shared, e));
    NEED(bounds[n] == visits, ERR_FORMAT,
         "%s: for %lld visits, but the sweep has %lld; remove it, if no part of this sweep is "
         "running",
         f.path, (long long)bounds[n], (long long)visits);
    *disjoint = !shared && !was_cut_before(&f, n, false);
    return OK;
}
