#include "task/requests.h"
#include "task/encode.h"
#include "task/task_table.h"
#include "util/mem.h"
#include "util/num.h"

void requests_free(struct requests *r)
{
    for (int64_t i = 0; i < r->n_tasks; i++) free(r->tasks[i].name);
    free(r->tasks);
    free(r->items);
    free(r->list);
    free(r->first_request);
    free(r->first_span);
    free(r->spans);
    free(r->targets);
    sequences_free(&r->sequences);
    json_decref(r->files);
    *r = (struct requests){0};
}

/* --- the tokens of an item --- */

/* One choice. */
struct pair {
    int32_t *context, *continuation; /* context: NULL if it is that of the first choice */
    int64_t n_context, n_continuation;
    int64_t chars; /* of the choice */
};
struct item_tokens {
    int64_t n, gold;
    struct pair *pairs; // (n)
};

static void item_tokens_free(struct item_tokens *x)
{
    for (int64_t i = 0; i < x->n; i++) {
        free(x->pairs[i].context);
        free(x->pairs[i].continuation);
    }
    free(x->pairs);
    *x = (struct item_tokens){0};
}

/* Choice c of the item; `blank` is scratch for its text behind a blank. */
static enum status encode_choice(const struct encoder *x, const struct item *item, int64_t c,
                                 struct buf *blank, struct item_tokens *out, struct err *e)
{
    struct pair *p = &out->pairs[c];
    const struct text context = text_in(item_context(item, c)),
                      choice = text_in(&item->choice[c].text);
    if (c == 0 || item->apart)
        PASS(encode_context(x, context, &p->context, &p->n_context, e));
    else
        p->n_context = out->pairs[0].n_context;
    blank->n = 0;
    PASS(buf_add(blank, " ", 1, e));
    PASS(buf_add(blank, choice.at, choice.n, e));
    p->chars = pytext_length(choice);
    return encode_continuation(x, context, p->n_context, text_in(blank), &p->continuation,
                               &p->n_continuation, e);
}

static enum status encode_item(const struct prompts *p, int64_t i, const struct encoder *x,
                               int64_t positions, struct item_tokens *out, struct err *e)
{
    enum status st = OK;
    CLEANUP(item_free) struct item item = {0};
    CLEANUP(buf_free) struct buf blank = {0};
    PASS(prompts_item(p, i, &item, e));
    PASS(mem_zero(&out->pairs, item.n, sizeof *out->pairs, "choices", e));
    out->gold = item.gold;
    for (; out->n < item.n && st == OK; out->n++) {
        st = encode_choice(x, &item, out->n, &blank, out, e);
        const int64_t tokens = out->pairs[out->n].n_continuation;
        if (st == OK && tokens > positions)
            st = err_set(e, ERR_FORMAT, __FILE__, __LINE__,
                         "a choice of %lld tokens, the model has %lld positions", (long long)tokens,
                         (long long)positions);
    }
    if (st != OK) line_blame(&p->items, i, e);
    return st;
}

/* *out (n, of which the caller frees each with item_tokens_free, and the array) = the tokens of all
 * items of p. ERR_FORMAT with file and line: a row, or a continuation that has no tokens or more
 * than `positions`; ERR_NOMEM, errors of tokenizer_encode. */
static enum status item_tokens_make(const struct prompts *p, const struct encoder *x,
                                    int64_t positions, struct item_tokens **out, struct err *e)
{
    const int64_t n = p->items.n;
    int64_t first_bad = n;
    struct err bad = {0};
    PASS(mem_zero(out, n, sizeof **out, "tokens of items", e));
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < n; i++) {
        struct err mine = {0};
        if (encode_item(p, i, x, positions, &(*out)[i], &mine) != OK)
            err_first(&bad, &first_bad, i, &mine);
    }
    if (first_bad == n) return OK;
    for (int64_t i = 0; i < n; i++) item_tokens_free(&(*out)[i]);
    mem_drop(out);
    RAISE(bad.code, "%s", bad.text);
}

/* --- making --- */

