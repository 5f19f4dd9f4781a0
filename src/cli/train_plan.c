#include "cli/train_plan.h"
#include "cube/text_table.h"
#include "math/rates.h"
#include "model/sizes.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/quantity.h"
#include <omp.h>
#include <stdlib.h>

/* A part of sgemm's rate that steps have reached on models of 1 to 30 million parameters. */
static const double efficiency = 0.5;

struct line {
    struct model_sizes sizes;
    int64_t memory, disk, checkpoints;
    double steps, tokens, flop;
};

/* Of a step: three times the products of a forward pass, those of attention's halves included, and
 * the blocks' forward pass once more for recomputation. */
static double flop_of(const struct model_sizes *s, const struct run *r)
{
    const double tokens = (double)run_step_tokens(r), length = (double)r->recipe->batch.length;
    const double head = (double)(s->shape.vocab * s->shape.hidden);
    const double blocks =
        (double)(s->linears * s->shape.layers) +
        length / 2 * 2 * (double)(s->shape.heads * s->shape.head_dim) * (double)s->shape.layers;
    return 2 * tokens * (4 * blocks + 3 * head);
}

static enum status look(const struct run *r, const json_t *config, struct line *l, struct err *e)
{
    const struct recipe *recipe = r->recipe;
    const struct hvp_extent extent = {
        .tokens = min64(recipe->batch.micro, recipe->batch.sequences) * recipe->batch.length,
        .sequences = recipe->batch.micro,
        .longest = recipe->batch.length,
        .threads = omp_get_max_threads(),
        .subset = HVP_ALL,
        .products = (enum products)recipe->run.products};
    struct hvp_bytes bytes;
    PASS(model_sizes_read(config, "model", &l->sizes, e));
    const int64_t n = l->sizes.shape.parameters, each = recipe->checkpoints.dtype ? 2 : 4;
    const int moments = optimizers[recipe->optimizer.kind]->moments;
    hvp_bytes_of(&l->sizes.spec, &extent, &bytes);
    l->memory = trainer_bytes(n, moments, 1) + bytes.gradient;
    l->checkpoints = run_checkpoints(r);
    const int64_t states = 1 + (recipe->checkpoints.states ? l->checkpoints : 0);
    l->disk =
        l->checkpoints * n * each + (r->parent < 0 ? 4 * n : 0) + 4 * n * (1 + moments) * states;
    l->steps = (double)(r->last - r->first);
    l->tokens = l->steps * (double)run_step_tokens(r);
    l->flop = l->steps * flop_of(&l->sizes, r);
    return OK;
}

static enum status add_row(struct table *t, const struct run *r, const struct line *l,
                           double seconds, struct err *e)
{
    char steps[64], tokens[QUANTITY], n[QUANTITY], memory[QUANTITY], disk[QUANTITY], time[QUANTITY];
    snprintf(steps, sizeof steps, "%lld to %lld", (long long)r->first + 1, (long long)r->last);
    quantity_count(l->tokens, tokens);
    quantity_count((double)l->sizes.shape.parameters, n);
    quantity_prefix((double)l->memory, memory);
    quantity_prefix((double)l->disk, disk);
    quantity_time(seconds, time);
    const char *const cells[] = {r->name, steps, tokens, n, NULL, memory, disk, time};
    PASS(table_add_row(t, e));
    for (int i = 0; i < 8; i++)
        if (cells[i]) PASS(table_set(t, i, e, "%s", cells[i]));
    return table_set(t, 4, e, "%lld", (long long)l->checkpoints);
}

static enum status print_all(const struct table *t, double tokens, double disk, double seconds,
                             int64_t ranks, double rate, struct err *e)
{
    char count[QUANTITY], bytes[QUANTITY], time[QUANTITY];
    PASS(table_print(t, table_page_width(stdout), stdout, e));
    quantity_count(tokens, count);
    quantity_prefix(disk, bytes);
    quantity_time(seconds / (double)ranks, time);
    printf("all: %s tokens, %sB on disk, about %s with %lld rank%s of %.3g GFLOP/s\n", count, bytes,
           time, (long long)ranks, quantity_plural(ranks), rate);
    return OK;
}

enum status train_plan_print(const struct runs *runs, const bool *wanted, int64_t ranks,
                             double rate, struct err *e)
{
    static const char *const heads[] = {"run",         "steps",  "tokens", "parameters",
                                        "checkpoints", "memory", "disk",   "time of a rank"};
    enum status st = OK;
    struct table t = {0};
    struct train_job job = {.runs = runs};
    struct linalg_rates measured;
    json_t *config = NULL, *settings = NULL;
    double tokens = 0, disk = 0, seconds = 0;
    TRY(mem_zero(&job.sources, runs->n_recipes, sizeof *job.sources, "a plan", e));
    TRY(table_init(&t, 8, 1, e));
    t.align_left[0] = true;
    TRY(table_add_row(&t, e));
    for (int i = 0; i < 8; i++) TRY(table_set(&t, i, e, "%s", heads[i]));
    if (rate <= 0) TRY(linalg_rates_measure(0.2, &measured, e));
    if (rate <= 0) rate = 1e-9 * measured.sgemm;
    for (int64_t i = 0; i < runs->n; i++) {
        const struct run *r = &runs->runs[i];
        struct train_source *source = &job.sources[r->recipe - runs->recipes];
        struct line l;
        if (!wanted[i]) continue;
        if (!source->vocab) TRY(train_tokenizer(r->recipe, source, e));
        TRY(train_settings(&job, r, &config, &settings, e));
        TRY(look(r, config, &l, e));
        json_decref(config);
        json_decref(settings);
        config = settings = NULL;
        const double time = l.flop / (1e9 * rate * efficiency);
        TRY(add_row(&t, r, &l, time, e));
        tokens += l.tokens;
        disk += (double)l.disk;
        seconds += time;
    }
    TRY(print_all(&t, tokens, disk, seconds, ranks, rate, e));
done:
    json_decref(config);
    json_decref(settings);
    table_free(&t);
    free(job.sources);
    return st;
}
