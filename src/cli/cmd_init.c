/* qtraj init: a first sweep file, and a table of checkpoints for each run, from the folders of the
 * checkpoints. The folder that checkpoints are in is a run. */
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/init_internal.h"
#include "config/trajectory.h"
#include "engine/inputs.h"
#include "eval/dataset.h"
#include "train/known_runs.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/quantity.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <strings.h>
#include <unistd.h>

/* --- what a checkpoint's folder says of its place in training --- */

/* A checkpoint's trainer_state.json grows with the run, scheduler.pt does not. */
enum { STATE_BYTES = 256 << 20, SCHEDULER_BYTES = 1 << 20 };

static void init_checkpoint_free(struct init_checkpoint *f)
{
    free(f->name);
    free(f->tokenizer);
}

/* --- names --- */

/* The number behind the last "word" in the name, or "word-", "word_"; *rest: what follows it.
 * NULL: none. */
static const char *number_after(const char *name, const char *word, const char **rest)
{
    const char *found = NULL;
    const size_t n = strlen(word);
    for (const char *p = name; *p; p++) {
        if (strncasecmp(p, word, n) != 0) continue;
        const char *digits = p + n + (p[n] == '-' || p[n] == '_');
        if (!isdigit((unsigned char)*digits)) continue;
        found = digits;
        *rest = digits + strspn(digits, "0123456789");
    }
    return found;
}

/* "step1000-tokens4B", "checkpoint-500", "ckpt_10", "000300"; not "main", "llama-7b", "epoch3". */
static int64_t step_of(const char *name)
{
    const char *rest, *digits = number_after(name, "step", &rest);
    if (!digits) {
        const char *end = name + strlen(name);
        digits = end;
        while (digits > name && isdigit((unsigned char)digits[-1])) digits--;
        if (digits == end || number_after(name, "epoch", &rest) == digits) return -1;
    }
    return strtoll(digits, NULL, 10);
}

static double tokens_of(const char *name)
{
    static const char prefixes[] = "KMBT";
    const char *rest, *digits = number_after(name, "tokens", &rest),
                      *prefix = digits && *rest ? strchr(prefixes, *rest) : NULL;
    return prefix ? strtod(digits, NULL) * pow(1000, (double)(prefix - prefixes + 1)) : NAN;
}

/* --- files of trainers --- */

static void read_trainer_state(const char *path, struct init_checkpoint *f)
{
    json_t *state = NULL, *one;
    size_t i;
    double last = -1;
    if (json_read_file(path, STATE_BYTES, &state, NULL) != OK) return;
    const json_t *step = json_object_get(state, "global_step");
    if (json_is_integer(step)) f->step = json_integer_value(step);
    const double seen = json_number_get(json_object_get(state, "num_input_tokens_seen"));
    if (seen > 0) f->tokens = seen;
    json_array_foreach(json_object_get(state, "log_history"), i, one) {
        const double at = json_number_get(json_object_get(one, "step"));
        const double rate = json_number_get(json_object_get(one, "learning_rate"));
        if (!(at > last && at <= (double)f->step && rate >= 0)) continue;
        last = at;
        f->learning_rate = rate;
    }
    json_decref(state);
}

/* The first number of the list `_last_lr` that PyTorch's schedulers save: in the pickle, behind
 * the name, an empty list (the opcode ]), perhaps a mark (, and a double, G and 8 bytes with the
 * highest first; each of the first two may be noted (q and a byte, r and 4, or 0x94). Source:
 * Python's pickletools. Anything else is not known. */
static void read_scheduler(const char *path, struct init_checkpoint *f)
{
    static const char name[] = "_last_lr";
    char *data = NULL;
    size_t n;
    uint64_t bits = 0;
    double rate;
    if (fsx_read(path, SCHEDULER_BYTES, &data, &n, NULL) != OK) return;
    const unsigned char *p = memmem(data, n, name, sizeof name - 1),
                        *end = (unsigned char *)data + n;
    if (p) p += sizeof name - 1;
    while (p && p < end && *p != 'G')
        p = *p == ']' || *p == '(' || *p == 0x94 ? p + 1
            : *p == 'q'                          ? p + 2
            : *p == 'r'                          ? p + 5
                                                 : NULL;
    if (p && end - p > 8) {
        for (int i = 1; i <= 8; i++) bits = bits << 8 | p[i];
        memcpy(&rate, &bits, sizeof rate);
        if (rate >= 0 && isfinite(rate)) f->learning_rate = rate;
    }
    free(data);
}