/* Requests that are being made. Arrays grow; spans point to targets by their index at first. */
struct maker {
    const struct requests_options *options;
    int64_t positions;
    struct requests *out;
    struct ids ids, targets;
    int64_t tasks_capacity, items_capacity, list_capacity, spans_capacity, segments_capacity,
        sequences_capacity[4];
    int64_t n_spans, n_segments;
    int64_t *target_of, target_capacity; // (n_spans) index of the first target of each span
    int64_t own;                         /* tokens of the open sequence but for the examples */
    const int32_t *prefix;               /* tokens that items of the task begin with */
    int64_t n_prefix;                    /* 0: none */
    int64_t prefix_segment;              /* of the open sequence; -1: it has none */
};

static void maker_free(struct maker *m)
{
    free(m->ids.id);
    free(m->targets.id);
    free(m->target_of);
}

/* --- sequences --- */

/* Appends to the array `at`, which has n elements. */
static enum status push(int64_t **at, int64_t n, int64_t *capacity, int64_t value, struct err *e)
{
    PASS(mem_grow(at, n, capacity, sizeof **at, e));
    (*at)[n] = value;
    return OK;
}

/* Notes where a sequence begins; once more at the end. */
static enum status mark(struct maker *m, struct err *e)
{
    struct sequences *s = &m->out->sequences;
    PASS(push(&s->offset, s->n, &m->sequences_capacity[0], m->ids.n, e));
    PASS(push(&s->first_segment, s->n, &m->sequences_capacity[1], m->n_segments, e));
    PASS(push(&m->out->first_span, s->n, &m->sequences_capacity[2], m->n_spans, e));
    return push(&m->out->first_request, s->n, &m->sequences_capacity[3], m->out->n, e);
}

/* Begins a sequence if none is open. */
static enum status open_sequence(struct maker *m, struct err *e)
{
    if (m->own >= 0) return OK;
    PASS(mark(m, e));
    m->own = 0;
    m->prefix_segment = -1;
    return OK;
}

static void close_sequence(struct maker *m)
{
    if (m->own >= 0) m->out->sequences.n++;
    m->own = -1;
}

/* Appends tokens to the open sequence as a segment; *segment = its number there. */
static enum status add_segment(struct maker *m, int64_t parent, int64_t pos, const int32_t *ids,
                               int64_t n, int64_t *segment, struct err *e)
{
    struct sequences *s = &m->out->sequences;
    PASS(mem_grow(&s->segments, m->n_segments, &m->segments_capacity, sizeof *s->segments, e));
    s->segments[m->n_segments] =
        (struct segment){.row = m->ids.n - s->offset[s->n], .pos = pos, .parent = parent};
    *segment = m->n_segments++ - s->first_segment[s->n];
    m->own += n;
    return ids_add(&m->ids, ids, n, e);
}

/* n targets of a request, of which the first is predicted by the token at `row` of all. */
static enum status add_span(struct maker *m, int64_t request, int64_t row, const int32_t *targets,
                            int64_t n, struct err *e)
{
    struct requests *r = m->out;
    PASS(push(&m->target_of, m->n_spans, &m->target_capacity, m->targets.n, e));
    PASS(mem_grow(&r->spans, m->n_spans, &m->spans_capacity, sizeof *r->spans, e));
    r->spans[m->n_spans++] = (struct span){.row = row, .n = n, .unit = request};
    return ids_add(&m->targets, targets, n, e);
}

/* --- items --- */

/* A context as it goes through the model: without the tokens that are too many. */
struct context {
    const int32_t *ids;
    int64_t n, skipped;
    int64_t segment; /* its last token's, once it is in the open sequence */
    int64_t last;    /* row of that token, of all */
};

static struct context context_of(const struct maker *m, const struct item_tokens *x, int64_t c)
{
    const struct pair *p = &x->pairs[c];
    const int32_t *ids = p->context ? p->context : x->pairs[0].context;
    const int64_t skipped = max64(0, p->n_context + p->n_continuation - m->positions - 1);
    return (struct context){.ids = ids + skipped, .n = p->n_context - skipped, .skipped = skipped};
}

static bool are_equal(const int32_t *a, int64_t n_a, const int32_t *b, int64_t n_b)
{
    return n_a == n_b && memcmp(a, b, (size_t)n_a * sizeof *a) == 0;
}

