/* qtraj eval: the loss of one checkpoint on a text, its logits, and its accuracy on tasks. */
#include "checkpoint/safetensors.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/single.h"
#include "engine/inputs.h"
#include "eval/head.h"
#include "eval/metric.h"
#include "util/exit_code.h"
#include "util/log.h"
#include "util/mem.h"
#include <errno.h>
#include <math.h>

/* Another checkpoint, with whose next-token distributions those of this one are compared on the
 * same tokens, as those of a cell with its checkpoint's: its final hidden states, which stay in
 * memory. */
struct reference {
    const char *dir; /* its folder or file; borrowed */
    int64_t tokens, hidden, vocab;
    int32_t *ids;    // (tokens)
    float *x;        // (tokens, hidden)
    json_t *numbers; /* the metrics of a cell (metric.h), once they are compared */
};

struct eval {
    struct single single; /* first member: its address is the hooks' context */
    struct data_options data;
    const char *logits;
    const char *log_likelihoods;
    FILE *choices; /* open file of that name */
    const char *tasks, *task_data;
    json_t *accuracies; /* of the tasks, accuracy_record */
    const char *count_tokens;
    struct reference reference, *reference_out; /* out: where the hooks put it */
};

static void eval_free(struct eval *o)
{
    if (o->choices) fclose(o->choices);
    options_free(&data_table, &o->data);
    single_free(&o->single);
    json_decref(o->accuracies);
    free(o->reference.ids);
    free(o->reference.x);
    json_decref(o->reference.numbers);
}

/* OUT holds `logits` (sequences, length, V) when all have one length, else logits.0, logits.1, ...
 */
static enum status plan_logits(const struct sequences *s, int64_t vocab,
                               struct tensor_shape **shapes, int64_t *n, struct err *e)
{
    int64_t T = s->n ? s->offset[1] - s->offset[0] : 0;
    bool equal = true;
    for (int64_t i = 0; i < s->n; i++) equal = equal && s->offset[i + 1] - s->offset[i] == T;
    *n = equal ? 1 : s->n;
    PASS(mem_zero(shapes, *n, sizeof **shapes, "logits", e));
    for (int64_t i = 0; i < *n; i++) {
        struct tensor_shape *shape = &(*shapes)[i];
        char *name;
        if (equal) {
            PASS(mem_string(&name, "logits", e));
            *shape = (struct tensor_shape){name, DTYPE_F32, 3, {s->n, T, vocab}};
        } else {
            PASS(mem_format(&name, e, "logits.%lld", (long long)i));
            *shape =
                (struct tensor_shape){name, DTYPE_F32, 2, {s->offset[i + 1] - s->offset[i], vocab}};
        }
    }
    return OK;
}

static enum status write_logits(void *context, const struct model *m, const struct sequences *s,
                                const float *x, struct err *e)
{
    enum status st = OK;
    const struct eval *o = context;
    int64_t n = 0, V = model_shape(m)->vocab, C = model_shape(m)->hidden;
    struct tensor_shape *shapes = NULL;
    struct safetensors_out *out = NULL;
    float *logits = NULL;
    TRY(plan_logits(s, V, &shapes, &n, e));
    TRY(safetensors_create(o->logits, shapes, n, &out, e));
    for (int64_t i = 0; i < s->n; i++) {
        int64_t T = s->offset[i + 1] - s->offset[i];
        mem_drop(&logits);
        TRY(mem_alloc(&logits, T * V, sizeof *logits, "logits", e));
        TRY(head_logits(m, x + s->offset[i] * C, T, logits, e));
        TRY(safetensors_append(out, logits, T * V, e));
    }
    TRY(safetensors_commit(out, e));
done:
    safetensors_out_close(out);
    for (int64_t i = 0; shapes && i < n; i++) free((char *)(uintptr_t)shapes[i].name);
    free(shapes);
    free(logits);
    return st;
}