/* Of the checkpoint `name` in a folder. The step is global_step of trainer_state.json (of
 * transformers' Trainer), else from the name; tokens are its num_input_tokens_seen, else from a
 * name like step1000-tokens4B; the rate is what scheduler.pt ends with, else the last one in
 * log_history up to the step. ERR_NOMEM. */
static enum status init_checkpoint_find(const char *folder, const char *name,
                                        struct init_checkpoint *out, struct err *e)
{
    AUTO_FREE char *path = NULL, *state = NULL, *scheduler = NULL;
    *out = (struct init_checkpoint){
        .step = step_of(name), .tokens = tokens_of(name), .learning_rate = NAN};
    PASS(mem_string(&out->name, name, e));
    PASS(mem_format(&path, e, "%s/%s", folder, name));
    PASS(mem_format(&state, e, "%s/trainer_state.json", path));
    PASS(mem_format(&scheduler, e, "%s/scheduler.pt", path));
    read_trainer_state(state, out);
    read_scheduler(scheduler, out);
    return visit_tokenizer(path, &out->tokenizer, e);
}

/* For qsort: by step, those without one last, then by name. */
static int init_checkpoint_order(const void *a, const void *b)
{
    const struct init_checkpoint *x = a, *y = b;
    const uint64_t i = (uint64_t)x->step, k = (uint64_t)y->step; /* -1 is the largest */
    return i != k ? (i > k) - (i < k) : strcmp(x->name, y->name);
}

/* --- the folders --- */

static void init_free(struct init *o)
{
    for (struct run_folder *r = o->runs; r < o->runs + o->n; r++) {
        for (int64_t i = 0; i < r->n; i++) init_checkpoint_free(&r->checkpoints[i]);
        free(r->checkpoints);
        free(r->path);
        free(r->name);
        free(r->table);
        free(r->parent);
    }
    free(o->runs);
    free(o->folder);
    free(o->stem);
    texts_free(&o->text_paths);
    texts_free(&o->texts);
    free(o->tokenizer_path);
}

/* *out (the caller frees) = the path without links. */
static enum status resolve(const char *path, char **out, struct err *e)
{
    char found[PATH_MAX];
    NEED(realpath(path, found), ERR_IO, "%s: %s", path, strerror(errno));
    return mem_string(out, found, e);
}

/* *out (the caller frees) = the text's path, or a pattern that some file matches, from the root. */
static enum status resolve_text(char *text, char **out, struct err *e)
{
    const struct data_options data = {.text = text};
    CLEANUP(texts_free) struct texts files = {0};
    char here[PATH_MAX] = "";
    if (fsx_is_file(text) || !strpbrk(text, "*?[{")) return resolve(text, out, e);
    PASS(dataset_files(&data, &files, e));
    NEED(text[0] == '/' || getcwd(here, PATH_MAX), ERR_IO, ".: %s", strerror(errno));
    return mem_format(out, e, "%s%s%s", here, here[0] ? "/" : "", text);
}

/* The table that the run's folder has itself, as of qtraj train, and whose branch the run is. */
static enum status find_table(struct run_folder *r, struct err *e)
{
    AUTO_FREE char *table = NULL;
    CLEANUP(trajectory_free) struct model_entry m = {0};
    PASS(mem_format(&table, e, "%s/trajectory.csv", r->path));
    r->own = fsx_is_file(table);
    if (!r->own) return OK;
    PASS(trajectory_read(table, false, &m, e));
    r->rows = m.n_rows;
    r->table = TAKE(table);
    for (int64_t i = 0; i < m.n_columns && !r->parent; i++)
        if (strcmp(m.columns[i].name, "parent") == 0 && m.columns[i].n)
            PASS(mem_string(&r->parent, m.columns[i].values[0], e));
    return OK;
}

