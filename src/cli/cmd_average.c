/* qtraj average: the mean of several checkpoints, as a folder. */
#include "checkpoint/folder_write.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/single.h"
#include "config/sweep.h"
#include "engine/inputs.h"
#include "engine/weights_greedy.h"
#include "quant/quant.h"
#include "util/log.h"
#include "util/mem.h"
#include <errno.h>
#include <math.h>

struct average {
    const char *out, *tokenizer;
    struct texts dirs;
    const char *weights, *decay; /* flags; NULL: not given */
    bool greedy;
    struct data_options text; /* that chooses, with greedy */
    const char *judge;        /* of the weights quantized so; NULL: in full precision */
    int64_t bits;
    struct quant_options options;    /* of the judge */
    struct data_options calibration; /* likewise */
    struct weights mean;
    struct checkpoint **parts; // (mean.n)
    struct checkpoint *checkpoint;
};

/* --- the weights --- */

/* *value = the number that `text` begins with; *rest = what follows it and a comma, NULL at the
 * end. */
static enum status take_number(const char *flag, const char *text, double *value, const char **rest,
                               struct err *e)
{
    char *end;
    errno = 0;
    *value = strtod(text, &end);
    NEED(end > text && isfinite(*value) && (*end == ',' || !*end), ERR_USAGE,
         "%s: \"%s\" does not begin with a number", flag, text);
    *rest = *end ? end + 1 : NULL;
    return OK;
}

/* The folders, and the weight of each. */
static enum status set_up(struct average *a, bool f32, struct err *e)
{
    const char *rest = a->weights;
    double decay = 0;
    int64_t given = 1;
    NEED(!a->weights + !a->decay + !a->greedy >= 2, ERR_USAGE,
         "--weights, --ema and --greedy: expected one of them");
    a->mean = (struct weights){.kind = WEIGHTS_AVERAGE, .f32 = f32};
    PASS(mem_zero(&a->mean.parts, a->dirs.n, sizeof *a->mean.parts, "checkpoints", e));
    PASS(mem_zero(&a->parts, a->dirs.n, sizeof *a->parts, "checkpoints", e));
    for (; a->mean.n < a->dirs.n; a->mean.n++)
        PASS(mem_string(&a->mean.parts[a->mean.n].path, a->dirs.text[a->mean.n], e));
    for (const char *p = rest; p && (p = strchr(p, ',')) != NULL; p++) given++;
    NEED(!a->weights || given == a->mean.n, ERR_USAGE,
         "--weights: %lld numbers for %lld checkpoints", (long long)given, (long long)a->mean.n);
    if (a->decay) {
        PASS(take_number("--ema", a->decay, &decay, &rest, e));
        NEED(!rest && decay > 0 && decay < 1, ERR_USAGE,
             "--ema %s: expected a number between 0 and 1", a->decay);
    }
    for (int64_t i = 0; i < a->mean.n; i++) {
        double *coefficient = &a->mean.parts[i].coefficient;
        *coefficient = average_weight(decay, i, a->mean.n);
        if (a->weights) PASS(take_number("--weights", rest, coefficient, &rest, e));
    }
    return OK;
}

/* --- greedy soups --- */

static void print_choice(const json_t *record)
{
    size_t i;
    json_t *name;
    const json_t *all = json_object_get(json_object_get(record, "tables"), "candidates");
    printf("%-12s %-12s %-8s %s\n", "loss", "soup's loss", "", "candidate");
    json_array_foreach(json_object_get(all, "candidate"), i, name) {
        const json_t *kept = json_array_get(json_object_get(all, "kept"), i);
        printf("%-12.6f %-12.6f %-8s %s\n",
               json_number_get(json_array_get(json_object_get(all, "heldout_loss"), i)),
               json_number_get(json_array_get(json_object_get(all, "soup_loss"), i)),
               json_integer_value(kept) ? "kept" : "left out", json_string_value(name));
    }
}

static enum status set_judge(struct average *a, struct weights *w, struct err *e)
{
    const bool calibrated = a->calibration.text || a->calibration.ids;
    PASS(single_variant(a->judge, &a->options, &a->bits, &a->calibration, &w->variant, e));
    if (!calibrated) return OK;
    PASS(data_options_finish(&a->calibration, "calibration-", e));
    return options_copy(&data_table, &a->calibration, &w->calibration, e);
}

/* Chooses among the folders as a sweep does, by a visit of their greedy soup; those that are left
 * out are gone. */
static enum status choose(struct average *a, struct err *e)
{
    CLEANUP(single_free) struct single s = {0};
    struct weights *w = &s.visit.weights;
    int64_t n = 0;
    for (int64_t i = 0; i < a->dirs.n; i++)
        for (int64_t j = 0; j < i; j++)
            NEED(strcmp(a->dirs.text[i], a->dirs.text[j]) != 0, ERR_USAGE,
                 "--greedy: %s is there twice", a->dirs.text[i]);
    PASS(weights_copy(&a->mean, w, e));
    w->kind = WEIGHTS_GREEDY;
    w->evaluated = true; /* the visit evaluates the soup on its text */
    PASS(mem_string(&w->identity, "", e));
    PASS(options_copy(&data_heldout_table, &a->text, &w->heldout, e));
    if (a->judge) PASS(set_judge(a, w, e));
    PASS(single_add_evaluation(&s, &a->text, "", e));
    PASS(single_run(&s, a->dirs.text[0], a->tokenizer, e));
    weights_recall_choice(w, s.checkpoint);
    NEED(w->chosen, ERR_FORMAT, "the record of a greedy soup does not say what was chosen");
    print_choice(s.checkpoint);
    for (int64_t i = 0; i < w->n; i++) {
        a->mean.parts[i].coefficient = w->parts[i].coefficient;
        if (w->parts[i].coefficient == 0) {
            weights_free(&a->mean.parts[i]);
            free(a->dirs.text[i]);
            continue;
        }
        a->mean.parts[n] = a->mean.parts[i];
        a->dirs.text[n++] = a->dirs.text[i];
    }
    a->mean.n = a->dirs.n = n;
    return OK;
}