/* --- tasks --- */

/* A line for each choice of each item. */
static enum status write_answers(const struct eval *o, const struct requests *r,
                                 const struct answers *a, struct err *e)
{
    FILE *f = o->choices;
    for (const struct request_task *t = r->tasks; t < r->tasks + r->n_tasks; t++)
        for (int64_t i = t->first; i < t[1].first; i++)
            for (int64_t k = r->items[i].first; k < r->items[i + 1].first; k++)
                fprintf(f,
                        "{\"task\":\"%s\",\"item\":%lld,\"choice\":%lld,"
                        "\"log_likelihood\":%.17g,\"tokens\":%lld,\"greedy\":%s}\n",
                        t->name, (long long)(i - t->first), (long long)(k - r->items[i].first),
                        answers_log_likelihood(r, a, k), (long long)r->list[k].tokens,
                        answers_greedy(r, a, k) ? "true" : "false");
    NEED(fflush(f) == 0 && !ferror(f), ERR_IO, "%s: cannot be written", o->log_likelihoods);
    return OK;
}

static enum status take_answers(void *context, const struct requests *r, const struct answers *a,
                                struct err *e)
{
    struct eval *o = context;
    o->accuracies = accuracy_record(r, a);
    PASS(json_whole(e));
    return o->log_likelihoods ? write_answers(o, r, a, e) : OK;
}

static enum status add_tasks(struct eval *o, int64_t shots, int64_t limit, bool apart,
                             struct err *e)
{
    struct requests_options *r = &o->single.visit.requests;
    NEED(o->task_data, ERR_USAGE, "--task-data FOLDER is missing: where is the tasks' data?");
    NEED(!o->logits, ERR_USAGE, "--logits goes with a text, not with --tasks");
    if (o->log_likelihoods) { /* before the work, so that a name that fails costs nothing */
        o->choices = fopen(o->log_likelihoods, "w");
        NEED(o->choices, ERR_IO, "%s: cannot be written: %s", o->log_likelihoods, strerror(errno));
    }
    o->single.hooks.answers = take_answers;
    PASS(mem_string(&r->tasks, o->tasks, e));
    PASS(mem_string(&r->folder, o->task_data, e));
    r->shots = shots;
    r->limit = limit;
    r->apart = apart;
    return OK;
}

static void print_tasks(json_t *tasks)
{
    const char *name;
    json_t *x;
    json_object_foreach(tasks, name, x) {
        printf("%s: accuracy %.4f ± %.4f", name, json_number_get(json_object_get(x, "accuracy")),
               json_number_get(json_object_get(x, "accuracy_stderr")));
        if (json_is_number(json_object_get(x, "accuracy_norm")))
            printf(", normalized %.4f ± %.4f", json_number_get(json_object_get(x, "accuracy_norm")),
                   json_number_get(json_object_get(x, "accuracy_norm_stderr")));
        printf(", %lld items", (long long)json_int(x, "items"));
        const json_int_t truncated = json_int(x, "items_truncated");
        if (truncated) printf(", %lld truncated", (long long)truncated);
        printf("\n");
    }
}

/* --- common tokens --- */

/* Adds the common tokens of the text and the loss per one to its results. */
static enum status add_common(const struct eval *o, struct err *e)
{
    struct visit_cache cache = {0};
    int64_t tokens;
    const struct visit *v = &o->single.visit;
    json_t *d = json_object_get(json_object_get(o->single.checkpoint, "datasets"), "evaluation");
    if (!o->count_tokens) return OK;
    const enum status st =
        visit_common_tokens(&cache, v, &v->evaluations[0], o->count_tokens, &tokens, e);
    visit_cache_free(&cache);
    if (st != OK) return st;
    const double nats = json_number_get(json_object_get(d, "bits_per_byte")) * M_LN2 *
                        json_number_get(json_object_get(d, "bytes"));
    json_object_set_new(d, "common_tokens", json_integer((json_int_t)tokens));
    json_object_set_new(d, "loss_common", json_number_new(nats / (double)tokens));
    return OK;
}

