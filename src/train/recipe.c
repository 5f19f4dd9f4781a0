/* The keys of a runs file. */
#include "math/products.h"
#include "train/runs.h"
#include "util/fsx.h"
#include "util/page.h"
#include "util/quantity.h"
#include <math.h>
#include <string.h>

static const char *const decays[] = {"matrices", "all", "no_embeddings", "olmo2", NULL};
static const char *const scales[] = {"rms", "spectral", NULL}; /* enum muon_scale */
static const char *const dtypes[] = {"float32", "bfloat16", NULL};

/* Kinds of products but auto, which depends on the CPU. */
static const char *const products[] = {"f32", "bf16x3", "bf16x2", "bf16", NULL};

static const struct option batch_keys[] = {
    OPTION(batch_options, sequences, INT, "sequences of a step", .required = true, .low = 1,
           .high = INT32_MAX),
    OPTION(batch_options, length, INT, "tokens of a sequence that are predicted", .unit = "tokens",
           .required = true, .low = 1, .high = INT32_MAX),
    OPTION(batch_options, micro, INT,
           "sequences of a micro-batch, which one rank computes; changes last bits",
           .fallback = "auto", .otherwise = "as many as have 1024 tokens, at least one", .low = 1,
           .high = INT32_MAX, OPTION_SPECIAL(0, "auto")),
};
static enum status batch_finish(void *entry, const struct option_scope *scope, struct err *e)
{
    enum { MICRO_TOKENS = 1024 };
    struct batch_options *b = entry;
    (void)scope;
    (void)e;
    if (!b->micro) b->micro = b->length < MICRO_TOKENS ? MICRO_TOKENS / b->length : 1;
    return OK;
}
static const struct option_table batch_table = {OPTION_ROWS(batch_keys, batch_options),
                                                .finish = batch_finish};

static const struct option optimizer_keys[] = {
    OPTION(optimizer_options, kind, CHOICE,
           "adamw as torch has it, sgd with momentum, or muon for matrices within blocks",
           .fallback = "adamw", .choices = optimizer_names),
    {.name = "betas",
     .doc = "adamw, muon: decay of AdamW's moments",
     .type = OPTION_REALS,
     .offset = offsetof(struct optimizer_options, betas),
     .count = offsetof(struct optimizer_options, n_betas),
     .capacity = 2,
     .maximum = 1,
     .otherwise = "[0.9, 0.95]",
     .with = "kind=adamw|muon"},
    OPTION(optimizer_options, eps, REAL, "adamw, muon: added to the root of the second moment",
           .fallback = "1e-8", .minimum = 0, .maximum = HUGE_VAL, .with = "kind=adamw|muon"),
    OPTION(optimizer_options, momentum, REAL, "sgd, muon: of the gradient", .fallback = "0.9",
           .otherwise = "0.9; muon: 0.95", .minimum = 0, .maximum = 1, .with = "kind=sgd|muon"),
    OPTION(
        optimizer_options, scale, CHOICE,
        "muon: size of an update: the root mean square of AdamW's, 0.2 sqrt(max(rows, columns)), "
        "or sqrt(max(1, rows / columns))",
        .fallback = "rms", .choices = scales, .with = "kind=muon"),
    OPTION(optimizer_options, adamw_rate, REAL,
           "muon: rate of embedding, head and vectors, which AdamW changes, times the schedule's",
           .fallback = "1", .minimum = 0, .maximum = HUGE_VAL, .with = "kind=muon"),
    OPTION(optimizer_options, weight_decay, REAL, "decoupled, times the rate", .fallback = "0.1",
           .minimum = 0, .maximum = HUGE_VAL),
    OPTION(optimizer_options, decay_on, CHOICE,
           "what decays: matrices, embedding and head included; all; matrices but the embedding; "
           "all but the embedding (olmo2)",
           .fallback = "matrices", .choices = decays),
    OPTION(optimizer_options, clip, REAL, "2-norm of the gradient at most; 0: any", .fallback = "1",
           .minimum = 0, .maximum = HUGE_VAL),
    OPTION(optimizer_options, z_loss, REAL, "weight of the mean of (log sum e^logits)^2",
           .fallback = "0", .minimum = 0, .maximum = HUGE_VAL),
};
static enum status optimizer_finish(void *entry, const struct option_scope *scope, struct err *e)
{
    struct optimizer_options *o = entry;
    if (o->kind == OPTIMIZER_muon && !node_find(scope->node, "momentum")) o->momentum = 0.95;
    if (o->n_betas == 1) PASS(options_fail(scope, "betas", e, "expected two numbers"));
    return OK;
}
static const struct option_table optimizer_table = {OPTION_ROWS(optimizer_keys, optimizer_options),
                                                    .finish = optimizer_finish};

