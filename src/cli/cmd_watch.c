/* qtraj watch: runs a sweep whose checkpoints are still being made: a round, as `qtraj launch
 * --so-far`, whenever there are more of them. */
#include "cli/launch.h"
#include "run/run_until.h"
#include "sched/sched.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/quantity.h"
#include <math.h>

struct watch {
    struct launch launch;
    const char *every, *idle;
    struct texts limits; /* BITS=PERCENT */
    double every_s, idle_s;
    double until; /* Unix time */
    char *seen;   /* a line of each checkpoint that the last round had */
    int64_t n;    /* their number */
    char *fault;  /* of the sweep file, as was said last */
    bool failed;  /* cells */
};

static void watch_free(struct watch *w)
{
    free(w->seen);
    free(w->fault);
    texts_free(&w->limits);
    launch_free(&w->launch);
}

/* --- the limit --- */

/* "4=5.5" */
static enum status parse_limit(const char *text, int64_t *bits, double *percent, struct err *e)
{
    char *end;
    *bits = strtoll(text, &end, 10);
    const bool equals = end > text && *end == '=';
    const char *number = equals ? end + 1 : text;
    *percent = strtod(number, &end);
    NEED(equals && end > number && !*end && isfinite(*percent), ERR_USAGE,
         "--limit %s: expected BITS=PERCENT, such as 3=10", text);
    return OK;
}

/* The largest relative error over texts of a cell, in percent; *text = its label. */
static double error_of(const json_t *plan, const json_t *model, const json_t *record,
                       const char **text)
{
    const json_t *labels = json_object_get(plan, "datasets"), *digest;
    double most = -INFINITY;
    size_t i;
    json_array_foreach(json_object_get(model, "texts"), i, digest) {
        const json_t *scores =
            json_object_get(json_object_get(record, "datasets"), json_string_value(digest));
        const double x = 100 * json_number_get(json_object_get(scores, "loss_relative"));
        if (!(x > most)) continue;
        most = x;
        *text = json_string_value(json_array_get(labels, i));
    }
    return most;
}

/* Of a checkpoint of the plan: prints its first cell beyond the limit; *code: EXIT_LIMIT. */
static void look_at(const struct results_view *v, const json_t *model, const json_t *checkpoint,
                    int64_t bits, double percent, int *code)
{
    const json_t *plan = v->plan, *variant;
    size_t i;
    json_array_foreach(json_object_get(plan, "variants"), i, variant) {
        char key[HASH_HEX];
        const char *text = "";
        if (json_int(variant, "bits") != bits) continue;
        results_cell_key(json_text(checkpoint, "key", ""), json_text(variant, "key", ""), key);
        const double found = error_of(plan, model, results_view_find(v, key), &text);
        if (!(found > percent) || *code == EXIT_LIMIT) continue;
        log_error("%s %s: %s at %lld bits has a loss %.4g %% above that of full precision on %s, "
                  "more than the limit of %g %%",
                  json_text(model, "name", ""), json_text(checkpoint, "name", ""),
                  json_text(variant, "quantizer", ""), (long long)bits, found, text, percent);
        *code = EXIT_LIMIT;
    }
}

/* *code = EXIT_LIMIT if a cell of the results is beyond a limit. */
static enum status check_limits(const struct watch *w, const struct sweep *s, int *code,
                                struct err *e)
{
    AUTO_FREE char *journal = NULL;
    CLEANUP(results_view_close_at) struct results_view *view = NULL;
    if (w->limits.n == 0) return OK;
    PASS(journal_path(s->results, &journal, e));
    PASS(results_view_open(journal, VIEW_NUMBERS, "loss_relative", &view, e));
    for (int64_t i = 0; i < w->limits.n; i++) {
        const json_t *model, *checkpoint;
        size_t m, k;
        int64_t bits;
        double percent;
        PASS(parse_limit(w->limits.text[i], &bits, &percent, e));
        json_array_foreach(json_object_get(view->plan, "models"), m, model)
            json_array_foreach(json_object_get(model, "checkpoints"), k, checkpoint)
                look_at(view, model, checkpoint, bits, percent, code);
    }
    return OK;
}

/* --- rounds --- */

/* *names (the caller frees), *n = the stored checkpoints that are there. */
static enum status list(const struct sweep *s, char **names, int64_t *n, struct err *e)
{
    *n = 0;
    PASS(mem_string(names, "", e));
    for (int64_t i = 0; i < s->n_models; i++)
        for (int64_t r = 0; r < s->models[i].n_stored; r++, ++*n)
            PASS(mem_append(names, e, "%s/%s\n", s->models[i].name,
                            s->models[i].rows[r].checkpoint));
    return OK;
}