/* --- reference --- */

/* A hook of the reference's visit (part.h, `hidden`). */
static enum status keep_reference(void *context, const struct model *m, const struct sequences *s,
                                  const float *x, struct err *e)
{
    struct reference *r = ((struct eval *)context)->reference_out;
    r->tokens = s->offset[s->n];
    r->hidden = model_shape(m)->hidden;
    r->vocab = model_shape(m)->vocab;
    PASS(mem_alloc(&r->ids, r->tokens, sizeof *r->ids, "tokens of the reference", e));
    PASS(mem_alloc(&r->x, r->tokens * r->hidden, sizeof *r->x, "states of the reference", e));
    memcpy(r->ids, s->ids, (size_t)r->tokens * sizeof *r->ids);
    memcpy(r->x, x, (size_t)(r->tokens * r->hidden) * sizeof *r->x);
    return OK;
}

static enum status check_same(const struct reference *r, const struct model *m,
                              const struct sequences *s, struct err *e)
{
    const struct model_shape *shape = model_shape(m);
    NEED(shape->vocab == r->vocab && shape->hidden == r->hidden, ERR_SHAPE,
         "--reference %s: vocabulary %lld and hidden size %lld, where the checkpoint has %lld and "
         "%lld: not the same model?",
         r->dir, (long long)r->vocab, (long long)r->hidden, (long long)shape->vocab,
         (long long)shape->hidden);
    NEED(s->offset[s->n] == r->tokens &&
             memcmp(s->ids, r->ids, (size_t)r->tokens * sizeof *r->ids) == 0,
         ERR_SHAPE,
         "--reference %s: it reads other tokens: give both the same --tokenizer and --length",
         r->dir);
    return OK;
}

/* The same of the other checkpoint's. */
static enum status compare(void *context, const struct model *m, const struct sequences *s,
                           const float *x, struct err *e)
{
    struct reference *r = ((struct eval *)context)->reference_out;
    CLEANUP(checkpoint_close_at) struct checkpoint *c = NULL;
    CLEANUP(model_close_at) struct model *full = NULL;
    CLEANUP(scores_free) struct scores before = {0}, after = {0};
    AUTO_FREE struct span *spans = NULL;
    PASS(check_same(r, m, s, e));
    PASS(checkpoint_open(r->dir, &c, e));
    PASS(model_open(c, &full, e));
    model_set_products(full, model_products(m));
    model_prepare_f32(full, model_prepares(m));
    model_set_rounding(full, model_rounding(m));
    PASS(scores_init(&before, s->n, e));
    PASS(scores_init(&after, s->n, e));
    PASS(mem_alloc(&spans, s->n, sizeof *spans, "spans", e));
    for (int64_t i = 0; i < s->n; i++) spans[i] = head_text_span(s, i);
    PASS(head_compare((const struct model *const[]){full, m}, spans, s->n,
                      (const float *const[]){r->x, x}, (struct scores[]){before, after}, e));
    r->numbers = metrics_record(s, 0, s->n, after.sum, before.sum, METRIC_CELL);
    NEED(r->numbers, ERR_NOMEM, "out of memory for metrics");
    /* these are of the checkpoint alone */
    static const char *const own[] = {"loss", "perplexity", "bits_per_byte", "sequence_loss"};
    for (int i = 0; i < 4; i++) (void)json_object_del(r->numbers, own[i]);
    return OK;
}

/* Evaluates the reference on the same text. *tokenizer (the caller frees): of both, unless one is
 * named; NULL: none. */
