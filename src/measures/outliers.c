/* outliers: how far what a model computes is from what few bits can hold: of inputs of linears,
 * keys, values and the residual stream of every block, kurtosis, largest numbers, channels and
 * rounding errors (activation/outlier.h, docs/math/outliers.md). It looks at the full-precision
 * stream of the first evaluation text while the blocks run for the cells. */
#include "activation/outlier.h"
#include "engine/observe.h"
#include "engine/part.h"
#include "engine/stamp.h"
#include "engine/visit.h"
#include "plan/plan.h"
#include "util/clock.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>

/* --- its key of the sweep file --- */

struct outliers_section {
    bool outliers;
};

static const struct option section_keys[] = {
    OPTION(outliers_section, outliers, BOOL,
           "measure outliers of what each checkpoint computes of the first evaluation text: inputs "
           "of linears, keys, values and the residual stream, by layer",
           .fallback = "false"),
};

static struct data_options text(const struct plan *p, int64_t model)
{
    const struct outliers_section *o = p->sweep->sections[MEASURE_outliers];
    return o->outliers ? plan_data(p, model, &p->sweep->evaluations[0]) : (struct data_options){0};
}

/* --- its setup --- */

struct outliers_setup {
    char *text; /* digest of the text among the visit's */
};

static const struct option setup_fields[] = {OPTION(outliers_setup, text, TEXT, "")};
static const struct option_table setup_table = {OPTION_ROWS(setup_fields, outliers_setup)};

static enum status key(struct plan *p, const struct plan_checkpoint *c, json_t **own, struct err *e)
{
    const struct data_options data = text(p, c->model);
    json_t *identity;
    *own = NULL;
    if (!data.text && !data.ids) return OK;
    PASS(plan_data_identity(p, c->model, &data, &identity, e));
    *own = json_pack("{s:i, s:s, s:o, s:s*, s:s*, s:s*}", "outliers", 1, "tokenizer", c->tokenizer,
                     "data", identity, "activations", plan_activations(p->sweep), "products",
                     plan_products(p->sweep), "rounding", plan_rounding(p->sweep));
    NEED(*own, ERR_NOMEM, "out of memory for a key");
    return OK;
}

static const char *const sites[SITES_N + 1] = {
    [STAGE_QKV] = "qkv",         [STAGE_O] = "o",      [STAGE_UP] = "up",
    [STAGE_DOWN] = "down",       [SITE_KEYS] = "keys", [SITE_VALUES] = "values",
    [SITE_RESIDUAL] = "residual"};
static const char *const site_names[SITES_N] = {"inputs of q, k and v",
                                                "inputs of o",
                                                "inputs of gate and up",
                                                "inputs of down",
                                                "keys",
                                                "values",
                                                "its output"};

static enum status plan_sites(struct plan *p, struct err *e)
{
    const struct outliers_section *o = p->sweep->sections[MEASURE_outliers];
    if (!o->outliers) return OK;
    json_t *labels = json_array();
    for (int i = 0; i < SITES_N; i++) json_array_append_new(labels, json_string(sites[i]));
    NEED(labels && json_object_set_new(p->lists, axis_site.plan, labels) == 0, ERR_NOMEM,
         "out of memory for the plan");
    return OK;
}

static enum status make_setup(const struct plan *p, const struct plan_checkpoint *c, void *setup,
                              struct err *e)
{
    struct outliers_setup *t = setup;
    return mem_string(&t->text, p->lengths[c->model].texts[0], e);
}

/* --- its records --- */

