#include "cli/run_arguments.h"
#include "plan/plan_parts.h"
#include "records/lock.h"
#include "records/part_files.h"
#include "run/run_master.h"
#include "util/fsx.h"
#include "util/mem.h"

void run_arguments_free(struct run_arguments *a)
{
    texts_free(&a->set);
    texts_free(&a->only);
}

enum status run_arguments(struct run_arguments *a, struct call *c, const struct arg *more, int n,
                          struct err *e)
{
    enum { OWN = 8, MOST = 18 };
    static const char *const retried[] = {"failed", NULL};
    struct arg_choice retry = {.words = retried};
    const char *part = NULL;
    const struct arg own[OWN] = {
        {"--set", ARG_LIST, &a->set, "KEY=VALUE", "override a key of the sweep file"},
        {"--only", ARG_LIST, &a->only, "KEY=PATTERN",
         "only cells whose model, checkpoint, bits or quantizer match, or points of a surface"},
        {"--part", ARG_TEXT, &part, "K/N",
         "part K of N, of equal expected cost, into a cube and a journal of its own"},
        {"--retry", ARG_CHOICE, &retry, "failed",
         "compute failed cells again even if no input file has changed"},
        {"--redo", ARG_SWITCH, &a->choice.redo, NULL, "compute finished cells again"},
        {"--adopt", ARG_SWITCH, &a->adopt, NULL,
         "take over results of a sweep with another name or without a checkpoint of this one, or "
         "replace those of other weights in another folder"},
        {"--until", ARG_TEXT, &a->until, "TIME",
         "when the run must have ended: 8h, 30m, 1-12:00:00 from now, or 2026-01-31T18:00; in a "
         "Slurm job, its end if that is earlier"},
        {"--so-far", ARG_SWITCH, &a->so_far, NULL,
         "of each trajectory only the checkpoints before the first that is not there yet"},
    };
    struct arg table[MOST];
    memcpy(table, own, sizeof own);
    if (n > 0) memcpy(table + OWN, more, (size_t)n * sizeof *more);
    const struct args args = {.table = table, .n = OWN + n};
    PASS(args_parse(&args, c, &a->path, 1, e));
    if (part && !c->help) PASS(plan_part_parse(part, &a->choice.part, e));
    a->choice.retry_failed = retry.word != NULL;
    a->choice.n_only = a->only.n;
    a->choice.only = a->only.text;
    return plan_choice_check(&a->choice, e);
}

enum status run_arguments_find(const struct run_arguments *a, struct sweep *sweep, char **results,
                               char **journal, struct err *e)
{
    const struct plan_part *part = &a->choice.part;
    PASS(run_read_sweep(a->path, a->set.text, a->set.n, a->so_far, sweep, e));
    PASS(sweep_check_results(sweep, e));
    PASS(part->n ? parts_path(sweep->results, part->k, part->n, results, e)
                 : mem_string(results, sweep->results, e));
    PASS(journal_path(*results, journal, e));
    return lock_check_free(*journal, e);
}

enum status run_arguments_view(const struct sweep *sweep, const struct plan_part *part,
                               struct results_view **view, struct err *e)
{
    AUTO_FREE char *file = NULL;
    CLEANUP(journal_close_at) struct journal *journal = NULL;
    *view = NULL;
    if (part->n) return parts_view(sweep->results, VIEW_STATES, view, e);
    PASS(journal_path(sweep->results, &file, e));
    if (!fsx_is_file(file)) return parts_view(sweep->results, VIEW_STATES, view, e);
    PASS(journal_open_readonly(file, &journal, e));
    PASS(results_view_of_journal(journal, VIEW_STATES, view, e));
    return parts_add_records(sweep->results, file, 0, VIEW_STATES, NULL, *view, e);
}