static enum status run_reference(struct eval *o, const char *named, const char *products,
                                 const char *rounding, char **tokenizer, struct err *e)
{
    CLEANUP(eval_free) struct eval other = {.reference_out = &o->reference};
    *tokenizer = NULL;
    if (!o->reference.dir) return OK;
    NEED(!o->logits && !o->tasks, ERR_USAGE, "--reference goes with neither --logits nor --tasks");
    o->reference_out = &o->reference;
    if (!named) PASS(visit_tokenizer(o->reference.dir, tokenizer, e));
    PASS(options_copy(&data_table, &o->data, &other.data, e));
    PASS(single_add_evaluation(&other.single, &other.data, "", e));
    other.single.hooks.hidden = keep_reference;
    single_numbers(&other.single, products, rounding);
    const enum status st =
        single_run(&other.single, o->reference.dir, named ? named : *tokenizer, e);
    if (st != OK) err_prefix(e, "--reference %s", o->reference.dir);
    o->single.hooks.hidden = compare;
    return st;
}

static void print_reference(const json_t *numbers)
{
    const char *const keys[] = {"loss_delta", "loss_relative", "loss_relative_stderr",
                                "kl_divergence", "top1_agreement"};
    double x[5];
    for (int i = 0; i < 5; i++) x[i] = json_number_get(json_object_get(numbers, keys[i]));
    printf("against the reference: loss %+.6f nats, relative %+.6f ± %.6f, KL divergence %.6f "
           "nats, top-1 agreement %.4f\n",
           x[0], x[1], x[2], x[3], x[4]);
}

/* --- results --- */

/* Whether the loss is a number, and a warning if it is not. */
static bool is_finite(const struct eval *o)
{
    const json_t *sets = json_object_get(o->single.checkpoint, "datasets"),
                 *d = json_object_get(sets, "evaluation");
    if (!d || isfinite(json_number_get(json_object_get(d, "loss")))) return true;
    log_warn("%s: its loss is not finite: the weights hold numbers that are none, or overflow",
             o->single.visit.checkpoint);
    return false;
}

static enum status print(const struct eval *o, bool json, int *code, struct err *e)
{
    if (!is_finite(o)) *code = EXIT_CELLS_FAILED;
    const json_t *record = o->single.checkpoint;
    const json_t *d = json_object_get(json_object_get(record, "datasets"), "evaluation");
    json_t *tasks = o->accuracies;
    if (!json) print_tasks(tasks);
    if (!json && d) {
        printf("loss %.6f ± %.6f nats, perplexity %.4f, %lld tokens scored\n",
               json_number_get(json_object_get(d, "loss")),
               json_number_get(json_object_get(d, "loss_stderr")),
               json_number_get(json_object_get(d, "perplexity")), (long long)json_int(d, "tokens"));
        if (o->count_tokens)
            printf("loss %.6f nats per common token, %lld common tokens, %.6f bits per byte\n",
                   json_number_get(json_object_get(d, "loss_common")),
                   (long long)json_int(d, "common_tokens"),
                   json_number_get(json_object_get(d, "bits_per_byte")));
    }
    if (!json && o->reference.numbers) print_reference(o->reference.numbers);
    if (!json) return OK;
    if (!d) return cli_print_json(json_pack("{s:O}", "tasks", tasks), JSON_COMPACT, e);
    json_t *out = json_pack(
        "{s:o, s:o, s:o, s:o, s:O, s:O, s:O*, s:O*, s:O*, s:O*}", "loss",
        single_number(record, "loss"), "loss_stderr", single_number(record, "loss_stderr"),
        "perplexity", single_number(record, "perplexity"), "bits_per_byte",
        single_number(record, "bits_per_byte"), "tokens", json_object_get(d, "tokens"),
        "loss_per_sequence", json_object_get(d, "sequence_loss"), "common_tokens",
        json_object_get(d, "common_tokens"), "loss_common", json_object_get(d, "loss_common"),
        "tasks", tasks, "reference", o->reference.numbers);
    return cli_print_json(out, JSON_COMPACT, e);
}