static const struct field fields[] = {
    {STATUS_FIELD("outliers_status")},
    {MESSAGE_FIELD("outliers_message")},

    {"tokens", "outlier_tokens", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "tokens of the first evaluation text that outliers are measured on"},
    {SECONDS_FIELD("seconds", "outlier_seconds", "time of the measurement of outliers")},

    {"kurtosis", "outlier_kurtosis", IN_INNER, FIELD_REAL, STABLE, "1",
     "fourth central moment over the squared variance, of all numbers x of the place; 3: normal"},
    {"largest", "outlier_largest", IN_INNER, FIELD_REAL, STABLE, "1", "largest |x|"},
    {"over_median", "outlier_over_median", IN_INNER, FIELD_REAL, STABLE, "1",
     "largest |x| over the median of |x|"},
    {"channel", "outlier_channel", IN_INNER, FIELD_INTEGER, STABLE, "1",
     "channel of the largest |x|, from 0; of keys and values all heads side by side"},
    {"position", "outlier_position", IN_INNER, FIELD_INTEGER, STABLE, "1",
     "place of its token in its sequence; 0: the first token"},
    {"channels", "outlier_channels", IN_INNER, FIELD_REAL, STABLE, "1",
     "share of channels that hold 99 % of the range: whose largest |x| are 99 % of the sum of all"},
    {"error_4", "outlier_error_4", IN_INNER, FIELD_REAL, STABLE, "1",
     "|Q(x)-x|/|x| with 4 bits and a range for each token, of keys and values for each head too"},
    {"error_8", "outlier_error_8", IN_INNER, FIELD_REAL, STABLE, "1", "the same with 8 bits"},

    RECORD_FIELDS,
};

/* Of one site of the block that runs. */
struct site {
    struct outlier_sums *sums; // (sequences of the text)
    float *channel;            // (channels)
    int64_t *bin;              // (OUTLIER_BINS)
};

struct state {
    double seconds;
    int64_t layers, sequences, tokens;
    struct outliers (*found)[SITES_N]; // (layers) of the blocks that have run
    struct site site[SITES_N];
};

static struct state *state_of(const struct part_context *c)
{
    return c->state[MEASURE_outliers];
}

static json_t *site_object(const struct outliers *o, int site)
{
    json_t *out = json_object();
    record_number(out, "kurtosis", o->kurtosis);
    record_number(out, "largest", o->largest);
    record_number(out, "over_median", o->largest_over_median);
    record_integer(out, "channel", o->channel);
    record_integer(out, "position", o->position);
    record_number(out, "channels", o->channels);
    if (site == SITE_RESIDUAL) return out;
    record_number(out, "error_4", o->error[0]);
    record_number(out, "error_8", o->error[1]);
    return out;
}

static json_t *blocks_object(const struct state *s)
{
    json_t *blocks = json_object();
    for (int64_t i = 0; i < s->layers; i++) {
        char label[24];
        json_t *own = json_object();
        for (int k = 0; k < SITES_N; k++)
            json_object_set_new(own, sites[k], site_object(&s->found[i][k], k));
        snprintf(label, sizeof label, "%lld", (long long)i);
        json_object_set_new(blocks, label, own);
    }
    return blocks;
}

static enum status emit(struct part_context *c, const struct err *failure, struct err *e)
{
    const struct state *s = state_of(c);
    json_t *record = part_record(c, MEASURE_outliers, failure);
    json_t *values = json_object_get(record, "values");
    const bool done = failure->code == OK;
    json_object_set_new(record, axis_block.plan, done ? blocks_object(s) : json_object());
    record_number(values, "seconds", s->seconds);
    if (done) record_integer(values, "tokens", s->tokens);
    return part_emit(c, record, e);
}

/* --- what it sees --- */

/* Which of the visit's texts it is. */
static int64_t text_of(const struct visit *v)
{
    const struct outliers_setup *t = v->setup[MEASURE_outliers];
    char own[HASH_HEX];
    for (int64_t i = 0; i < v->n_evaluations; i++)
        if (visit_text_key(v, i, own) && strcmp(own, t->text) == 0) return i;
    return 0;
}

static enum status begin(struct part_context *c, struct err *e)
{
    struct state *s = state_of(c);
    s->layers = model_shape(c->model)->layers;
    return mem_zero(&s->found, s->layers, sizeof *s->found, "outliers", e);
}

