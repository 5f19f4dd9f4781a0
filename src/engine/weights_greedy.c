#include "engine/weights_greedy.h"
#include "checkpoint/derived.h"
#include "engine/inputs.h"
#include "engine/part.h"
#include "engine/part_saved.h"
#include "eval/dataset.h"
#include "eval/overlap.h"
#include "util/log.h"
#include "util/mem.h"
#include <math.h>

/* A choice that is being made. Candidates are numbered as the parts of w. */
struct greedy {
    const struct weights *w;
    const struct part_context *context;
    struct checkpoint *const *parts;
    int64_t at;     /* evaluations done: one of each candidate, then one of each further soup */
    double *alone;  // (n) loss of each candidate
    double *soup;   // (n) loss of the soup with it, when it was tried
    bool *kept;     // (n)
    int64_t *order; // (n) candidates by their loss
    double loss;    /* of the soup so far */
    struct saved *saved;
    struct saved_level level;
};

static void release(struct greedy *g)
{
    free(g->alone);
    free(g->soup);
    free(g->kept);
    free(g->order);
}

/* The soup of the kept candidates (i < 0), with candidate i as well, or of candidate i alone. */
static enum status open_soup(const struct greedy *g, const bool *kept, int64_t i,
                             struct checkpoint **out, struct err *e)
{
    int64_t n = 0;
    AUTO_FREE struct checkpoint_part *terms = NULL;
    PASS(mem_alloc(&terms, g->w->n, sizeof *terms, "a soup", e));
    for (int64_t k = 0; k < g->w->n; k++)
        if (k == i || (kept && kept[k])) terms[n++] = (struct checkpoint_part){1, g->parts[k]};
    return checkpoint_average(terms, n, g->w->f32, out, e);
}

/* *loss = that of the soup with candidate i (kept NULL: of i alone) on the text. Collective. */
static enum status evaluate(const struct greedy *g, const bool *kept, int64_t i, double *loss,
                            struct err *e)
{
    const struct part_context *c = g->context;
    CLEANUP(checkpoint_close_at) struct checkpoint *soup = NULL;
    PASS(group_agree(c->group, open_soup(g, kept, i, &soup, e), e));
    PASS(c->engine->judge(c, soup, g->w, loss, e));
    if (c->group->rank == 0)
        log_trace("visit", "greedy soup %s: evaluation %lld of at most %lld, loss %.6f",
                  c->visit->checkpoint, (long long)g->at + 1, (long long)(2 * g->w->n - 1), *loss);
    return OK;
}

/* g->order by loss; those whose loss is not finite come last. */
static void sort(struct greedy *g)
{
    for (int64_t i = 0; i < g->w->n; i++) {
        int64_t to = i;
        const double own = isfinite(g->alone[i]) ? g->alone[i] : HUGE_VAL;
        for (; to > 0; to--) {
            const double before = g->alone[g->order[to - 1]];
            if (!(own < (isfinite(before) ? before : HUGE_VAL))) break;
            g->order[to] = g->order[to - 1];
        }
        g->order[to] = i;
    }
}

static void move(void *context, struct saved_move *m)
{
    struct greedy *g = context;
    const size_t n = (size_t)g->w->n;
    saved_bytes(m, &g->at, sizeof g->at);
    saved_bytes(m, &g->loss, sizeof g->loss);
    saved_bytes(m, g->alone, (int64_t)(n * sizeof *g->alone));
    saved_bytes(m, g->soup, (int64_t)(n * sizeof *g->soup));
    saved_bytes(m, g->kept, (int64_t)(n * sizeof *g->kept));
}

/* *name (the caller frees) = which of the pieces of work that may run at the same time this is. */
static enum status name_piece(const struct visit *v, char **name, struct err *e)
{
    PASS(mem_format(name, e, "greedy %s%s", v->key, v->cells_only ? " cells" : ""));
    for (int64_t i = 0; i < v->n_variants; i++)
        PASS(mem_append(name, e, " %s", v->variants[i].key ? v->variants[i].key : ""));
    return OK;
}

