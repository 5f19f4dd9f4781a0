/* What a plan knows that a run of it will not compute. */
#include "checkpoint/checkpoint.h"
#include "engine/inputs.h"
#include "model/model.h"
#include "plan/plan.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/quantity.h"
#include <stdarg.h>
#include <stdio.h>

void plan_faults_free(struct plan_faults *f)
{
    faults_free(&f->all);
    free(f->model);
    *f = (struct plan_faults){0};
}

static enum status add(struct plan_faults *f, const struct plan *p, const char *who, struct err *e,
                       const char *fmt, va_list args)
{
    char text[1024];
    vsnprintf(text, sizeof text, fmt, args);
    sweep_add_place(p->sweep, text, sizeof text, sizeof text, "");
    return faults_add(&f->all, "model", who, text, e);
}

enum status plan_faults_add(struct plan_faults *f, const struct plan *p, struct err *e,
                            const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const enum status st = add(f, p, "", e, fmt, args);
    va_end(args);
    return st;
}

enum status plan_faults_add_model(struct plan_faults *f, const struct plan *p, int64_t model,
                                  bool visits, struct err *e, const char *fmt, ...)
{
    va_list args;
    if (!f->model) PASS(mem_zero(&f->model, p->sweep->n_models, sizeof *f->model, "models", e));
    f->model[model] |= visits;
    va_start(args, fmt);
    const enum status st = add(f, p, p->sweep->models[model].name, e, fmt, args);
    va_end(args);
    return st;
}

/* The search through the checkpoints of visits. */
struct search {
    const struct plan *p;
    struct plan_faults *f;
    const struct plan_visit *v;
    json_t *seen; /* {folder: what is wrong with it, "": nothing} */
    json_t *said; /* {what is wrong: true} of this visit */
};

/* Adds why something of a visit or checkpoint fails. The same about others counts, whatever file
 * `why` begins with. */
static enum status add_failing(const struct search *s, const char *who, const char *why,
                               struct err *e)
{
    char text[1024], whole[1200];
    snprintf(text, sizeof text, "%s", why);
    sweep_add_place(s->p->sweep, text, sizeof text, sizeof text, "");
    const char *end = strstr(text, ": "), *space = strchr(text, ' ');
    const char *rest = end && end < space ? end + 2 : text;
    snprintf(whole, sizeof whole, "%s: %.*s", who, rest > text ? (int)(end - text) : 0, text);
    if (rest == text) snprintf(whole, sizeof whole, "%s", who);
    if (json_flag(s->said, rest)) return OK;
    json_object_set_new(s->said, rest, json_true());
    return faults_add(&s->f->all, "checkpoint", whole, rest, e);
}

/* What a visit would say of the folder before it computes anything. */
static enum status try_folder(const char *folder, struct err *e)
{
    CLEANUP(checkpoint_close_at) struct checkpoint *c = NULL;
    PASS(checkpoint_open(folder, &c, e));
    return model_check(c, e);
}

/* Whether all stored parts are whole, or will be fetched. */
static enum status check_weights(const struct search *s, const struct weights *w, bool *whole,
                                 struct err *e)
{
    const struct model_entry *m = &s->p->sweep->models[s->v->model];
    for (int64_t i = 0; i < w->n; i++) PASS(check_weights(s, &w->parts[i], whole, e));
    if (w->kind != WEIGHTS_STORED) return OK;
    char who[400];
    const char *known = json_text(s->seen, w->path, NULL);
    struct err why = {0};
    if (!known) {
        const bool there = weights_present(w);
        if (there && try_folder(w->path, &why) == OK) why.text[0] = '\0';
        if (!there && !m->stage && !(s->v->visit.weights.n && plan_stages(s->p->sweep)))
            snprintf(why.text, sizeof why.text, "%s: no such checkpoint", w->path);
        json_object_set_new(s->seen, w->path, json_string(why.text));
        known = json_text(s->seen, w->path, "");
    }
    if (!known[0]) return OK;
    *whole = false;
    snprintf(who, sizeof who, "%s will fail", s->v->name);
    return add_failing(s, who, known, e);
}

