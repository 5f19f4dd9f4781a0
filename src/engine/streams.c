/* Runs a model and its variants through the blocks and the head: streams, texts, memory plan,
 * waves. */
#include "engine/visit_internal.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/num.h"

void stream_free(struct stream *s)
{
    for (int64_t i = 0; i < s->n_layers; i++) free(s->layers[i].name);
    free(s->layers);
    states_close(s->evaluation);
    states_close(s->calibration);
    scores_free(&s->scores);
    own_models_close(s);
    *s = (struct stream){0};
}

void streams_free(struct run *r)
{
    stream_free(&r->full);
    for (int64_t i = 0; r->streams && i < r->n; i++) stream_free(&r->streams[i]);
    for (int64_t i = 0; i < r->n_draws; i++) sequences_free(&r->draws[i].copy);
    free(r->streams);
    free(r->order);
    free(r->wave);
    free(r->draws);
    free(r->scratch);
    sequences_free(&r->local_evaluation);
}

enum status streams_init(struct run *r, const struct part_context *c, const struct visit *v,
                         struct model *model, struct err *e)
{
    *r = (struct run){
        .visit = v, .context = c, .hooks = c->hooks, .group = c->group, .model = model};
    r->n = v->n_variants;
    PASS(mem_zero(&r->streams, r->n, sizeof *r->streams, "streams", e));
    for (int64_t i = 0; i < r->n; i++) {
        struct stream *s = &r->streams[i];
        s->variant = &r->visit->variants[i];
        s->method = quant_find(s->variant->method.method);
        NEED(s->method, ERR_USAGE, "%s: unknown method", s->variant->method.method);
        s->needs = quant_needs_of(s->method, &s->variant->method.options);
    }
    return OK;
}

/* Fails if a token is outside the vocabulary. */
static enum status check_inputs(const struct run *r, struct err *e)
{
    const struct visit *v = r->visit;
    const struct visit_inputs *in = &r->inputs;
    for (int64_t i = 0; i < v->n_evaluations; i++) {
        const struct sequences one = {.n = in->first[i + 1] - in->first[i],
                                      .offset = in->evaluation->offset + in->first[i],
                                      .ids = in->evaluation->ids};
        PASS(visit_check_ids(r->model, &v->evaluations[i], &one, e));
    }
    if (in->requests) {
        enum status st = model_check_ids(r->model, &in->requests->sequences, e);
        if (st != OK) err_prefix(e, "tasks");
        PASS(st);
    }
    return in->calibration ? visit_check_ids(r->model, &v->calibration, in->calibration, e) : OK;
}

/* The visit, without its tasks if their requests cannot be made. Shallow. */
static struct visit visit_asked(const struct run *r)
{
    struct visit v = *r->visit;
    if (r->unanswered.code != OK) v.requests.tasks = NULL;
    return v;
}

static enum status load_inputs(struct run *r, struct err *e)
{
    const struct visit v = visit_asked(r);
    pace_prepare(r->pace, true);
    enum status st = visit_inputs_get(r->context->cache, &v, &r->inputs, e);
    pace_prepare(r->pace, false);
    PASS(st);
    return check_inputs(r, e);
}

/* Loads the texts and selects this rank's sequences. If there is something wrong with the tasks,
 * their records fail and nothing else does; unless the tasks are all that is asked for. */
static enum status share_inputs(struct run *r, struct err *e)
{
    struct err why = {0};
    enum status st = group_agree(r->group, load_inputs(r, &why), &why);
    if (st != OK && r->visit->requests.tasks && !r->hooks->answers) {
        r->unanswered = why;
        st = group_agree(r->group, load_inputs(r, &why), &why);
    }
    NEED(st == OK, st, "%s", why.text);
    r->local = r->inputs;
    return group_agree(r->group,
                       group_sequences(r->group, r->inputs.evaluation, &r->local_evaluation,
                                       &r->local.evaluation, &r->first, e),
                       e);
}