/* The first choice of the item with the tokens of choice c, and the same context: c as a rule. */
static int64_t first_same(const struct maker *m, const struct item_tokens *x, int64_t c)
{
    const struct context own = context_of(m, x, c);
    const struct pair *p = &x->pairs[c];
    for (int64_t b = 0; b < c; b++) {
        const struct context other = context_of(m, x, b);
        const struct pair *q = &x->pairs[b];
        if (are_equal(q->continuation, q->n_continuation, p->continuation, p->n_continuation) &&
            are_equal(other.ids, other.n, own.ids, own.n))
            return b;
    }
    return c;
}

/* Choice c, for which choice `same` is scored. */
static enum status add_request(struct maker *m, const struct item_tokens *x, int64_t c,
                               int64_t same, struct err *e)
{
    struct requests *r = m->out;
    const struct pair *p = &x->pairs[c];
    PASS(mem_grow(&r->list, r->n, &m->list_capacity, sizeof *r->list, e));
    r->list[r->n] = (struct request){p->chars, p->n_continuation, r->n + same - c};
    r->n++;
    return OK;
}

/* The examples, if the context begins with them and has a token of its own. */
static enum status add_prefix(struct maker *m, const struct context *x, bool *begins, struct err *e)
{
    *begins = m->n_prefix > 0 && x->skipped == 0 && x->n > m->n_prefix &&
              memcmp(x->ids, m->prefix, (size_t)m->n_prefix * sizeof *x->ids) == 0;
    if (!*begins || m->prefix_segment >= 0) return OK;
    PASS(add_segment(m, -1, 0, m->prefix, m->n_prefix, &m->prefix_segment, e));
    m->own -= m->n_prefix;
    return OK;
}

static enum status add_context(struct maker *m, struct context *x, struct err *e)
{
    bool begins;
    PASS(add_prefix(m, x, &begins, e));
    const int64_t from = begins ? m->n_prefix : 0;
    PASS(add_segment(m, begins ? m->prefix_segment : -1, from, x->ids + from, x->n - from,
                     &x->segment, e));
    x->last = m->ids.n - 1;
    return OK;
}

/* The tokens of a choice behind its context but for the last one, which predicts nothing. */
static enum status add_continuation(struct maker *m, int64_t request, const struct context *x,
                                    const struct pair *p, struct err *e)
{
    const int64_t row = m->ids.n, n = p->n_continuation - 1;
    int64_t segment;
    if (n == 0 || m->out->list[request].scored != request) return OK;
    PASS(add_segment(m, x->segment, x->n, p->continuation, n, &segment, e));
    return add_span(m, request, row, p->continuation + 1, n, e);
}

/* Adds choices [first, end) of an item, which have a context in common: the context, the first
 * tokens of all, which it predicts, and then what follows each. */
static enum status add_shared(struct maker *m, const struct item_tokens *x, int64_t first,
                              int64_t end, struct context *context, struct err *e)
{
    const int64_t request = m->out->n;
    PASS(add_context(m, context, e));
    for (int64_t c = first; c < end; c++) {
        const int64_t same = first_same(m, x, c);
        if (same == c) PASS(add_span(m, m->out->n, context->last, x->pairs[c].continuation, 1, e));
        PASS(add_request(m, x, c, same, e));
    }
    for (int64_t c = first; c < end; c++)
        PASS(add_continuation(m, request + c - first, context, &x->pairs[c], e));
    return OK;
}

/* The choices of an item in the open sequence, the context of several in a row once. */
static enum status add_together(struct maker *m, const struct item_tokens *x, struct err *e)
{
    for (int64_t c = 0, end; c < x->n; c = end) {
        struct context context = context_of(m, x, c);
        for (end = c + 1; end < x->n && context_of(m, x, end).ids == context.ids;) end++;
        PASS(add_shared(m, x, c, end, &context, e));
    }
    return OK;
}

/* Choice c as a sequence of its own. */
static enum status add_alone(struct maker *m, const struct item_tokens *x, int64_t c, struct err *e)
{
    const struct pair *p = &x->pairs[c];
    const struct context context = context_of(m, x, c);
    int64_t segment;
    PASS(open_sequence(m, e));
    const int64_t row = m->ids.n + context.n - 1;
    PASS(add_segment(m, -1, 0, context.ids, context.n, &segment, e));
    PASS(ids_add(&m->ids, p->continuation, p->n_continuation - 1, e));
    PASS(add_span(m, m->out->n, row, p->continuation, p->n_continuation, e));
    close_sequence(m);
    return OK;
}