/* Computes what has come since the last look, if anything; *came: it had to. */
static enum status look(struct watch *w, bool *came, int *code, struct err *e)
{
    enum status st = OK;
    CLEANUP(sweep_free) struct sweep s = {0};
    struct err why = {0};
    const struct run_arguments *a = &w->launch.run;
    AUTO_FREE char *names = NULL;
    int64_t n;
    *came = false;
    st = plan_read_so_far(a->path, texts_list(&a->set), a->set.n, &s, &why);
    if (st != OK) {
        /* A fault of a file that somebody writes may pass, but for that of the first look. */
        if (!w->seen || (st != ERR_USAGE && st != ERR_IO)) RAISE(st, "%s", why.text);
        if (w->fault && strcmp(w->fault, why.text) == 0) return OK;
        mem_drop(&w->fault);
        log_warn("%s; waiting", why.text);
        return mem_string(&w->fault, why.text, e);
    }
    PASS(list(&s, &names, &n, e));
    *came = s.n_models > 0 && (!w->seen || strcmp(names, w->seen) != 0);
    if (*came) {
        log_info("%lld checkpoint%s there, %lld new", (long long)n, quantity_plural(n),
                 (long long)(n - w->n));
        PASS(launch_run(&w->launch, code, e));
        w->failed = *code == EXIT_CELLS_FAILED;
        if (*code <= EXIT_CELLS_FAILED) PASS(check_limits(w, &s, code, e));
        w->n = n;
    }
    free(w->seen);
    w->seen = TAKE(names);
    return st;
}

/* Until a signal, the end of the time, an end of a run that is none of its work, or a limit. */
static enum status watch(struct watch *w, int *code, struct err *e)
{
    struct clock_running clock = {0};
    double last = 0, looked = -INFINITY;
    bool came;
    sched_catch_signals();
    for (;; clock_sleep(0.2)) {
        const double now = clock_running(&clock);
        if (sched_must_end() || w->launch.stopped || (double)time(NULL) > w->until) {
            log_info("stopped: start it again to continue");
            *code = EXIT_STOPPED;
            return OK;
        }
        if (now - looked >= w->every_s) {
            PASS(look(w, &came, code, e));
            if (*code > EXIT_CELLS_FAILED) return OK;
            looked = clock_running(&clock);
            if (came) last = looked;
        }
        if (now - last >= w->idle_s) break;
    }
    log_info("nothing new for %s: %lld checkpoint%s done", w->idle, (long long)w->n,
             quantity_plural(w->n));
    *code = w->failed ? EXIT_CELLS_FAILED : EXIT_DONE;
    return OK;
}

static enum status run(struct call *c, struct err *e)
{
    CLEANUP(watch_free) struct watch w = {.every = "30s", .idle_s = INFINITY};
    const struct arg more[] = {
        {"--every", ARG_TEXT, &w.every, "TIME",
         "how often to look for new checkpoints (30s; a number alone: minutes)"},
        {"--idle", ARG_TEXT, &w.idle, "TIME",
         "end if none has come for so long; otherwise at a signal or --until alone"},
        {"--limit", ARG_LIST, &w.limits, "BITS=PERCENT",
         "end with exit code 5 if a loss at that bit-width is so much above that of full "
         "precision"},
    };
    PASS(launch_arguments(&w.launch, c, more, sizeof more / sizeof *more, e));
    if (c->help) return OK;
    NEED(!w.launch.run.choice.part.n, ERR_USAGE,
         "--part: the parts of a sweep that grows would change; watch it whole");
    PASS(span_parse(w.every, &w.every_s, e));
    if (w.idle) PASS(span_parse(w.idle, &w.idle_s, e));
    char every[QUANTITY];
    quantity_time(w.every_s, every);
    NEED(w.idle_s >= w.every_s, ERR_USAGE, "--idle %s is shorter than --every, %s", w.idle, every);
    for (int64_t i = 0, bits; i < w.limits.n; i++) {
        double percent;
        PASS(parse_limit(w.limits.text[i], &bits, &percent, e));
    }
    PASS(run_until_find(w.launch.until[0] ? w.launch.until : NULL, &w.until, e));
    w.launch.run.so_far = true;
    log_info("looks for new checkpoints every %s", every);
    return watch(&w, &c->code, e);
}

const struct command cmd_watch = {
    .name = "watch",
    .arguments = "[-n RANKS] SWEEP.yaml [--idle TIME] [--limit BITS=PERCENT] ...",
    .doc = "run a sweep whose checkpoints are still being made, as they come",
    .without_mpi = true,
    .run = run,
};