/* --- the folder --- */

static enum status write_all(struct average *a, struct err *e)
{
    AUTO_FREE char *found = NULL;
    AUTO_FREE struct tensor_shape *tensors = NULL;
    CLEANUP(folder_close_at) struct folder_out *folder = NULL;
    const char *first = a->dirs.text[0];
    for (int64_t i = 0; i < a->mean.n; i++)
        PASS(weights_open(&a->mean.parts[i], NULL, &a->parts[i], e));
    PASS(weights_open_from(&a->mean, NULL, a->parts, &a->checkpoint, e));
    const int64_t n = checkpoint_n_tensors(a->checkpoint);
    PASS(mem_alloc(&tensors, n, sizeof *tensors, "tensors", e));
    for (int64_t i = 0; i < n; i++) tensors[i] = folder_shape(checkpoint_tensor(a->checkpoint, i));
    if (!a->tokenizer) PASS(visit_tokenizer(first, &found, e));
    const struct folder_plan plan = {.config = checkpoint_config(a->checkpoint),
                                     .n = n,
                                     .tensors = tensors,
                                     .source = first,
                                     .tokenizer = a->tokenizer ? a->tokenizer : found};
    PASS(folder_create(a->out, &plan, &folder, e));
    for (int64_t i = 0; i < n; i++)
        PASS(folder_copy_tensor(folder, a->checkpoint, tensors[i].name, e));
    PASS(checkpoint_verify(a->checkpoint, e));
    PASS(folder_commit(folder, NULL, e));
    const int64_t files = folder_files(folder);
    log_info(
        "%s: the mean of %lld checkpoint%s, %lld tensors in %lld weight file%s; config.json and "
        "the files beside it are those of %s",
        a->out, (long long)a->mean.n, a->mean.n == 1 ? "" : "s", (long long)n, (long long)files,
        files == 1 ? "" : "s", first);
    return OK;
}

static void release(struct average *a)
{
    checkpoint_close(a->checkpoint);
    for (int64_t i = 0; a->parts && i < a->mean.n; i++) checkpoint_close(a->parts[i]);
    free(a->parts);
    weights_free(&a->mean);
    options_free(&data_scored_table, &a->text);
    options_free(&data_table, &a->calibration);
    texts_free(&a->dirs);
}

static enum status run(struct call *c, struct err *e)
{
    CLEANUP(release) struct average a = {0};
    static const char *const dtypes[] = {"members", "f32", NULL};
    struct arg_choice dtype = {.words = dtypes}, judge = {.words = quant_names()};
    const struct arg table[] = {
        {"--weights", ARG_TEXT, &a.weights, "W1,W2,...",
         "weight of each checkpoint, relative to their sum (equal)"},
        {"--ema", ARG_TEXT, &a.decay, "D",
         "exponential moving average over the checkpoints in this order: D times the average "
         "before + (1 - D) times the checkpoint"},
        {"--greedy", ARG_SWITCH, &a.greedy, NULL,
         "greedy soup: from the checkpoint with the smallest loss on a text to the one with the "
         "largest, keep each if the mean's loss does not rise"},
        {"--judge", ARG_CHOICE, &judge, "M",
         "the loss is that of the weights quantized by this method (qtraj methods)"},
        {"--bits", ARG_INTEGER, &a.bits, "B",
         "to which it quantizes (its own, if it has only one)"},
        {"--dtype", ARG_CHOICE, &dtype, "T",
         "members: rounded to the type that the checkpoints store, f32 where they differ (the "
         "default); f32"},
        {"--tokenizer", ARG_TEXT, &a.tokenizer, "FILE",
         "tokenizer.json that goes along (the first checkpoint's own)"},
    };
    options_default(&data_scored_table, &a.text);
    options_default(&quant_table, &a.options);
    options_default(&data_table, &a.calibration);
    const struct arg_keys keys[] = {
        {"the text of --greedy:", &data_scored_table, "", &a.text, "--greedy"},
        {"options of --judge (qtraj methods says which it has):", &quant_table, "", &a.options,
         "--judge"},
        {"the text on which it calibrates:", &data_calibration_table, "calibration-",
         &a.calibration, "--judge"}};
    static const struct arg_with with[] = {{"--judge", "--greedy"}, {"--bits", "--judge"}, {0}};
    const struct args args = {ARGS(table), ARGS_KEYS(keys), .more = &a.dirs, .with = with};
    PASS(args_parse(&args, c, &a.out, 1, e));
    if (c->help) return OK;
    a.judge = judge.word;
    NEED(a.dirs.n > 0, ERR_USAGE, "usage: qtraj average %s", c->command->arguments);
    PASS(set_up(&a, dtype.word && strcmp(dtype.word, "f32") == 0, e));
    if (a.greedy) PASS(choose(&a, e));
    return write_all(&a, e);
}

const struct command cmd_average = {
    .name = "average",
    .arguments =
        "OUT DIR... [--weights W1,W2,... | --ema D | --greedy --text FILE [--judge M]] ...",
    .doc = "write the mean of several checkpoints to a new folder that transformers loads",
    .run = run,
};