/* Channels of a site. */
static int64_t channels_of(const struct model_shape *m, int site)
{
    if (site == SITE_KEYS || site == SITE_VALUES) return m->kv_heads * m->head_dim;
    if (site == STAGE_O) return m->heads * m->head_dim;
    return site == STAGE_DOWN ? m->intermediate : m->hidden;
}

/* With the first block, when the texts are there. */
static enum status make_sites(struct part_context *c, const struct observed *o, struct err *e)
{
    struct state *s = state_of(c);
    const int64_t at = text_of(c->visit), first = o->inputs->first[at];
    s->sequences = o->inputs->first[at + 1] - first;
    const struct sequences *all = o->inputs->evaluation;
    s->tokens = 0;
    for (int64_t i = first; i < first + s->sequences; i++)
        s->tokens +=
            all->valid && all->valid[i] ? all->valid[i] : all->offset[i + 1] - all->offset[i];
    for (int i = 0; i < SITES_N; i++) {
        struct site *t = &s->site[i];
        if (t->sums) continue;
        PASS(mem_zero(&t->sums, s->sequences, sizeof *t->sums, "outliers", e));
        PASS(mem_zero(&t->channel, channels_of(model_shape(c->model), i), sizeof *t->channel,
                      "outliers", e));
        PASS(mem_zero(&t->bin, OUTLIER_BINS, sizeof *t->bin, "outliers", e));
    }
    return OK;
}

static enum outlier_grid grid_of(int site)
{
    if (site == SITE_KEYS) return OUTLIER_KEYS;
    if (site == SITE_VALUES) return OUTLIER_VALUES;
    return site == SITE_RESIDUAL ? OUTLIER_PLAIN : OUTLIER_TOKEN;
}

static enum status observe(struct part_context *c, const struct observed *o, struct err *e)
{
    struct state *s = state_of(c);
    const double start = clock_seconds();
    PASS(make_sites(c, o, e));
    struct site *t = &s->site[o->site];
    /* Of the sequences those of the text: [from, to), numbered from the first in o. */
    const int64_t text = o->inputs->first[text_of(c->visit)];
    const int64_t from = max64(text - o->first, 0);
    const int64_t to = min64(text + s->sequences - o->first, o->s->n);
    const struct outlier_rows rows = {o->x,      o->pitch,   o->heads,
                                      o->stride, o->columns, grid_of(o->site)};
    if (from < to)
        PASS(outliers_add(&rows, to - from, o->s->offset + from,
                          o->s->valid ? o->s->valid + from : NULL, t->sums + o->first + from - text,
                          t->channel, t->bin, e));
    s->seconds += clock_seconds() - start;
    return OK;
}

/* Of all ranks: each has other sequences, so that no sum depends on their number. */
static enum status add_up(struct site *t, int64_t sequences, int64_t channels, MPI_Comm comm,
                          struct err *e)
{
    int failed = MPI_Allreduce(MPI_IN_PLACE, t->sums, (int)(sequences * OUTLIER_SUMS), MPI_DOUBLE,
                               MPI_SUM, comm);
    failed |= MPI_Allreduce(MPI_IN_PLACE, t->channel, (int)channels, MPI_FLOAT, MPI_MAX, comm);
    failed |= MPI_Allreduce(MPI_IN_PLACE, t->bin, OUTLIER_BINS, MPI_INT64_T, MPI_SUM, comm);
    NEED(failed == MPI_SUCCESS, ERR_MPI, "cannot add up outliers");
    return OK;
}

