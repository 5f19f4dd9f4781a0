/* qtraj merge: one cube, and one journal, of many; qtraj rebuild: a cube from its journal. */
#include "cli/args.h"
#include "cli/cli.h"
#include "records/part_files.h"
#include "records/rows.h"
#include "run/merge.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/quantity.h"
#include "util/temporary.h"
#include "util/words.h"

/* --- the output and its lock: no run of that cube goes on meanwhile --- */

/* Zero-initialise; free with target_free, which releases the lock. */
struct target {
    char *cube, *journal; /* links resolved; of the cube, not the one that is read */
    struct lock *lock;
};

static void target_free(struct target *t)
{
    lock_release(t->lock);
    free(t->cube);
    free(t->journal);
    *t = (struct target){0};
}

/* Takes the lock of the cube `name`. inputs (n): files that are read. ERR_USAGE: it is one of the
 * inputs, or there is something else than a cube; ERR_LOCKED and others: as lock_take. */
static enum status target_open(struct target *t, const char *name, const char *const *inputs,
                               int64_t n, struct err *e)
{
    PASS(fsx_resolve(name, &t->cube, e));
    for (int64_t i = 0; i < n; i++)
        NEED(!fsx_same(name, inputs[i]), ERR_USAGE,
             "%s: would replace its own input; give the cube to write, then what it is made of",
             name);
    PASS(cube_check_place("", name, e));
    PASS(journal_path(t->cube, &t->journal, e));
    PASS(lock_take(t->journal, NULL, &t->lock, e));
    temporary_remove_left(t->cube, TEMPORARY_ALL);
    temporary_remove_left(t->journal, TEMPORARY_ALL);
    return OK;
}

/* --- merge --- */

enum { LISTED = 20 }; /* of conflicts, at most */

/* A part of a sweep that is among the inputs, or should be. */
struct merged_part {
    int64_t k, n, first, end;
    struct lock_holder holder; /* of its journal */
};

struct merging {
    struct texts inputs;
    struct merge *merge;
    struct target target;
    char *temporary; /* the journal before it gets its name */
    struct merge_findings found;
    int64_t n, capacity;
    struct merged_part *parts; // (n)
};

static void merging_free(struct merging *m)
{
    temporary_end(m->temporary);
    merge_free(m->merge);
    target_free(&m->target);
    texts_free(&m->inputs);
    texts_free(&m->found.conflicts);
    free(m->parts);
}

/* --- the inputs --- */

static enum status add_folder(struct merging *m, const char *folder, struct err *e)
{
    CLEANUP(parts_free) struct part_places parts = {0};
    PASS(parts_list(folder, &parts, e));
    NEED(parts.n > 0, ERR_USAGE,
         "%s: no parts in this folder; expected journals such as part-001-of-008.journal", folder);
    for (int64_t i = 0; i < parts.n; i++) PASS(texts_add(&m->inputs, parts.part[i].journal, e));
    return OK;
}

/* The part that an input's plan says that it is of. */
static enum status note_part(struct merging *m, int64_t input, const char *name, struct err *e)
{
    AUTO_FREE char *journal = NULL;
    const json_t *part = json_object_get(merge_plan_of(m->merge, input), "part");
    const bool cube = words_end(name, ".h5");
    if (!part) return OK;
    PASS(mem_grow(&m->parts, m->n, &m->capacity, sizeof *m->parts, e));
    if (cube) PASS(journal_path(name, &journal, e));
    m->parts[m->n++] = (struct merged_part){.k = json_int(part, "k"),
                                            .n = json_int(part, "n"),
                                            .first = json_int(part, "first"),
                                            .end = json_int(part, "end"),
                                            .holder = lock_look(cube ? journal : name)};
    return OK;
}