bool same_variant(const struct variant *a, const struct variant *b)
{
    return a->replicate != b->replicate && a->bits == b->bits &&
           strcmp(a->method.name, b->method.name) == 0;
}

/* Order in which a block processes the variants: those with shared statistics first, because the
 * others' statistics overwrite them, and next to each other those that share a prepare. One stream
 * stands for all replicates of its variant. */
static enum status order_streams(struct run *r, struct err *e)
{
    AUTO_FREE bool *placed = NULL;
    int64_t n = 0;
    PASS(mem_zero(&r->order, r->n, sizeof *r->order, "streams", e));
    PASS(mem_zero(&placed, r->n, sizeof *placed, "streams", e));
    for (int64_t i = 0; i < r->n; i++)
        for (int64_t j = 0; j < i && !placed[i]; j++)
            placed[i] = same_variant(r->streams[i].variant, r->streams[j].variant);
    for (int64_t i = 0; i < r->n; i++) r->n_distinct += !placed[i];
    for (int64_t i = 0; i < r->n; i++) {
        struct stream *s = &r->streams[i];
        for (int64_t j = i; j < r->n && s->needs.shared; j++) {
            struct stream *t = &r->streams[j];
            if (placed[j] || !t->needs.shared || t->method != s->method ||
                !quant_shares_prepare(s->method, &s->variant->method.options,
                                      &t->variant->method.options))
                continue;
            r->order[n++] = t;
            placed[j] = true;
        }
    }
    for (int once = 0; once < 2; once++)
        for (int64_t i = 0; i < r->n; i++)
            if (!placed[i] && r->streams[i].needs.own && r->streams[i].needs.sequential != once)
                r->order[n++] = &r->streams[i];
    for (int64_t i = 0; i < r->n; i++)
        if (!placed[i] && !r->streams[i].needs.own && !r->streams[i].needs.shared)
            r->order[n++] = &r->streams[i];
    return OK;
}

static enum status check_draws(const struct run *r, const struct sequences *drawn, int64_t n,
                               struct err *e)
{
    for (int64_t i = 0; i < n; i++)
        PASS(visit_check_ids(r->model, &r->visit->calibration, &drawn[i], e));
    return OK;
}

/* The calibration sequences of the usual variants and of each replicate. If there are no others to
 * draw, the replicates fail and nothing else does. */
static enum status share_draws(struct run *r, struct err *e)
{
    struct err why = {0};
    const struct sequences *drawn = NULL;
    int64_t n_drawn = 0;
    const struct visit v = visit_asked(r);
    pace_prepare(r->pace, true);
    enum status st = visit_draws_get(r->context->cache, &v, &drawn, &n_drawn, &why);
    pace_prepare(r->pace, false);
    if (st == OK && n_drawn > 0) st = check_draws(r, drawn, n_drawn, &why);
    st = group_agree(r->group, st, &why);
    for (int64_t i = 0; st != OK && i < r->n; i++) {
        if (r->streams[i].variant->replicate == 0) continue;
        r->streams[i].st = st;
        r->streams[i].err = why;
    }
    if (st != OK) n_drawn = 0;
    PASS(group_agree(r->group, mem_zero(&r->draws, 1 + n_drawn, sizeof *r->draws, "draws", e), e));
    for (; r->n_draws < 1 + n_drawn; r->n_draws++) {
        struct draw *d = &r->draws[r->n_draws];
        d->all = r->n_draws > 0 ? &drawn[r->n_draws - 1] : r->inputs.calibration;
        st = group_sequences(r->group, d->all, &d->copy, &d->local, &d->first, e);
        PASS(group_agree(r->group, st, e));
    }
    return OK;
}

/* All ranks of a group plan with the maximum need and the minimum memory of all, so that they make
 * the same plan. */
