/* The commands that read results: show, status, rebuild. */
#include "cli/args.h"
#include "cli/cli.h"
#include "config/sweep.h"
#include "report/results_report.h"
#include "util/fsx.h"
#include "util/log.h"
#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *name, const char *ending)
{
    size_t n = strlen(name), m = strlen(ending);
    return n > m && strcmp(name + n - m, ending) == 0;
}

/* Opens a results file as users name it: a cube or journal, or the sweep file that names one, of
 * which the journal is preferred: it is the truth, also while a run goes on. At the start of a run
 * there is no cube yet. */
static enum status open_view(const char *name, struct results_view **out, struct err *e)
{
    enum status st = OK;
    struct sweep sweep = {0};
    char *journal = NULL;
    bool from_sweep = ends_with(name, ".yaml") || ends_with(name, ".yml");
    if (from_sweep) TRY(sweep_read(name, NULL, 0, &sweep, e));
    const char *results = from_sweep ? sweep.results : name;
    TRY(journal_path(results, &journal, e));
    bool there = fsx_is_file(results) || fsx_is_dir(results);
    bool prefer = fsx_is_file(journal) && (from_sweep || !there);
    ENSURE(prefer || there || !from_sweep, ERR_IO,
           "%s: nothing has been run yet: neither %s nor %s is there", name, results, journal);
    TRY(results_view_open(prefer ? journal : results, out, e));
done:
    free(journal);
    sweep_free(&sweep);
    return st;
}

static enum status run_show(struct call *c, struct err *e)
{
    enum status st = OK;
    const char *path;
    struct show_options o = {0};
    struct results_view *view = NULL;
    const struct arg table[] = {
        {"--csv", ARG_SWITCH, &o.csv, NULL, "one row a cell and dataset, all numbers"},
        {"--json", ARG_SWITCH, &o.json, NULL, "the same as JSON"},
        {"--kind", ARG_TEXT, &o.kind, "KIND",
         "rows of checkpoint, cell (default), curvature or point, with --csv or --json"},
        {"--model", ARG_TEXT, &o.model, "NAME", "one model"},
        {"--quantizer", ARG_TEXT, &o.quantizer, "NAME", "one quantizer"},
        {"--dataset", ARG_TEXT, &o.dataset, "NAME", "one dataset"},
        {"--bits", ARG_INTEGER, &o.bits, "B", "one bit-width"},
    };
    const struct args args = {ARGS(table)};
    TRY(args_parse(&args, c, &path, 1, e));
    if (c->help) goto done;
    TRY(open_view(path, &view, e));
    TRY(report_show(view, &o, stdout, e));
done:
    results_view_close(view);
    return st;
}

const struct command cmd_show = {
    .name = "show",
    .arguments = "RESULTS [--csv|--json] [--model M] [--bits B] ...",
    .doc = "print results as a table",
    .run = run_show,
};

static enum status run_status(struct call *c, struct err *e)
{
    enum status st = OK;
    const char *path;
    bool json = false;
    struct results_view *view = NULL;
    const struct arg table[] = {{"--json", ARG_SWITCH, &json, NULL, "for machines"}};
    const struct args args = {ARGS(table)};
    TRY(args_parse(&args, c, &path, 1, e));
    if (c->help) goto done;
    TRY(open_view(path, &view, e));
    TRY(report_status(view, json, stdout, e));
done:
    results_view_close(view);
    return st;
}

const struct command cmd_status = {
    .name = "status",
    .arguments = "RESULTS [--json]",
    .doc = "count finished and failed cells, and say why they failed",
    .run = run_status,
};

static enum status run_rebuild(struct call *c, struct err *e)
{
    enum status st = OK;
    const char *paths[2];
    struct journal *journal = NULL;
    struct results_view *view = NULL;
    TRY(args_parse(&(struct args){0}, c, paths, 2, e));
    if (c->help) goto done;
    TRY(journal_open_readonly(paths[1], &journal, e));
    TRY(results_view_of_journal(journal, &view, e));
    TRY(cube_write(paths[0], view, e));
    log_info("%s: made from %lld records of %s", paths[0], (long long)journal_n(journal), paths[1]);
done:
    results_view_close(view);
    journal_close(journal);
    return st;
}

const struct command cmd_rebuild = {
    .name = "rebuild",
    .arguments = "OUT.h5 JOURNAL",
    .doc = "write the cube anew from the journal alone",
    .run = run_rebuild,
};