/* What the journal of the output already holds stays in it. */
static enum status add_inputs(struct merging *m, struct err *e)
{
    const struct target *t = &m->target;
    PASS(merge_new(&m->merge, e));
    for (int64_t i = 0; i < m->inputs.n; i++) {
        NEED(!fsx_same(t->journal, m->inputs.text[i]), ERR_USAGE,
             "%s: the merge would replace it. Leave it out, since what it holds stays in it, or "
             "name another output",
             m->inputs.text[i]);
        PASS(merge_add(m->merge, m->inputs.text[i], e));
        PASS(note_part(m, i, m->inputs.text[i], e));
    }
    if (!fsx_is_file(t->journal)) return OK;
    NEED(merge_of_journals(m->merge), ERR_USAGE,
         "%s: there already; cubes cannot be merged into it: merge their journals, or name another "
         "output",
         t->journal);
    return merge_add(m->merge, t->journal, e);
}

/* --- what was found --- */

static bool is_there(const struct merging *m, int64_t k, int64_t n)
{
    for (int64_t i = 0; i < m->n; i++)
        if (m->parts[i].k == k && m->parts[i].n == n) return true;
    return false;
}

/* "2, 5-7 of 8: not among the inputs": parts of the same cut as part i, if that is its first one.
 */
static enum status tell_missing(const struct merging *m, int64_t i, struct err *e)
{
    AUTO_FREE char *text = NULL;
    const int64_t n = m->parts[i].n;
    for (int64_t j = 0; j < i; j++)
        if (m->parts[j].n == n) return OK;
    for (int64_t k = 1, last; k <= n; k = last + 1) {
        for (last = k; last <= n && !is_there(m, last, n);) last++;
        if (last == k) continue;
        PASS(mem_append(&text, e, "%s%lld", text ? ", " : "", (long long)k));
        if (last - k > 1) PASS(mem_append(&text, e, "-%lld", (long long)last - 1));
    }
    if (text) log_info("part %s of %lld: not among the inputs", text, (long long)n);
    return OK;
}

/* Parts that are running, and those with results that nobody has. */
static void tell_parts(const struct merging *m, const struct inventory *all)
{
    for (int64_t i = 0; i < m->n; i++) {
        const struct merged_part *p = &m->parts[i];
        const int64_t pending = inventory_count(all, p->first, p->end).by_state[STATE_PENDING];
        if (p->holder.held)
            log_info("part %lld of %lld: running on %s, pid %lld; %lld result%s pending",
                     (long long)p->k, (long long)p->n, p->holder.host, (long long)p->holder.pid,
                     (long long)pending, quantity_plural(pending));
        else if (pending)
            log_info("part %lld of %lld: not finished; %lld result%s pending", (long long)p->k,
                     (long long)p->n, (long long)pending, quantity_plural(pending));
    }
}

static enum status tell_counts(const struct merging *m, const struct inventory *all, struct err *e)
{
    const struct merge_findings *f = &m->found;
    const struct result_counts n = inventory_count(all, 0, INT64_MAX);
    log_info("%s: %lld of %lld results done, %lld failed, %lld pending", m->target.cube,
             (long long)n.by_state[STATE_DONE], (long long)n.records,
             (long long)n.by_state[STATE_FAILED], (long long)n.by_state[STATE_PENDING]);
    if (f->repeated)
        log_info("%lld result%s computed more than once: the best is kept; %lld of them have "
                 "slightly different numbers, by other versions, kernels or ranks; %lld conflict%s",
                 (long long)f->repeated, quantity_plural(f->repeated), (long long)f->differing,
                 (long long)f->conflicts.n, quantity_plural(f->conflicts.n));
    int64_t beyond = f->records; /* those that the plan asks for come off */
    for (int k = 0; recorded_measures[k]; k++) {
        const struct rows *r = &all->rows[k];
        for (int64_t i = 0; i < r->n; i = rows_next(r, i)) beyond -= r->rows[i].record != NULL;
    }
    if (beyond > 0 && merge_of_journals(m->merge))
        log_info("%lld record%s of results that the newest plan does not ask for: in the journal, "
                 "not in the cube",
                 (long long)beyond, quantity_plural(beyond));
    for (int64_t i = 0; i < f->conflicts.n && i < LISTED; i++)
        log_warn("conflict: %s", f->conflicts.text[i]);
    if (f->conflicts.n > LISTED)
        log_warn("and %lld more conflicts", (long long)(f->conflicts.n - LISTED));
    tell_parts(m, all);
    for (int64_t i = 0; n.by_state[STATE_PENDING] && i < m->n; i++) PASS(tell_missing(m, i, e));
    return OK;
}