static const struct option checkpoint_keys[] = {
    OPTION(checkpoint_options, every, INT, "steps between checkpoints; the last step has one",
           .unit = "steps", .fallback = "0", .otherwise = "only `at` and the last", .low = 0,
           .high = INT64_MAX),
    {.name = "at",
     .doc = "further steps with a checkpoint",
     .unit = "steps",
     .type = OPTION_INTS,
     .offset = offsetof(struct checkpoint_options, at),
     .count = offsetof(struct checkpoint_options, n_at),
     .capacity = RUNS_FROM_MAX,
     .otherwise = "none",
     .low = 1,
     .high = INT64_MAX},
    OPTION(checkpoint_options, dtype, CHOICE, "type of their weights", .fallback = "float32",
           .choices = dtypes),
    OPTION(checkpoint_options, states, BOOL,
           "the optimizer's state is kept beside each, for branches that are added later",
           .fallback = "false"),
};
static const struct option_table checkpoint_table = {
    OPTION_ROWS(checkpoint_keys, checkpoint_options)};

static const struct option branch_keys[] = {
    OPTION(branch_options, name, TEXT, "behind the run's name; {from} is replaced by the step",
           .required = true),
    OPTION(branch_options, of, TEXT, "the branch that it leaves, by its name",
           .otherwise = "the run"),
    {.name = "from",
     .doc = "steps at which the branch leaves, one each",
     .unit = "steps",
     .type = OPTION_INTS,
     .offset = offsetof(struct branch_options, from),
     .count = offsetof(struct branch_options, n_from),
     .capacity = RUNS_FROM_MAX,
     .required = true,
     .low = 1,
     .high = INT64_MAX},
    OPTION(branch_options, steps, INT, "steps of the branch", .unit = "steps", .required = true,
           .low = 1, .high = INT32_MAX),
    OPTION(branch_options, schedule, GROUP, "its learning rate", .table = &schedule_table),
};
static enum status branch_finish(void *entry, const struct option_scope *scope, struct err *e)
{
    struct branch_options *b = entry;
    const struct node *schedule = node_find(scope->node, "schedule");
    b->own_peak = schedule && node_find(schedule, "peak");
    if (!schedule || !node_find(schedule, "kind")) b->schedule.kind = SCHEDULE_DECAY;
    if (b->n_from > 1 && !strstr(b->name, "{from}"))
        PASS(options_fail(scope, "name", e, "expected {from} in it, for %lld branches",
                          (long long)b->n_from));
    return OK;
}
static const struct option_table branch_table = {OPTION_ROWS(branch_keys, branch_options),
                                                 .finish = branch_finish};

static const struct option run_keys[] = {
    OPTION_AT("ranks_per_run", train_run_options, ranks, INT,
              "MPI ranks that train one run together", .unit = "ranks", .fallback = "auto",
              .otherwise = "auto: all of them, divided by the runs that can begin", .low = 1,
              .high = 1 << 20, OPTION_SPECIAL(0, "auto")),
    OPTION(train_run_options, products, CHOICE,
           "how products are computed, as of a sweep's run.products", .fallback = "f32",
           .choices = products),
    OPTION(train_run_options, save, TEXT,
           "time between saved states of a run, which a restart goes on from", .otherwise = "10m"),
};
static enum status run_finish(void *entry, const struct option_scope *scope, struct err *e)
{
    struct train_run_options *r = entry;
    struct err why = {0};
    if (r->save && span_parse(r->save, &r->save_seconds, &why) != OK)
        PASS(options_fail(scope, "save", e, "%s", why.text));
    return OK;
}
static const struct option_table run_table_of_training = {OPTION_ROWS(run_keys, train_run_options),
                                                          .finish = run_finish};

