/* What is doubtful about a plan: sequences longer than a model's positions, evaluation sequences
 * that also calibrate, mixings of dimensions for which none is known, products without
 * instructions for them. */
#include "engine/inputs.h"
#include "eval/doubts.h"
#include "plan/plan_internal.h"
#include "quant/mixing.h"
#include "quant/quant.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/num.h"
#include <stdio.h>

/* More tokens of one text are not read for the sake of a warning: some seconds of tokenizing. */
static const double most_read = 4e6;

static bool calibrates(const struct plan *p)
{
    for (int64_t i = 0; i < p->n_variants; i++)
        if (p->variants[i].applicable && quant_calibrates(quant_find(p->variants[i].method->method),
                                                          &p->variants[i].method->options))
            return true;
    return false;
}

/* --- one model --- */

enum status plan_texts_of(const struct plan *p, int64_t model, struct visit *v,
                          struct data_options **evaluations, struct err *e)
{
    const struct sweep *s = p->sweep;
    const struct model_entry *m = &s->models[model];
    PASS(mem_zero(evaluations, s->n_evaluations, sizeof **evaluations, "datasets", e));
    *v = (struct visit){.weights = plan_a_checkpoint(p, model)->weights,
                        .tokenizer = m->tokenizer,
                        .model = m->name,
                        .n_evaluations = s->n_evaluations,
                        .evaluations = *evaluations};
    for (int64_t i = 0; i < s->n_evaluations; i++)
        v->evaluations[i] = plan_data(p, model, &s->evaluations[i]);
    if (calibrates(p)) v->calibration = plan_data(p, model, &s->calibration);
    return OK;
}

/* What is doubtful, said once for models of which the same is true. */
struct doubts {
    struct faults warnings, infos;
};

static enum status doubt_length(struct doubts *d, const char *model, const char *data,
                                const struct sequences *s, int64_t first, int64_t end,
                                int64_t positions, struct err *e)
{
    char text[400];
    if (!doubt_of_length(data, s, first, end, positions, text, sizeof text)) return OK;
    return faults_add(&d->warnings, "model", model, text, e);
}

/* Packed blocks all have one length, whatever the text. */
static enum status doubt_unread(struct doubts *all, const char *model, const char *data,
                                const struct data_options *d, int64_t positions, struct err *e)
{
    int64_t offset[2] = {0, d->cut > 0 && d->cut < d->length ? d->cut : d->length};
    const struct sequences block = {.n = 1, .offset = offset};
    if (!d->text || d->layout != LAYOUT_PACKED || d->within_positions) return OK;
    return doubt_length(all, model, data, &block, 0, 1, positions, e);
}

static void doubts_free(struct doubts *d)
{
    faults_free(&d->warnings);
    faults_free(&d->infos);
}

bool plan_text_is_short(const struct data_options *d)
{
    struct data_options all = *d;                                          /* shallow */
    if (d->draw) all.documents = all.bytes = all.samples = all.tokens = 0; /* all is read */
    return cost_tokens_of(&all).tokens <= most_read;
}

bool plan_texts_are_short(const struct visit *v)
{
    bool ok = plan_text_is_short(&v->calibration);
    for (int64_t i = 0; i < v->n_evaluations; i++)
        ok = ok && plan_text_is_short(&v->evaluations[i]);
    return ok;
}

static enum status doubt_lengths(struct doubts *d, const struct visit *v,
                                 const struct visit_inputs *in, int64_t positions, struct err *e)
{
    char text[400];
    for (int64_t i = 0; i < v->n_evaluations; i++) {
        char data[200];
        snprintf(data, sizeof data, "evaluation %s", v->evaluations[i].name);
        if (in && doubt_of_number(data, &v->evaluations[i], in->first[i + 1] - in->first[i], text,
                                  sizeof text))
            PASS(faults_add(&d->warnings, "model", v->model, text, e));
        PASS(in ? doubt_length(d, v->model, data, in->evaluation, in->first[i], in->first[i + 1],
                               positions, e)
                : doubt_unread(d, v->model, data, &v->evaluations[i], positions, e));
    }
    if (in && in->calibration &&
        doubt_of_number("calibration", &v->calibration, in->calibration->n, text, sizeof text))
        PASS(faults_add(&d->warnings, "model", v->model, text, e));
    if (in && in->calibration)
        return doubt_length(d, v->model, "calibration", in->calibration, 0, in->calibration->n,
                            positions, e);
    return doubt_unread(d, v->model, "calibration", &v->calibration, positions, e);
}