static enum status add_apart(struct maker *m, const struct item_tokens *x, struct err *e)
{
    for (int64_t c = 0; c < x->n; c++) {
        const int64_t same = first_same(m, x, c);
        if (same == c) PASS(add_alone(m, x, c, e));
        PASS(add_request(m, x, c, same, e));
    }
    return OK;
}

static enum status add_item(struct maker *m, const struct item_tokens *x, struct err *e)
{
    struct requests *r = m->out;
    PASS(mem_grow(&r->items, r->n_items, &m->items_capacity, sizeof *r->items, e));
    struct request_item item = {.gold = x->gold, .first = r->n};
    for (int64_t c = 0; c < x->n; c++)
        item.truncated = item.truncated || context_of(m, x, c).skipped > 0;
    r->items[r->n_items++] = item;
    if (m->options->apart) return add_apart(m, x, e);
    PASS(open_sequence(m, e));
    PASS(add_together(m, x, e));
    if (m->own >= max64(REQUESTS_PACK, 4 * m->n_prefix)) close_sequence(m);
    return OK;
}

/* --- tasks --- */

/* Sets the tokens that the contexts of all items begin with, if they are worth it. */
static void find_prefix(struct maker *m, const struct item_tokens *items, int64_t n)
{
    enum { WORTH = 32 };
    const struct pair *first = &items[0].pairs[0];
    int64_t common = first->n_context - 1;
    for (int64_t i = 1; i < n; i++) {
        const struct pair *p = &items[i].pairs[0];
        int64_t k = 0;
        while (k < min64(common, p->n_context - 1) && p->context[k] == first->context[k]) k++;
        common = k;
    }
    m->prefix = first->context;
    m->n_prefix = n > 1 && common >= WORTH ? common : 0;
}

static enum status add_task(struct maker *m, const char *name, const struct encoder *x,
                            struct err *e)
{
    enum status st = OK;
    struct requests *r = m->out;
    struct prompts p = {0};
    struct item_tokens *items = NULL;
    const struct prompts_choice choice = {m->options->folder, m->options->shots, m->options->limit};
    TRY(prompts_open(name, &choice, &p, e));
    TRY(prompts_files(&p, r->files, e));
    TRY(item_tokens_make(&p, x, m->positions, &items, e));
    TRY(mem_grow(&r->tasks, r->n_tasks + 1, &m->tasks_capacity, sizeof *r->tasks, e));
    r->tasks[r->n_tasks++] =
        (struct request_task){.name = p.name, .task = p.task, .first = r->n_items};
    p.name = NULL;
    find_prefix(m, items, p.items.n);
    for (int64_t i = 0; i < p.items.n; i++) TRY(add_item(m, &items[i], e));
    close_sequence(m);
done:
    for (int64_t i = 0; items && i < p.items.n; i++) item_tokens_free(&items[i]);
    free(items);
    prompts_free(&p);
    return st;
}

/* Ends all arrays, and lets the spans point to their targets. */
static enum status finish(struct maker *m, struct err *e)
{
    struct requests *r = m->out;
    PASS(mark(m, e));
    PASS(mem_grow(&r->items, r->n_items, &m->items_capacity, sizeof *r->items, e));
    r->items[r->n_items] = (struct request_item){.first = r->n};
    r->tasks[r->n_tasks] = (struct request_task){.first = r->n_items};
    r->sequences.ids = m->ids.id;
    r->targets = m->targets.id;
    m->ids = m->targets = (struct ids){0};
    for (int64_t i = 0; i < m->n_spans; i++) r->spans[i].target = r->targets + m->target_of[i];
    return OK;
}

enum status requests_make(const struct requests_options *o, const struct tokenizer *t,
                          int64_t positions, struct requests *out, struct err *e)
{
    struct encoder x;
    CLEANUP(texts_free) struct texts names = {0};
    CLEANUP(requests_free) struct requests r = {.files = json_object()};
    CLEANUP(maker_free)
    struct maker m = {.options = o, .positions = positions, .out = &r, .own = -1};
    PASS(encoder_init(&x, t, e));
    PASS(task_names(o->tasks, o->folder, &names, e));
    for (int64_t i = 0; i < names.n; i++) PASS(add_task(&m, names.text[i], &x, e));
    PASS(finish(&m, e));
    *out = r;
    r = (struct requests){0};
    return OK;
}