static enum status observed(struct part_context *c, const struct observed *o, struct err *e)
{
    struct state *s = state_of(c);
    const double start = clock_seconds();
    PASS(group_agree(c->group, make_sites(c, o, e), e));
    for (int i = 0; i < SITES_N; i++) {
        struct site *t = &s->site[i];
        const int64_t channels = channels_of(model_shape(c->model), i);
        PASS(add_up(t, s->sequences, channels, c->group->comm, e));
        s->found[o->block][i] = outliers_of(t->sums, s->sequences, t->channel, channels, t->bin);
        memset(t->sums, 0, (size_t)s->sequences * sizeof *t->sums);
        memset(t->channel, 0, (size_t)channels * sizeof *t->channel);
        memset(t->bin, 0, OUTLIER_BINS * sizeof *t->bin);
    }
    s->seconds += clock_seconds() - start;
    return OK;
}

static void move(struct part_context *c, const struct variant *v, struct saved_move *m)
{
    struct state *s = state_of(c);
    (void)v;
    saved_bytes(m, s->found, (size_t)s->layers * sizeof *s->found);
    saved_bytes(m, &s->tokens, sizeof s->tokens);
    saved_bytes(m, &s->seconds, sizeof s->seconds);
}

/* All has been seen. */
static enum status run(struct part_context *c, struct err *e)
{
    const struct state *s = state_of(c);
    for (int64_t i = 0; i < s->layers; i++)
        for (int k = 0; k < SITES_N; k++)
            NEED(s->found[i][k].broken == 0, ERR_NUMERIC,
                 "layer %lld: %s: %lld of its numbers are NaN or infinite", (long long)i,
                 site_names[k], (long long)s->found[i][k].broken);
    return OK;
}

static void close_state(struct part_context *c)
{
    struct state *s = state_of(c);
    free(s->found);
    for (int i = 0; i < SITES_N; i++) {
        free(s->site[i].sums);
        free(s->site[i].channel);
        free(s->site[i].bin);
    }
}

/* --- the part --- */

static void inputs(const struct visit *v, char stamp[HASH_HEX])
{
    if (v->n_evaluations) stamp_data(stamp, &v->evaluations[text_of(v)]);
}

/* FLOPs that take as long as what is done with a number. */
static const double flop_of_number = 250;

static void cost(const void *setup, const struct model_sizes *m, const struct cost_tokens *t,
                 bool kept, struct cost *once, struct cost *cell)
{
    int64_t width = 0;
    (void)setup;
    (void)kept;
    (void)cell;
    for (int i = 0; i < SITES_N; i++) width += channels_of(&m->shape, i);
    *once = (struct cost){
        .flop = {[COST_FORWARD] = flop_of_number * t->tokens * (double)(width * m->shape.layers)}};
}

/* About what a range of short sequences has for each thread. */
enum { THREAD_TOKENS = 1024 };

static int64_t observing(const struct model_sizes *m, const struct memory_sequences *s,
                         int64_t threads)
{
    const int64_t range = max64(s->longest, min64(s->tokens, threads * THREAD_TOKENS));
    int64_t bytes = outliers_bytes(range, m->in_width, threads);
    for (int i = 0; i < SITES_N; i++)
        bytes += OUTLIER_BINS * (int64_t)sizeof(int64_t) +
                 channels_of(&m->shape, i) * (int64_t)sizeof(float) +
                 s->n * (int64_t)sizeof(struct outlier_sums);
    return bytes + m->shape.layers * SITES_N * (int64_t)sizeof(struct outliers);
}

const struct measure measure_outliers = {
    MEASURE_OF_CHECKPOINTS(outliers),
    .section = {OPTION_ROWS(section_keys, outliers_section)},
    .group = "outliers",
    .inner = &axis_block,
    .within = &axis_site,
    .fields = fields,
    .number_long_name = "number of the record",
    .key = key,
    .plan = plan_sites,
    .make_setup = make_setup,
    .text = text,
    .inputs = inputs,
    .setup = &setup_table,
    .cost = cost,
    .state = sizeof(struct state),
    .begin = begin,
    .observe = observe,
    .observed = observed,
    .observing = observing,
    .move = move,
    .run = run,
    .emit = emit,
    .close = close_state,
};