bool plan_text_is_judged(const struct plan *p, const struct data_options *d)
{
    const char *name = d->text ? d->text : d->ids;
    return name && plan_text_is_short(d) && json_text(p->inputs, name, "")[0];
}

/* The text of a measure that is no evaluation text. */
static enum status warn_own(const struct plan *p, struct visit_cache *cache, const struct visit *v,
                            int64_t model, const struct measure *of, struct doubts *d,
                            struct plan_faults *f, struct err *e)
{
    const int64_t positions = p->lengths[model].positions;
    const struct data_options data = of->text(p, model);
    const struct sequences *s;
    struct err why = {0};
    enum status st = OK;
    if (!data.text && !data.ids) return OK;
    for (int64_t i = 0; i < p->sweep->n_evaluations; i++)
        if (p->sweep->evaluations[i].name == data.name) return OK;
    if (visit_sequences_get(cache, v, &data, &s, &why) == OK)
        st = doubt_length(d, v->model, of->text_name, s, 0, s->n, positions, e);
    else
        st = doubt_unread(d, v->model, of->text_name, &data, positions, e);
    if (st == OK && p->look_ahead && positions > 0 && why.text[0] &&
        plan_text_is_judged(p, &data) && !plan_a_checkpoint(p, model)->recalled)
        st = plan_faults_add_model(f, p, model, false, e, "its %s will fail: %s", of->text_name,
                                   why.text);
    return st;
}

/* In a run, the visit says what is wrong with a text. */
static enum status find_unreadable(const struct plan *p, struct visit_cache *cache,
                                   const struct visit *v, int64_t model, struct plan_faults *f,
                                   struct err *e)
{
    for (int64_t i = -1; i < v->n_evaluations; i++) {
        const struct data_options *d = i < 0 ? &v->calibration : &v->evaluations[i];
        const struct sequences *s;
        struct err why = {0};
        if (plan_text_is_judged(p, d) && visit_sequences_get(cache, v, d, &s, &why) != OK &&
            !texts_have(&p->missing, why.text)) /* is it said already? */
            PASS(plan_faults_add_model(f, p, model, true, e, "its cells will fail: %s", why.text));
    }
    return OK;
}

static int64_t largest_id(const struct sequences *s)
{
    int64_t most = -1;
    for (int64_t t = 0; s && t < s->offset[s->n]; t++) most = max64(most, s->ids[t]);
    return most;
}

/* Ids of the texts that the model's vocabulary lacks. In a run, the visit says so. */
static enum status find_outside(const struct plan *p, int64_t model, const struct visit_inputs *in,
                                struct plan_faults *f, struct err *e)
{
    const struct plan_model *m = &p->costs.models[model];
    const long long most = max64(largest_id(in->evaluation), largest_id(in->calibration)),
                    vocab = m->sizes.shape.vocab;
    if (!m->known || most < vocab || !p->look_ahead) return OK;
    return plan_faults_add_model(f, p, model, true, e,
                                 "models[%lld].tokenizer: gives its texts ids up to %lld, but the "
                                 "model's vocabulary is %lld",
                                 (long long)model, most, vocab);
}

/* Each quantizer that wants a mixing, once, with the first linear that has none. */
static enum status find_mixings(const struct plan *p, int64_t model, struct plan_faults *f,
                                struct err *e)
{
    const struct plan_model *m = &p->costs.models[model];
    for (int64_t i = 0; m->known && i < p->sweep->n_methods; i++) {
        const struct method_entry *method = &p->sweep->methods[i];
        for (int stage = 0; stage < STAGE_N; stage++) {
            char name[200];
            struct err why = {0};
            if (mixing_check(&method->options, m->sizes.cols[stage], &why) == OK) continue;
            /* The first linear of the stage in the first block. */
            const int role[STAGE_N] = {[STAGE_QKV] = m->sizes.spec.fused ? ROLE_QKV : ROLE_Q,
                                       [STAGE_O] = ROLE_O,
                                       [STAGE_UP] = m->sizes.spec.gated ? ROLE_GATE : ROLE_UP,
                                       [STAGE_DOWN] = ROLE_DOWN};
            snprintf(name, sizeof name, "%s0.%s.weight", m->sizes.spec.arch->layers,
                     m->sizes.spec.arch->linear[role[stage]]);
            PASS(plan_faults_add_model(f, p, model, false, e, "its cells of %s will fail: %s: %s",
                                       method->name, name, why.text));
            break;
        }
    }
    return OK;
}

