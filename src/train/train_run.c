/* A run from its last state to its end, by a group of ranks. */
#include "train/run_files.h"
#include "train/train_all.h"
#include "util/agree.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/quantity.h"
#include <math.h>
#include <unistd.h>

/* A loss above that of equal probabilities for so many steps behind the warm-up is divergence. */
enum { DIVERGED_STEPS = 500 };
enum action { GO_ON, SAVE, STOP, DIVERGED };

struct training {
    const struct train_job *job;
    const struct run *run;
    int64_t index;
    MPI_Comm group;
    bool first;              /* this rank is the group's first */
    struct run_files *files; /* of it */
    struct trainer *trainer;
    struct corpus *corpus;
    double limit;  /* ln V */
    int64_t above; /* steps with a loss above it */
    int64_t start; /* steps done before this process */
    double began, saved, told;
    struct run_ending end;
};

/* --- the beginning --- */

/* Initial weights, if it is no branch; *step = that of the latest state, -1: none. First rank. */
static enum status find_start(struct training *x, const json_t *config, int64_t *step,
                              struct err *e)
{
    AUTO_FREE char *folder = NULL;
    const struct recipe *recipe = x->run->recipe;
    PASS(run_state_latest(x->run, step, e));
    PASS(run_start_path(x->job->runs, x->run, &folder, e));
    if (x->run->parent < 0 && !fsx_is_dir(folder))
        PASS(initial_write(config, (enum initial_scheme)recipe->model.init, (uint64_t)recipe->seed,
                           recipe->tokenizer, folder, e));
    return OK;
}

static struct trainer_options options_of(const struct training *x)
{
    return (struct trainer_options){
        .optimizer = x->run->recipe->optimizer,
        .products = (enum products)x->run->recipe->run.products,
        .micro = x->run->recipe->batch.micro,
        .memory = x->job->memory,
        .ranks = x->group,
    };
}

/* Weights and state, step: of the latest state, becomes that of the steps done. Local. */
static enum status open_all(struct training *x, int64_t *step, struct err *e)
{
    AUTO_FREE char *folder = NULL, *state = NULL;
    const struct run *r = x->run;
    const struct trainer_options options = options_of(x);
    const struct train_source *source = &x->job->sources[r->recipe - x->job->runs->recipes];
    int64_t found = 0;
    PASS(run_start_path(x->job->runs, r, &folder, e));
    PASS(trainer_open(folder, &options, &x->trainer, e));
    if (*step >= 0)
        PASS(run_state_path(r, *step, &state, e));
    else if (r->parent >= 0)
        PASS(run_state_path(&x->job->runs->runs[r->parent], r->first, &state, e));
    if (state) PASS(trainer_load(x->trainer, state, &found, e));
    *step = max64(*step, r->first);
    NEED(found == *step, ERR_FORMAT,
         "%s: the state of step %lld where that of step %lld is expected (was it renamed?)",
         state ? state : folder, (long long)found, (long long)*step);
    PASS(corpus_open(&r->recipe->data, source->path, r->recipe->batch.length, &x->corpus, e));
    x->limit = log((double)model_shape(trainer_model(x->trainer))->vocab);
    return OK;
}

static void tell_start(const struct training *x, int64_t step)
{
    const struct run *r = x->run;
    char count[QUANTITY], tokens[QUANTITY];
    const double steps = (double)(r->last - step);
    quantity_count((double)trainer_n(x->trainer), count);
    quantity_count(steps * (double)run_step_tokens(r), tokens);
    log_info("%s: %s parameters, steps %lld to %lld: %s tokens, %.3g epochs of the data%s%s",
             r->name, count, (long long)step + 1, (long long)r->last, tokens,
             steps * (double)r->recipe->batch.sequences / (double)corpus_chunks(x->corpus),
             r->left ? ", a branch of " : "", r->left ? r->left : "");
}

static enum status begin(struct training *x, const json_t *config, int64_t *step, struct err *e)
{
    enum status st = OK;
    if (x->first) st = find_start(x, config, step, e);
    PASS(err_agree(x->group, st, e));
    MPI_Bcast(step, 1, MPI_INT64_T, 0, x->group);
    st = open_all(x, step, e);
    if (st == OK && x->first) st = run_files_cut(x->files, *step, x->limit, &x->above, e);
    PASS(err_agree(x->group, st, e));
    if (x->first && *step < x->run->last) tell_start(x, *step);
    x->start = *step;
    x->began = x->saved = x->told = clock_seconds();
    return OK;
}

/* --- steps --- */

/* *loss = over all that is held out; NaN: nothing is. Collective. */
static enum status validate(struct training *x, double *loss, struct err *e)
{
    const int64_t n = corpus_held_out(x->corpus), most = x->run->recipe->batch.sequences;
    double sum = 0;
    for (int64_t a = 0; a < n; a += most) {
        struct train_tokens s;
        double one;
        const enum status st = corpus_take(x->corpus, true, a, min64(most, n - a), &s, e);
        PASS(err_agree(x->group, st, e));
        PASS(trainer_loss(x->trainer, &s, &one, e));
        sum += one * (double)s.n;
    }
    *loss = n > 0 ? sum / (double)n : NAN;
    return OK;
}