static enum status find_run(struct init *o, const char *path, struct run_folder **out,
                            struct err *e)
{
    int64_t same = 0;
    const char *name = strrchr(path, '/') + 1;
    for (*out = o->runs; *out < o->runs + o->n; ++*out)
        if (strcmp((*out)->path, path) == 0) return OK;
    for (int64_t i = 0; i < o->n; i++) same += strcmp(strrchr(o->runs[i].path, '/') + 1, name) == 0;
    PASS(mem_grow(&o->runs, o->n, &o->capacity, sizeof *o->runs, e));
    *out = &o->runs[o->n];
    **out = (struct run_folder){0};
    o->n++;
    PASS(mem_string(&(*out)->path, path, e));
    PASS(find_table(*out, e));
    if (same == 0) return mem_string(&(*out)->name, *name ? name : "run", e);
    return mem_format(&(*out)->name, e, "%s-%lld", name, (long long)same + 1);
}

static enum status add_checkpoint(struct init *o, const char *folder, const char *name,
                                  struct err *e)
{
    AUTO_FREE char *path = NULL;
    struct run_folder *r;
    PASS(resolve(folder, &path, e));
    PASS(find_run(o, path, &r, e));
    for (int64_t i = 0; i < r->n; i++)
        if (strcmp(r->checkpoints[i].name, name) == 0) return OK;
    PASS(mem_grow(&r->checkpoints, r->n, &r->capacity, sizeof *r->checkpoints, e));
    r->checkpoints[r->n] = (struct init_checkpoint){0};
    r->n++;
    return init_checkpoint_find(r->path, name, &r->checkpoints[r->n - 1], e);
}

/* The checkpoints in the folder, else those in its folders of runs, which have tables; else the
 * folder as one. */
static enum status add_folder(struct init *o, const char *given, struct err *e)
{
    enum status st = OK;
    char *path = NULL, *slash, *run = NULL;
    bool any = false;
    struct dirent **all = NULL;
    int n = -1;
    TRY(mem_string(&path, given, e));
    while ((slash = strrchr(path, '/')) && slash > path && !slash[1]) *slash = '\0';
    ENSURE((n = scandir(path, &all, NULL, alphasort)) >= 0, ERR_IO, "%s: %s", given,
           strerror(errno));
    for (int i = 0; i < n; i++) {
        if (all[i]->d_name[0] == '.') continue;
        if (!fsx_has("%s/%s/config.json", path, all[i]->d_name)) continue;
        any = true;
        TRY(add_checkpoint(o, path, all[i]->d_name, e));
    }
    for (int i = 0; i < n && !any; i++) {
        const char *name = all[i]->d_name;
        if (name[0] == '.' || !fsx_has("%s/%s/trajectory.csv", path, name)) continue;
        mem_drop(&run);
        TRY(mem_format(&run, e, "%s/%s", path, name));
        TRY(add_folder(o, run, e));
    }
    if (!any) TRY(unfinished_warn(path, e));
    if (any || run) goto done;
    ENSURE(fsx_has("%s/config.json", path), ERR_USAGE,
           "%s: no checkpoint; expected config.json in it or in a folder in it, or folders with "
           "trajectory.csv, as of qtraj train",
           given);
    slash = strrchr(path, '/');
    ENSURE((slash ? slash + 1 : path)[0] != '.', ERR_USAGE,
           "%s: a checkpoint is named by the name of its folder", given);
    if (slash) *slash = '\0';
    TRY(add_checkpoint(o, !slash ? "." : slash == path ? "/" : path, slash ? slash + 1 : path, e));
done:
    for (int i = 0; i < n; i++) free(all[i]);
    free(all);
    free(run);
    free(path);
    return st;
}

/* In the order of training; equal steps are none. */
static void order(struct run_folder *r)
{
    bool twice = false;
    qsort(r->checkpoints, (size_t)r->n, sizeof *r->checkpoints, init_checkpoint_order);
    for (int64_t i = 1; i < r->n; i++)
        twice = twice || (r->checkpoints[i].step >= 0 &&
                          r->checkpoints[i].step == r->checkpoints[i - 1].step);
    if (!twice) return;
    log_warn("%s: several checkpoints have the same step, so the table has no steps", r->path);
    for (int64_t i = 0; i < r->n; i++) r->checkpoints[i].step = -1;
}

static enum status check_place(const struct init *o, const char *path, struct err *e)
{
    NEED(o->force || !fsx_is_file(path), ERR_USAGE,
         "%s is there already; --force replaces it, --out names another", path);
    return OK;
}