static enum status begin(struct greedy *g, bool saves, struct err *e)
{
    const int64_t n = g->w->n;
    const struct part_context *c = g->context;
    AUTO_FREE char *recipe = NULL, *name = NULL;
    bool loaded = false;
    enum status st = mem_zero(&g->alone, n, sizeof *g->alone, "a soup", e);
    if (st == OK) st = mem_zero(&g->soup, n, sizeof *g->soup, "a soup", e);
    if (st == OK) st = mem_zero(&g->kept, n, sizeof *g->kept, "a soup", e);
    if (st == OK) st = mem_zero(&g->order, n, sizeof *g->order, "a soup", e);
    if (st == OK) st = weights_recipe(g->w, &recipe, e);
    if (st == OK) st = name_piece(c->visit, &name, e);
    if (st == OK) st = weights_check_heldout(g->w, c->visit, c->cache, e);
    PASS(group_agree(c->group, st, e));
    g->level = (struct saved_level){.name = "greedy", .move = move, .context = g};
    if (!saves) return OK;
    PASS(part_saved_open(c, MEASURE_cell, name, recipe, &g->saved, e));
    PASS(group_agree(c->group, saved_enter(g->saved, &g->level, &loaded, e), e));
    if (loaded && c->group->rank == 0)
        log_info("%s %s (greedy soup): %lld evaluations are done", c->visit->model,
                 c->visit->checkpoint, (long long)g->at);
    return OK;
}

/* Evaluates what is not evaluated yet. */
static enum status choose(struct greedy *g, struct err *e)
{
    const int64_t n = g->w->n;
    for (; g->at < n; g->at++) {
        if (g->at > 0) PASS(saved_point(g->saved, e));
        PASS(evaluate(g, NULL, g->at, &g->alone[g->at], e));
    }
    sort(g);
    const int64_t best = g->order[0];
    NEED(isfinite(g->alone[best]), ERR_NUMERIC, "no candidate of the soup has a finite loss");
    if (g->at == n) g->loss = g->soup[best] = g->alone[best];
    g->kept[best] = true;
    for (; g->at < 2 * n - 1; g->at++) {
        const int64_t i = g->order[g->at - n + 1];
        PASS(saved_point(g->saved, e));
        g->soup[i] = NAN;
        if (!isfinite(g->alone[i])) continue;
        PASS(evaluate(g, g->kept, i, &g->soup[i], e));
        g->kept[i] = g->soup[i] <= g->loss;
        if (g->kept[i]) g->loss = g->soup[i];
    }
    return saved_point(g->saved, e);
}

/* --- the record --- */

static const char *name_of(const struct weights *part)
{
    return part->name ? part->name : part->path;
}

static void append(json_t *columns, const char *column, json_t *value)
{
    json_array_append_new(json_object_get(columns, column), value);
}

/* Appends a member to *text. */
static enum status add_member(char **text, const char *name, struct err *e)
{
    return mem_append(text, e, "%s%s", *text ? ", " : "", name);
}

/* Candidates in the order in which they were tried. */
static enum status record_of(const struct greedy *g, json_t **out, struct err *e)
{
    char text[DATASET_NAME];
    AUTO_FREE char *members = NULL;
    json_auto_t *columns =
        json_pack("{s:[], s:[], s:[], s:[]}", "candidate", "heldout_loss", "soup_loss", "kept");
    for (int64_t k = 0; k < g->w->n; k++) {
        const int64_t i = g->order[k];
        const char *name = name_of(&g->w->parts[i]);
        append(columns, "candidate", json_string(name));
        append(columns, "heldout_loss", json_number_new(g->alone[i]));
        append(columns, "soup_loss", json_number_new(g->soup[i]));
        append(columns, "kept", json_integer(g->kept[i]));
        if (g->kept[i]) PASS(add_member(&members, name, e));
    }
    dataset_name(&g->w->heldout, text);
    *out = json_pack("{s:s, s:o, s:s, s:O}", "text", text, "loss", json_number_new(g->loss),
                     "members", members, "candidates", columns);
    NEED(*out, ERR_NOMEM, "out of memory for a soup");
    return OK;
}

/* The part whose name *text begins with, up to a comma or the end, which *text is moved behind; -1:
 * none. */