static void need_agree(const struct visit_group *g, struct memory_need *need,
                       struct memory_limits *limits)
{
    struct memory_sequences *of[] = {&need->evaluation, &need->calibration};
    for (int i = 0; i < 2; i++) {
        of[i]->n = group_max(g, of[i]->n);
        of[i]->tokens = group_max(g, of[i]->tokens);
        of[i]->longest = group_max(g, of[i]->longest);
    }
    need->base = group_max(g, need->base);
    need->threads = group_max(g, need->threads);
    need->node_ranks = -group_max(g, -need->node_ranks);
    bool bounded = limits->memory > 0;
    int64_t smallest = -group_max(g, bounded ? -limits->memory : -INT64_MAX);
    limits->memory = smallest == INT64_MAX ? 0 : smallest;
    limits->scratch = -group_max(g, -limits->scratch);
}

/* The most that the ranks' calibration takes in one wave. */
static struct memory_sequences largest_draw(const struct run *r)
{
    struct memory_sequences most = {0};
    for (int64_t i = 0; i < r->n_draws; i++) {
        const struct memory_sequences one = memory_sequences_of(r->draws[i].local);
        most.n = max64(most.n, one.n);
        most.tokens = max64(most.tokens, one.tokens);
        most.longest = max64(most.longest, one.longest);
    }
    return most;
}

/* Decides what is retained, where hidden states are stored and how many waves there are. */
static enum status plan_memory(struct run *r, struct err *e)
{
    const struct run_options *o = &r->visit->run;
    struct memory_limits limits = {.memory = memory_usable(part_bound(r->context))};
    struct memory_need need = {.threads = r->context->threads,
                               .ranks = r->group->size,
                               .node_ranks = r->group->node_size,
                               .evaluation = memory_sequences_of(r->local.evaluation),
                               .calibration = largest_draw(r)};
    memory_need_options(&need, o);
    need.products = r->context->products;
    model_sizes(r->model, &need.sizes);
    need.base = memory_base_now(&need.sizes, need.threads);
    for (int64_t i = 0, threads = need.threads; i < r->n; i++)
        need.base += memory_of_rotation(&need, &r->streams[i].variant->method, &threads);
    if (r->scored)
        need.base += visit_observing(r->visit, &need.sizes, &need.evaluation, need.threads);
    for (int64_t i = 0; i < r->n_distinct; i++) {
        const struct method_entry *m = &r->order[i]->variant->method;
        memory_need_add(&need, r->order[i]->method, &m->options);
        need.coded = need.coded || activation_coded(&m->grids.inputs);
    }
    PASS(group_agree(
        r->group, scratch_find(o->scratch, r->hooks->ranks, &r->scratch, &limits.scratch, e), e));
    need_agree(r->group, &need, &limits);
    limits.folder = limits.scratch > 0 ? r->scratch : NULL;
    PASS(group_agree(r->group, memory_plan_make(&need, &limits, &r->plan, e), e));
    model_prepare_f32(r->model, r->plan.prepared);
    for (int64_t i = 0; i < r->n; i++)
        model_prepare_f32(stream_model(r, &r->streams[i]), r->plan.prepared);
    log_trace("memory",
              "%lld waves of %lld variants, states %s%s, %lld of %lld tokens kept; peak %.0f MiB "
              "(blocks %.0f, head %.0f), scratch %.0f MiB",
              (long long)r->plan.waves, (long long)r->plan.wave,
              r->plan.place.scratch ? "in " : "in memory",
              r->plan.place.scratch ? r->plan.place.scratch : "",
              (long long)r->plan.retained_tokens, (long long)need.calibration.tokens,
              (double)r->plan.peak / (1 << 20), (double)r->plan.blocks / (1 << 20),
              (double)r->plan.head / (1 << 20), (double)r->plan.scratch / (1 << 20));
    return OK;
}

/* r->wave = the streams of a replicate among the wave's variants, which begin at `first` in the
 * order. Their number. */
static int64_t choose_wave(struct run *r, int64_t replicate, int64_t first)
{
    int64_t n = 0;
    for (int64_t i = first; i < min64(first + max64(r->plan.wave, 1), r->n_distinct); i++)
        for (int64_t k = 0; k < r->n; k++) {
            const struct variant *v = r->streams[k].variant;
            const bool same =
                r->order[i] == &r->streams[k] || same_variant(r->order[i]->variant, v);
            if (same && v->replicate == replicate) r->wave[n++] = &r->streams[k];
        }
    return n;
}