/* --- all --- */

static bool follows_positions(const struct plan *p)
{
    const struct data_options *c = &p->sweep->calibration;
    bool any = (c->text || c->ids) && c->length == LENGTH_AUTO;
    for (int64_t i = 0; i < p->sweep->n_evaluations; i++)
        any = any || p->sweep->evaluations[i].length == LENGTH_AUTO;
    return any;
}

/* Rows whose steps fall: movement, averages and figures take the order of the table. */
static void warn_order(const struct model_entry *m)
{
    for (int64_t i = 1; i < m->n_stored; i++) {
        const struct trajectory_row *r = &m->rows[i], *before = r - 1;
        if (r->step < 0 || r->step >= before->step || strcmp(r->phase, before->phase) != 0)
            continue;
        log_warn("%s: %s:%lld: step %lld stands behind step %lld; movement and averages take "
                 "checkpoints in the table's order",
                 m->name, m->trajectory, (long long)r->line, (long long)r->step,
                 (long long)before->step);
        return;
    }
}

/* last: the inputs that were compared before, which models of one tokenizer share. */
static enum status warn_model(const struct plan *p, int64_t model, struct visit_cache *cache,
                              struct visit_inputs *last, struct doubts *d, struct plan_faults *f,
                              struct err *e)
{
    char text[100];
    struct visit v;
    AUTO_FREE struct data_options *evaluations = NULL;
    struct visit_inputs in = {0};
    const int64_t positions = p->lengths[model].positions;
    PASS(plan_texts_of(p, model, &v, &evaluations, e));
    const bool read = plan_texts_are_short(&v) && visit_inputs_get(cache, &v, &in, NULL) == OK;
    const struct plan_checkpoint *one = plan_a_checkpoint(p, model);
    if (p->look_ahead && !read && positions > 0 && one->tokenizer[0] && !one->recalled)
        PASS(find_unreadable(p, cache, &v, model, f, e));
    snprintf(text, sizeof text, "length auto is %lld tokens, the model's positions",
             (long long)positions);
    if (follows_positions(p) && positions > 0 && positions < LENGTH_USUAL)
        PASS(faults_add(&d->infos, "model", v.model, text, e));
    PASS(doubt_lengths(d, &v, read ? &in : NULL, positions, e));
    warn_order(&p->sweep->models[model]);
    for (int k = 0; k < MEASURES_N; k++)
        if (measures[k]->text && measures[k]->text_name)
            PASS(warn_own(p, cache, &v, model, measures[k], d, f, e));
    PASS(find_mixings(p, model, f, e));
    if (read) PASS(find_outside(p, model, &in, f, e));
    if (read && (in.evaluation != last->evaluation || in.calibration != last->calibration))
        PASS(warn_of_overlap(&v, &in, e));
    if (read) *last = in;
    return OK;
}

enum status plan_warn(const struct plan *p, struct plan_faults *f, struct err *e)
{
    CLEANUP(visit_cache_free) struct visit_cache cache = {0};
    struct visit_inputs last = {0};
    CLEANUP(doubts_free) struct doubts d = {0};
    PASS(plan_check_heldout(p, f, e));
    products_warn((enum products)p->sweep->run.products);
    const struct sweep *s = p->sweep;
    json_t *said = json_object();
    for (int64_t i = 0; i < s->n_evaluations; i++) warn_of_json(&s->evaluations[i], said);
    if (calibrates(p)) warn_of_json(&s->calibration, said);
    for (int k = 0; k < MEASURES_N && s->n_models; k++)
        if (measures[k]->text) {
            const struct data_options data = measures[k]->text(p, 0);
            warn_of_json(&data, said);
        }
    json_decref(said);
    for (int64_t i = 0; i < p->sweep->n_models; i++)
        PASS(warn_model(p, i, &cache, &last, &d, f, e));
    PASS(faults_say(&d.infos, log_info, e));
    return faults_say(&d.warnings, log_warn, e);
}