static const struct arg_with with[] = {{"--tokenizer", "--text --tasks"},
                                       {"--logits", "--text --ids"},
                                       {"--reference", "--text --ids"},
                                       {"--task-data", "--tasks"},
                                       {"--shots", "--tasks"},
                                       {"--limit", "--tasks"},
                                       {"--log-likelihoods", "--tasks"},
                                       {"--apart", "--tasks"},
                                       {"--count-tokens", "--text"},
                                       {NULL, NULL}};

static enum status run(struct call *c, struct err *e)
{
    CLEANUP(eval_free) struct eval o = {0};
    const char *dir, *tokenizer = NULL;
    AUTO_FREE char *counts = NULL, *common = NULL;
    struct arg_choice products = {.words = products_words}, rounding = {.words = rounding_words};
    bool json = false, apart = false;
    int64_t shots = TASK_SHOTS, limit = 0;
    const struct arg table[] = {
        {"--tokenizer", ARG_TEXT, &tokenizer, "FILE", "tokenizer.json (DIR's own)"},
        {"--logits", ARG_TEXT, &o.logits, "OUT", "write the logits to a safetensors file"},
        {"--products", ARG_CHOICE, &products, "KIND", "how forward passes multiply (f32)"},
        {"--rounding", ARG_CHOICE, &rounding, "TYPE", "to which they round each result (f32)"},
        {"--tasks", ARG_TEXT, &o.tasks, "NAME[,NAME...]",
         "multiple-choice tasks (qtraj tasks); a text is not needed then"},
        {"--task-data", ARG_TEXT, &o.task_data, "FOLDER", "of the tasks' data"},
        {"--shots", ARG_INTEGER, &shots, "N", "examples before each question; default 5"},
        {"--limit", ARG_INTEGER, &limit, "N", "items of each task, the first ones; default: all"},
        {"--log-likelihoods", ARG_TEXT, &o.log_likelihoods, "OUT",
         "write a line of JSON for each choice of each item"},
        {"--apart", ARG_SWITCH, &apart, NULL,
         "every choice as a sequence of its own: slower, for comparison"},
        {"--count-tokens", ARG_TEXT, &o.count_tokens, "FOLDER",
         "print the loss per token of this tokenizer too"},
        {"--reference", ARG_TEXT, &o.reference.dir, "DIR",
         "compare with this checkpoint: relative error, KL divergence, top-1 agreement"},
        {"--json", ARG_SWITCH, &json, NULL, "print JSON"},
    };
    options_default(&data_table, &o.data);
    const struct arg_keys keys[] = {{"the text:", &data_scored_table, "", &o.data, "--text --ids"}};
    const struct args args = {ARGS(table), ARGS_KEYS(keys), .with = with};
    PASS(args_parse(&args, c, &dir, 1, e));
    if (c->help) return OK;
    if (o.count_tokens) PASS(visit_common_tokenizer(o.count_tokens, &counts, e)); /* is it there? */
    PASS(run_reference(&o, tokenizer, products.word, rounding.word, &common, e));
    if (o.tasks) PASS(add_tasks(&o, shots, limit, apart, e));
    if (!o.tasks || o.data.text || o.data.ids)
        PASS(single_add_evaluation(&o.single, &o.data, "", e));
    if (o.logits) o.single.hooks.hidden = write_logits;
    single_numbers(&o.single, products.word, rounding.word);
    PASS(single_run(&o.single, dir, tokenizer ? tokenizer : common, e));
    PASS(add_common(&o, e));
    return print(&o, json, &c->code, e);
}

const struct command cmd_eval = {
    .name = "eval",
    .arguments = "DIR (--text FILE [--length N] | --ids FILE:KEY) [--logits OUT] [--reference DIR] "
                 "[--json], or "
                 "DIR --tasks NAME[,NAME...] --task-data FOLDER",
    .doc = "measure the loss of one checkpoint, or its accuracy on tasks",
    .run = run,
};