static void tell_progress(struct training *x, int64_t step, double loss)
{
    const double now = clock_seconds(), spent = now - x->began;
    const bool terminal = isatty(STDERR_FILENO);
    char line[300], left[QUANTITY], speed[QUANTITY];
    const int64_t done = step - x->start;
    if (now - x->told < (terminal ? 1 : 30) && step < x->run->last) return;
    x->told = now;
    quantity_time(spent / (double)done * (double)(x->run->last - step), left);
    quantity_count((double)(done * run_step_tokens(x->run)) / spent, speed);
    snprintf(line, sizeof line, "%s: step %lld of %lld, loss %.4f, %s tokens/s, %s left",
             x->run->name, (long long)step, (long long)x->run->last, loss, speed, left);
    log_progress(line, terminal);
}

/* The row of a step, and what comes next. First rank. */
static enum status note(struct training *x, const struct steps_row *row, enum action *next,
                        struct err *e)
{
    const struct run *r = x->run;
    const bool checkpoint = run_has_checkpoint(r, row->step);
    PASS(run_files_add(x->files, row, e));
    if (checkpoint) PASS(run_files_checkpoint(x->files, x->trainer, row->step, e));
    tell_progress(x, row->step, row->loss);
    x->above = row->loss > x->limit ? x->above + 1 : 0;
    const bool late = clock_seconds() - x->saved > r->recipe->run.save_seconds;
    *next = checkpoint || late || run_is_left_at(x->job->runs, x->index, row->step) ? SAVE : GO_ON;
    if (x->job->must_stop()) *next = STOP;
    if (x->above >= DIVERGED_STEPS && row->step > r->schedule.warmup_steps + DIVERGED_STEPS) {
        *next = DIVERGED;
        snprintf(x->end.message, sizeof x->end.message,
                 "the loss has been above %.3f, that of equal probabilities, for %d steps",
                 x->limit, DIVERGED_STEPS);
    }
    return OK;
}

static enum status step_once(struct training *x, int64_t step, int *next, struct err *e)
{
    const struct run *r = x->run;
    const int64_t n = r->recipe->batch.sequences;
    const double began = clock_seconds();
    struct train_tokens batch;
    struct train_result result;
    struct steps_row row = {.step = step,
                            .tokens = (double)(step * run_step_tokens(r)),
                            .rate = schedule_rate_of_step(&r->schedule, step)};
    enum action action = GO_ON;
    enum status st = corpus_take(x->corpus, false, (step - 1) * n, n, &batch, e);
    PASS(err_agree(x->group, st, e));
    st = trainer_step(x->trainer, step, row.rate, &batch, &result, e);
    if (st == ERR_NUMERIC && e) { /* on all ranks */
        snprintf(x->end.message, sizeof x->end.message, "%s", e->text);
        err_clear(e);
        *next = DIVERGED;
        return OK;
    }
    PASS(st);
    row.loss = result.loss;
    row.z = result.z;
    row.norm = result.norm;
    row.speed = (double)run_step_tokens(r) / (clock_seconds() - began);
    row.validation = NAN;
    if (run_has_checkpoint(r, step)) PASS(validate(x, &row.validation, e));
    if (x->first) st = note(x, &row, &action, e);
    PASS(err_agree(x->group, st, e));
    *next = (int)action;
    MPI_Bcast(next, 1, MPI_INT, 0, x->group);
    return OK;
}

static enum status go(struct training *x, int64_t step, struct err *e)
{
    int next = GO_ON;
    while (step < x->run->last && next != DIVERGED) {
        PASS(step_once(x, ++step, &next, e));
        if (next == SAVE || next == STOP) {
            enum status st = OK;
            AUTO_FREE char *path = NULL;
            if (x->first) st = run_files_sync(x->files, e);
            PASS(err_agree(x->group, st, e));
            st = run_state_path(x->run, step, &path, e);
            PASS(err_agree(x->group, st, e));
            PASS(trainer_save(x->trainer, step, path, e));
            if (x->first) st = run_states_tidy(x->job->runs, x->index, NULL, e);
            if (st == OK && x->first && x->run->parent >= 0)
                st = run_states_tidy(x->job->runs, x->run->parent, NULL, e);
            PASS(err_agree(x->group, st, e));
            x->saved = clock_seconds();
            PASS(st);
        }
        NEED(next != STOP || step == x->run->last, ERR_STOPPED,
             "%s: stopped after step %lld; start again to go on", x->run->name, (long long)step);
    }
    x->end.end = next == DIVERGED ? RUN_DIVERGED : RUN_DONE;
    x->end.step = step;
    return OK;
}

enum status train_run(const struct train_job *job, int64_t run, MPI_Comm group,
                      struct run_files *files, const json_t *config, struct err *e)
{
    enum status st = OK;
    int rank;
    int64_t step = -1;
    MPI_Comm_rank(group, &rank);
    struct training x = {.job = job,
                         .run = &job->runs->runs[run],
                         .index = run,
                         .group = group,
                         .first = rank == 0,
                         .files = files};
    TRY(begin(&x, config, &step, e));
    TRY(go(&x, step, e));
    if (x.first) st = run_files_end(files, &x.end, e);
    if (st == OK && x.first) st = run_states_tidy(job->runs, run, NULL, e);
    TRY(err_agree(group, st, e));
    if (x.first && x.end.end == RUN_DIVERGED)
        log_warn("%s: diverged at step %lld: %s", x.run->name, (long long)x.end.step,
                 x.end.message);
done:
    trainer_close(x.trainer);
    corpus_close(x.corpus);
    run_files_close(files);
    return st;
}