static int64_t count_waves(struct run *r)
{
    int64_t n = 0;
    for (int64_t d = 0; d < r->n_draws; d++)
        for (int64_t i = 0; i < r->n_distinct; i += max64(r->plan.wave, 1))
            n += choose_wave(r, d, i) > 0;
    return max64(n, 1);
}

/* Which shares of the wave's work the streams, their statistics and the head are. */
static void share_work(struct run *r)
{
    struct model_sizes sizes;
    const struct cost_rates rates = cost_rates_given(1);
    const struct cost_tokens evaluation = cost_tokens_count(r->inputs.evaluation),
                             calibration = cost_tokens_count(r->inputs.calibration);
    double seconds[COST_PHASE_N], sum = 0;
    model_sizes(r->model, &sizes);
    struct cost c = cost_shared(&sizes, &evaluation, 0);
    r->full.share = cost_seconds(&c, &rates, seconds) - seconds[COST_HEAD];
    r->share_head = seconds[COST_HEAD];
    sum = r->full.share + (double)(1 + r->n) * r->share_head;
    int64_t shares = 0; /* the replicate whose shared statistics are counted, and one */
    for (int64_t i = 0; i < r->n; i++) {
        const struct variant *v = r->streams[i].variant;
        c = cost_variant(&sizes, &v->method, &evaluation, &calibration);
        r->streams[i].share = cost_seconds(&c, &rates, NULL) - r->share_head;
        sum += r->streams[i].share;
        const struct quant_needs *needs = &r->streams[i].needs;
        if (!(needs->shared || needs->scores) || shares == 1 + v->replicate) continue;
        c = cost_shared_statistics(&sizes, &v->method, 1, &calibration);
        shares = 1 + v->replicate;
        r->share_statistics += cost_seconds(&c, &rates, NULL);
    }
    sum += r->share_statistics;
    if (sum <= 0) sum = 1;
    r->full.share /= sum;
    r->share_head /= sum;
    r->share_statistics /= sum;
    for (int64_t i = 0; i < r->n; i++) r->streams[i].share /= sum;
}

enum status streams_prepare(struct run *r, struct err *e)
{
    PASS(share_inputs(r, e));
    PASS(group_agree(r->group, order_streams(r, e), e));
    PASS(share_draws(r, e));
    PASS(own_models_open(r, e));
    PASS(plan_memory(r, e));
    PASS(
        group_agree(r->group, mem_zero(&r->wave, r->n_distinct, sizeof *r->wave, "streams", e), e));
    r->waves = count_waves(r);
    if (r->pace) share_work(r);
    return OK;
}

struct answers streams_answers(const struct run *r, const struct stream *s)
{
    const struct scores part =
        scores_part(&s->scores, r->inputs.texts, r->inputs.first_unit[r->inputs.evaluation->n]);
    return answers_of(part.sum);
}

int64_t streams_planned(const struct run *r)
{
    return r->plan.peak + r->plan.shared;
}

enum status streams_run(struct run *r, struct err *e)
{
    bool first = true;
    for (int64_t d = 0; d < r->n_draws; d++) {
        const struct draw *draw = &r->draws[d];
        r->inputs.calibration = draw->all;
        r->local.calibration = draw->local;
        r->first_calibration = draw->first;
        for (int64_t i = 0; i < r->n_distinct; i += max64(r->plan.wave, 1)) {
            const int64_t n = choose_wave(r, d, i);
            if (n == 0) continue;
            PASS(wave_run(r, r->wave, n, first, e));
            first = false;
        }
    }
    if (first) PASS(wave_run(r, r->wave, 0, first, e));
    states_close(r->full.evaluation); /* later parts make their own streams */
    r->full.evaluation = NULL;
    return OK;
}