/* --- the output --- */

static enum status write_output(struct merging *m, struct err *e)
{
    struct target *t = &m->target;
    CLEANUP(journal_close_at) struct journal *journal = NULL;
    CLEANUP(results_view_close_at) struct results_view *view = NULL;
    CLEANUP(inventory_close) struct inventory all = {0};
    PASS(temporary_begin(t->journal, &m->temporary, e));
    PASS(merge_write(m->merge, m->temporary, &m->found, e));
    PASS(journal_open_readonly(m->temporary, &journal, e));
    PASS(results_view_of_journal(journal, VIEW_BY_LINE, &view, e));
    PASS(cube_write(t->cube, view, t->lock, e));
    if (merge_of_journals(m->merge)) {
        PASS(lock_check(t->lock, e));
        PASS(fsx_publish(m->temporary, t->journal, e));
    }
    PASS(inventory_open(view->plan, view, &all, e));
    return tell_counts(m, &all, e);
}

static enum status run(struct call *c, struct err *e)
{
    const char *out;
    CLEANUP(texts_free) struct texts names = {0};
    CLEANUP(merging_free) struct merging m = {0};
    bool ignore = false;
    const struct arg table[] = {{"--ignore-damaged", ARG_SWITCH, &ignore, NULL,
                                 "leave damaged lines of journals out instead of failing"}};
    const struct args args = {ARGS(table), .more = &names};
    PASS(args_parse(&args, c, &out, 1, e));
    if (c->help) return OK;
    NEED(names.n > 0, ERR_USAGE, "what to merge is missing: journals, cubes or a folder of parts");
    for (int64_t i = 0; i < names.n; i++)
        PASS(fsx_is_dir(names.text[i]) ? add_folder(&m, names.text[i], e)
                                       : texts_add(&m.inputs, names.text[i], e));
    PASS(target_open(&m.target, out, (const char *const *)m.inputs.text, m.inputs.n, e));
    PASS(add_inputs(&m, e));
    NEED(ignore || !merge_damaged(m.merge), ERR_FORMAT,
         "%lld damaged line%s in the journals (above): nothing was merged. Repeat the merge with "
         "--ignore-damaged, and the run for what is lost",
         (long long)merge_damaged(m.merge), quantity_plural(merge_damaged(m.merge)));
    PASS(write_output(&m, e));
    if (m.found.conflicts.n) c->code = EXIT_CELLS_FAILED;
    return OK;
}

const struct command cmd_merge = {
    .name = "merge",
    .arguments = "OUT.h5 PART...",
    .doc = "make one cube of journals, cubes or a folder of parts",
    .run = run,
};

/* --- rebuild --- */

static enum status run_rebuild(struct call *c, struct err *e)
{
    const char *paths[2];
    AUTO_FREE char *beside = NULL;
    CLEANUP(target_free) struct target target = {0};
    CLEANUP(journal_close_at) struct journal *journal = NULL;
    CLEANUP(results_view_close_at) struct results_view *view = NULL;
    PASS(args_parse(&(struct args){.optional = 1}, c, paths, 2, e));
    if (c->help) return OK;
    if (!paths[1]) PASS(journal_path(paths[0], &beside, e));
    if (!paths[1]) paths[1] = beside;
    PASS(target_open(&target, paths[0], &paths[1], 1, e));
    PASS(journal_open_readonly(paths[1], &journal, e));
    PASS(results_view_of_journal(journal, VIEW_BY_LINE, &view, e));
    NEED(view->plan, ERR_FORMAT, "%s: the journal holds no plan yet: nothing has been run",
         paths[1]);
    PASS(cube_write(target.cube, view, target.lock, e));
    const int64_t n = journal_n(journal);
    log_info("%s: made from %lld record%s of %s", paths[0], (long long)n, quantity_plural(n),
             paths[1]);
    return OK;
}

const struct command cmd_rebuild = {
    .name = "rebuild",
    .arguments = "OUT.h5 [JOURNAL]",
    .doc = "write the cube anew from the journal, that beside it if none is named",
    .run = run_rebuild,
};