static enum status finish(void *entry, const struct option_scope *scope, struct err *e)
{
    struct recipe *r = entry;
    if (r->optimizer.n_betas == 0) { /* sections that are not written have no `finish` */
        r->optimizer.n_betas = 2;
        r->optimizer.betas[0] = 0.9;
        r->optimizer.betas[1] = 0.95;
    }
    if (!r->run.save) r->run.save_seconds = 600;
    if (r->schedule.kind == SCHEDULE_DECAY)
        PASS(options_fail(scope, "schedule", e, "kind decay is for branches; use wsd"));
    if (!fsx_is_file(r->tokenizer))
        PASS(options_fail(scope, "tokenizer", e, "%s: no such file", r->tokenizer));
    if (r->then && !fsx_is_file(r->then))
        PASS(options_fail(scope, "then", e, "%s: no such file", r->then));
    return OK;
}

static const struct option keys[] = {
    OPTION(recipe, name, TEXT, "name of the runs; without a grid that of the run's folder",
           .required = true),
    OPTION(recipe, output, PATH, "folder of the runs, a folder each", .required = true),
    OPTION(recipe, model, GROUP, "what is trained", .required = true,
           .table = &model_options_table),
    OPTION(recipe, tokenizer, PATH, "tokenizer.json", .required = true),
    OPTION(recipe, data, GROUP, "text to train on", .required = true,
           .table = &corpus_options_table),
    OPTION(recipe, batch, GROUP, "what a step sees", .required = true, .table = &batch_table),
    OPTION(recipe, optimizer, GROUP, "how weights change", .table = &optimizer_table),
    OPTION(recipe, schedule, GROUP, "learning rate of each step", .table = &schedule_table),
    OPTION(recipe, steps, INT, "steps of the run", .unit = "steps", .required = true, .low = 1,
           .high = INT32_MAX),
    OPTION(recipe, seed, INT, "seed of the initial weights", .fallback = "0", .low = 0,
           .high = INT64_MAX),
    OPTION(recipe, checkpoints, GROUP, "which checkpoints are kept", .table = &checkpoint_table),
    OPTION(recipe, branches, LIST, "runs that go on from a step of this one with another schedule",
           .count = offsetof(struct recipe, n_branches), .otherwise = "none", .high = 1000,
           .table = &branch_table),
    OPTION(recipe, then, PATH, "sweep that is run when all runs have ended", .otherwise = "none"),
    OPTION(recipe, run, GROUP, "how the work is spread", .table = &run_table_of_training),
};
const struct option_table recipe_table = {OPTION_ROWS(keys, recipe), .finish = finish};

static const char grid_doc[] = "a run for each combination of the values of these keys";

void runs_print_options(FILE *out)
{
    page_print(out, page_width(out, OPTION_PAGE), 0, 0,
               "Keys of a file of runs, for qtraj train (YAML). Relative paths are relative to the "
               "file, ${VAR} in a path is the environment's. --set key=value overrides: "
               "--set schedule.peak=1e-3.");
    putc('\n', out);
    options_print(&recipe_table, out);
    fprintf(out, "\ngrid: %s, as in\n  grid: {schedule.peak: [1e-3, 3e-3], seed: [1, 2, 3]}\n",
            grid_doc);
}

enum status runs_options_json(json_t **out, struct err *e)
{
    json_t *list = json_array();
    json_t *grid =
        json_pack("{s:s, s:s, s:s, s:n, s:b, s:n, s:s, s:n, s:n, s:n, s:s}", "key", "grid", "type",
                  "mapping", "expected", "a mapping of lists", "unit", "required", false, "default",
                  "otherwise", "none: one run", "range", "special", "choices", "doc", grid_doc);
    options_describe_keys(&recipe_table, "", list);
    json_array_append_new(list, grid);
    *out = list;
    return json_whole(e);
}