static int64_t take_member(const struct weights *w, const char **text)
{
    for (int64_t i = 0; i < w->n; i++) {
        const size_t n = strlen(name_of(&w->parts[i]));
        if (strncmp(*text, name_of(&w->parts[i]), n) != 0) continue;
        const bool more = strncmp(*text + n, ", ", 2) == 0;
        if (!more && (*text)[n]) continue;
        *text += more ? n + 2 : n;
        return i;
    }
    return -1;
}

void weights_recall_choice(struct weights *w, const json_t *record)
{
    const char *text = json_text(record, "soup_members", "");
    if (w->kind != WEIGHTS_GREEDY || !text[0]) return;
    for (int64_t i = 0; i < w->n; i++) w->parts[i].coefficient = 0;
    w->chosen = true;
    while (text[0] && w->chosen) {
        const int64_t i = take_member(w, &text);
        w->chosen = i >= 0;
        if (i >= 0) w->parts[i].coefficient = 1;
    }
    for (int64_t i = 0; i < w->n && !w->chosen; i++) w->parts[i].coefficient = 1;
}

/* --- opening --- */

enum status weights_check_heldout(const struct weights *w, const struct visit *v,
                                  struct visit_cache *cache, struct err *e)
{
    char text[DATASET_NAME];
    const struct sequences *heldout, *evaluated;
    if (w->kind != WEIGHTS_GREEDY || w->evaluated) return OK;
    dataset_name(&w->heldout, text);
    PASS(visit_sequences_get(cache, v, &w->heldout, &heldout, e));
    for (int64_t i = 0; i < v->n_evaluations; i++) {
        int64_t found;
        PASS(visit_sequences_get(cache, v, &v->evaluations[i], &evaluated, e));
        PASS(overlap_count(evaluated, 0, evaluated->n, heldout, &found, e));
        NEED(found == 0, ERR_USAGE,
             "%s: %lld of the %lld sequences of evaluation %s are also in %s, by which the greedy "
             "soup is chosen: its losses on them would look better than they are. Choose by "
             "another text, skip these sequences, or say `evaluated: true` to allow it",
             v->checkpoint, (long long)found, (long long)evaluated->n, v->evaluations[i].name,
             text);
    }
    return OK;
}

/* kept NULL: by the coefficients of w. */
static enum status open_chosen(const struct greedy *g, struct checkpoint **out, struct err *e)
{
    const int64_t n = g->w->n;
    AUTO_FREE struct checkpoint_part *all = NULL;
    AUTO_FREE bool *kept = NULL;
    CLEANUP(checkpoint_close_at) struct checkpoint *c = NULL;
    PASS(mem_zero(&kept, n, sizeof *kept, "a soup", e));
    PASS(mem_alloc(&all, n, sizeof *all, "a soup", e));
    for (int64_t i = 0; i < n; i++) {
        kept[i] = g->kept ? g->kept[i] : g->w->parts[i].coefficient != 0;
        all[i] = (struct checkpoint_part){1, g->parts[i]};
    }
    PASS(open_soup(g, kept, -1, &c, e));
    PASS(checkpoint_identify(c, g->w->f32 ? "greedy f32" : "greedy", all, n, e));
    *out = TAKE(c);
    return OK;
}

enum status weights_open_greedy(const struct weights *w, const struct part_context *context,
                                struct checkpoint *const *parts, struct checkpoint **out,
                                struct err *e)
{
    CLEANUP(release) struct greedy g = {.w = w, .context = context, .parts = parts};
    if (w->chosen) return open_chosen(&g, out, e);
    NEED(context, ERR_USAGE, "%s: the members of a greedy soup are chosen within a visit only",
         weights_folder(w));
    const bool own = w == &context->visit->weights;
    pace_prepare(context->pace, true);
    enum status st = begin(&g, own, e);
    if (st == OK) st = choose(&g, e);
    /* within an evaluation, of which nothing is kept */
    if (st == ERR_STOPPED) (void)!saved_point(g.saved, NULL);
    saved_leave(g.saved, &g.level);
    pace_prepare(context->pace, false);
    if (own) context->choice->saved = g.saved;
    PASS(st);
    if (own) st = record_of(&g, &context->choice->record, e);
    if (st == OK) st = open_chosen(&g, out, e);
    return group_agree(context->group, st, e);
}

void greedy_choice_end(const struct part_context *context, enum status st)
{
    part_saved_end(context, context->choice->saved, st);
    json_decref(context->choice->record);
}