/* Writes the tables and then the sweep file, which is read again. */
static enum status write_all(const struct init *o, struct err *e)
{
    AUTO_FREE char *text = NULL;
    CLEANUP(sweep_free) struct sweep sweep = {0};
    if (!o->force && fsx_is_file(o->out)) PASS(init_print_missing(o, e));
    PASS(check_place(o, o->out, e));
    for (int64_t i = 0; i < o->n; i++)
        if (!o->runs[i].own) PASS(check_place(o, o->runs[i].table, e));
    for (int64_t i = 0; i < o->n; i++) {
        if (o->runs[i].own) continue;
        mem_drop(&text);
        PASS(init_table_text(&o->runs[i], &text, e));
        PASS(fsx_write_atomic(o->runs[i].table, text, strlen(text), e));
    }
    mem_drop(&text);
    PASS(init_sweep_text(o, &text, e));
    PASS(fsx_write_atomic(o->out, text, strlen(text), e));
    return sweep_read(o->out, NULL, 0, &sweep, e);
}

/* Where the files will be, and what they name. */
static enum status set_up(struct init *o, struct err *e)
{
    const char *slash = strrchr(o->out, '/'), *name = slash ? slash + 1 : o->out;
    char *given = NULL, *ending;
    PASS(fsx_parent(o->out, &given, e));
    const enum status st = resolve(given, &o->folder, e);
    if (st == ERR_IO) err_prefix(e, "--out: make its folder first");
    free(given);
    PASS(st);
    PASS(mem_string(&o->stem, name, e));
    if ((ending = strrchr(o->stem, '.')) && ending > o->stem) *ending = '\0';
    NEED(o->texts.n > 0, ERR_USAGE,
         "--text is missing; name a text that the models were not trained on, plain or JSON lines");
    for (int64_t i = 0; i < o->texts.n; i++) {
        AUTO_FREE char *path = NULL;
        PASS(resolve_text(o->texts.text[i], &path, e));
        PASS(texts_append(&o->text_paths, path, e));
    }
    return o->tokenizer ? resolve(o->tokenizer, &o->tokenizer_path, e) : OK;
}

static enum status run(struct call *c, struct err *e)
{
    CLEANUP(init_free) struct init o = {.out = "sweep.yaml"};
    CLEANUP(texts_free) struct texts folders = {0};
    const struct arg table[] = {
        {"--text", ARG_LIST, &o.texts, "FILE",
         "text to measure the loss on, or a pattern of files; needed, may repeat"},
        {"--out", ARG_TEXT, &o.out, "FILE.yaml", "the sweep file (default sweep.yaml)"},
        {"--tokenizer", ARG_TEXT, &o.tokenizer, "FILE",
         "tokenizer.json of all checkpoints (default: in each folder, or the one above)"},
        {"--force", ARG_SWITCH, &o.force, NULL, "replace files that are there"},
    };
    const struct args args = {ARGS(table), .more = &folders};
    PASS(args_parse(&args, c, NULL, 0, e));
    if (c->help) return OK;
    NEED(folders.n > 0, ERR_USAGE, "no folder is given; name checkpoints, or a folder of them");
    PASS(set_up(&o, e));
    for (int64_t i = 0; i < folders.n; i++) PASS(add_folder(&o, folders.text[i], e));
    for (struct run_folder *r = o.runs; r < o.runs + o.n; r++) {
        order(r);
        if (r->own) continue;
        PASS(mem_format(&r->table, e, "%s/%s%s%s.csv", o.folder, o.stem, o.n > 1 ? "-" : "",
                        o.n > 1 ? r->name : ""));
    }
    PASS(write_all(&o, e));
    for (int64_t i = 0; i < o.n; i++)
        printf("%s: %lld checkpoint%s, in %s\n", o.runs[i].name, (long long)init_swept(&o.runs[i]),
               quantity_plural(init_swept(&o.runs[i])), strrchr(o.runs[i].table, '/') + 1);
    printf("Look at %s, then: qtraj plan %s\n", o.out, o.out);
    return OK;
}

const struct command cmd_init = {
    .name = "init",
    .arguments = "FOLDER... --text FILE [--out FILE.yaml] [--tokenizer FILE] [--force]",
    .doc = "write a first sweep file from what is in checkpoint folders",
    .without_mpi = true,
    .run = run,
};