/* Whether the visit reads texts, and its checkpoint is there without a tokenizer. */
static enum status lacks_tokenizer(const struct visit *v, bool *lacks, struct err *e)
{
    AUTO_FREE char *path = NULL;
    *lacks = false;
    if (v->tokenizer || !visit_reads_text(v) || !weights_present(&v->weights)) return OK;
    PASS(visit_tokenizer(weights_folder(&v->weights), &path, e));
    *lacks = !path;
    return OK;
}

enum status plan_faults_tokenizers(struct plan_faults *f, const struct plan *p,
                                   const struct plan_visits *left, struct err *e)
{
    for (int64_t m = 0; m < p->sweep->n_models; m++) {
        int64_t n = 0, bad = 0;
        const char *folder = NULL;
        for (int64_t i = 0; i < left->n; i++) {
            const struct plan_visit *v = &left->visits[i];
            bool lacks;
            if (v->model != m) continue;
            n++;
            PASS(lacks_tokenizer(&v->visit, &lacks, e));
            if (lacks && !bad++) folder = weights_folder(&v->visit.weights);
        }
        if (!bad) continue;
        PASS(plan_faults_add_model(f, p, m, false, e,
                                   "%lld of its %lld visit%s will fail: neither %s nor the folder "
                                   "above has a tokenizer.json; name one with models[].tokenizer",
                                   (long long)bad, (long long)n, quantity_plural(n), folder));
    }
    return OK;
}

/* Weights of checkpoints that nothing is to be computed of, whose folder is there. */
static enum status check_finished(const struct search *s, struct err *e)
{
    for (int64_t i = 0; i < s->p->n_checkpoints; i++) {
        const struct plan_checkpoint *c = &s->p->checkpoints[i];
        char who[400];
        struct err why = {0};
        if (c->weights.kind != WEIGHTS_STORED || json_object_get(s->seen, c->weights.path) ||
            !weights_present(&c->weights) || try_folder(c->weights.path, &why) == OK)
            continue;
        json_object_clear(s->said);
        snprintf(who, sizeof who, "%s %s: its weights cannot be read, its finished results stay",
                 s->p->sweep->models[c->model].name, plan_name_of(s->p, c));
        PASS(add_failing(s, who, why.text, e));
    }
    return OK;
}

enum status plan_faults_find(struct plan_faults *f, const struct plan *p,
                             const struct plan_visits *left, struct err *e)
{
    json_auto_t *seen = json_object(), *said = json_object();
    struct search s = {.p = p, .f = f, .seen = seen, .said = said};
    for (int64_t i = 0; i < p->missing.n; i++)
        PASS(plan_faults_add(f, p, e, "%s; a run refuses to start", p->missing.text[i]));
    PASS(plan_faults_tokenizers(f, p, left, e));
    for (; f->left < left->n; f->left++) {
        s.v = &left->visits[f->left];
        json_object_clear(s.said);
        bool lacks, whole = !(f->model && f->model[s.v->model]);
        PASS(lacks_tokenizer(&s.v->visit, &lacks, e));
        whole = whole && !lacks;
        PASS(check_weights(&s, &s.v->visit.weights, &whole, e));
        /* Stored variants, each of which fails alone. */
        const struct visit *v = &s.v->visit;
        for (int64_t i = 0; i < v->n_variants; i++) {
            const struct method_entry *m = &v->variants[i].method;
            char who[400];
            struct err why = {0};
            if (!m->path || try_folder(m->path, &why) == OK) continue;
            snprintf(who, sizeof who, "%s, %s will fail", s.v->name, m->name);
            PASS(add_failing(&s, who, why.text, e));
        }
        f->failing += !whole;
    }
    if (left->of_all) PASS(check_finished(&s, e));
    if (p->missing.n) f->failing = f->left;
    return OK;
}

void plan_faults_log(const struct plan_faults *f)
{
    enum { MOST = 20 };
    for (int64_t i = 0; i < f->all.n && i < MOST; i++) {
        char *line;
        if (faults_line(&f->all, i, &line, NULL) != OK) continue;
        log_warn("%s", line);
        free(line);
    }
    if (f->all.n > MOST)
        log_warn("and %lld more, which `qtraj plan --json` lists", (long long)f->all.n - MOST);
    if (f->failing)
        log_warn("%lld of %lld visit%s left would fail", (long long)f->failing, (long long)f->left,
                 quantity_plural(f->left));
}
