#include "task/prompts.h"
#include "task/pyrandom.h"
#include "util/mem.h"

enum { HARNESS_SEED = 1234 };

void prompts_free(struct prompts *p)
{
    free(p->name);
    free(p->description);
    free(p->drawn);
    lines_free(&p->items);
    lines_free(&p->pool);
    *p = (struct prompts){0};
}

/* --- which examples --- */

static enum status draw(struct pyrandom *r, const struct prompts *p, int64_t rows, int64_t n,
                        int64_t *out, struct err *e)
{
    NEED(rows >= n, ERR_FORMAT, "%s: %lld rows to draw %lld examples from", p->pool.path,
         (long long)rows, (long long)n);
    return pyrandom_sample(r, rows, n, out, e);
}

/* Keeps those of the n drawn rows that differ from the item; returns how many. */
static enum status keep_others(const struct prompts *p, const json_t *item, int64_t *drawn,
                               int64_t *n, struct err *e)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < *n; i++) {
        json_t *row;
        PASS(line_open(&p->pool, drawn[i], &row, e));
        if (!json_equal(row, item)) drawn[kept++] = drawn[i];
        json_decref(row);
    }
    *n = kept;
    return OK;
}

/* Draws from the rows of the pool that differ from the item. */
static enum status draw_again(struct pyrandom *r, const struct prompts *p, const json_t *item,
                              int64_t *out, struct err *e)
{
    AUTO_FREE int64_t *others = NULL;
    int64_t n = p->pool.n;
    PASS(mem_alloc(&others, n, sizeof *others, "examples", e));
    for (int64_t i = 0; i < n; i++) others[i] = i;
    PASS(keep_others(p, item, others, &n, e));
    PASS(draw(r, p, n, p->shots, out, e));
    for (int64_t k = 0; k < p->shots; k++) out[k] = others[out[k]];
    return OK;
}

static enum status draw_apart(struct pyrandom *r, const struct prompts *p, int64_t i, int64_t *out,
                              struct err *e)
{
    AUTO_FREE int64_t *drawn = NULL;
    int64_t n = p->shots + 1;
    json_auto_t *item = NULL;
    PASS(line_open(&p->items, i, &item, e));
    PASS(mem_alloc(&drawn, n, sizeof *drawn, "examples", e));
    PASS(draw(r, p, p->pool.n, n, drawn, e));
    PASS(keep_others(p, item, drawn, &n, e));
    if (n < p->shots)
        PASS(draw_again(r, p, item, out, e));
    else
        memcpy(out, drawn, (size_t)p->shots * sizeof *out);
    return OK;
}

/* One generator serves all items of a task, in their order. */
static enum status draw_all(struct prompts *p, struct err *e)
{
    struct pyrandom random;
    NEED(p->shots <= p->pool.n, ERR_FORMAT, "%s: %lld rows to draw %lld examples from",
         p->pool.path, (long long)p->pool.n, (long long)p->shots);
    pyrandom_seed(&random, HARNESS_SEED);
    PASS(mem_alloc(&p->drawn, p->items.n * p->shots, sizeof *p->drawn, "examples", e));
    for (int64_t i = 0; i < p->items.n; i++) {
        int64_t *out = p->drawn + i * p->shots;
        if (p->task->examples == EXAMPLES_DRAWN)
            PASS(draw(&random, p, p->pool.n, p->shots, out, e));
        else if (p->task->examples == EXAMPLES_APART)
            PASS(draw_apart(&random, p, i, out, e));
        else
            for (int64_t k = 0; k < p->shots; k++) out[k] = k;
    }
    return OK;
}

static enum status read_pool(struct prompts *p, const char *folder, struct err *e)
{
    AUTO_FREE char *name = NULL;
    const bool first = p->task->examples == EXAMPLES_FIRST;
    PASS(mem_format(&name, e, "%s.fewshot", p->name));
    PASS(lines_read(folder, name, first ? p->shots : 0, &p->pool, e));
    NEED(!first || p->pool.n == p->shots, ERR_FORMAT, "%s: %lld rows, expected %lld examples",
         p->pool.path, (long long)p->pool.n, (long long)p->shots);
    return OK;
}

static enum status describe(struct prompts *p, const char *subject, struct err *e)
{
    if (!subject) return mem_string(&p->description, "", e);
    PASS(mem_format(&p->description, e,
                    "The following are multiple choice questions (with answers) about %s.\n\n",
                    subject));
    char *words = p->description + strlen(p->description) - strlen(subject) - strlen(".\n\n");
    for (char *c = words; *c; c++)
        if (*c == '_') *c = ' ';
    return OK;
}

enum status prompts_open(const char *name, const struct prompts_choice *choice, struct prompts *out,
                         struct err *e)
{
    const char *subject;
    CLEANUP(prompts_free) struct prompts p = {.shots = choice->shots};
    NEED(choice->shots >= 0, ERR_USAGE, "shots: expected 0 or more");
    NEED(choice->limit >= 0, ERR_USAGE, "limit: expected 0 or more");
    PASS(task_find(name, &p.task, &subject, e));
    PASS(mem_string(&p.name, name, e));
    PASS(describe(&p, subject, e));
    PASS(lines_read(choice->folder, name, choice->limit, &p.items, e));
    if (p.shots > 0) {
        PASS(read_pool(&p, choice->folder, e));
        PASS(draw_all(&p, e));
    }
    *out = p;
    p = (struct prompts){0};
    return OK;
}

enum status prompts_files(const struct prompts *p, json_t *files, struct err *e)
{
    json_object_set_new(files, p->items.path, json_string(p->items.hash));
    if (p->pool.path) json_object_set_new(files, p->pool.path, json_string(p->pool.hash));
    return json_whole(e);
}

/* --- what is asked --- */

static enum status make(const struct prompts *p, const struct lines *rows, int64_t i,
                        struct item *out, struct err *e)
{
    json_auto_t *row = NULL;
    PASS(line_open(rows, i, &row, e));
    enum status st = p->task->make(row, out, e);
    if (st == OK && out->n == 0) st = err_set(e, ERR_FORMAT, __FILE__, __LINE__, "no choices");
    if (st != OK) line_blame(rows, i, e);
    return st;
}

/* Appends an example: its context, a blank, the right answer and an empty line. Of a sentence of
 * WinoGrande that ends with its gap, the harness gives the context alone. */
static enum status add_example(const struct prompts *p, int64_t row, struct buf *out, struct err *e)
{
    enum status st = OK;
    CLEANUP(item_free) struct item x = {0};
    PASS(make(p, &p->pool, row, &x, e));
    if (x.gold == GOLD_NONE) {
        st = err_set(e, ERR_FORMAT, __FILE__, __LINE__,
                     "an example whose right answer is none of its choices, with which "
                     "lm-evaluation-harness fails or shows another text: remove the row");
        line_blame(&p->pool, row, e);
        return st;
    }
    const struct buf *context = item_context(&x, x.gold), *answer = &x.choice[x.gold].text;
    PASS(buf_add(out, context->data, context->n, e));
    if (x.apart && answer->n == 0) return st;
    PASS(buf_add(out, " ", 1, e));
    PASS(buf_add(out, answer->data, answer->n, e));
    return buf_add(out, "\n\n", 2, e);
}

/* Puts a text before a context. */
static enum status put_before(const struct buf *text, struct buf *context, struct err *e)
{
    const size_t n = context->n;
    if (text->n == 0) return OK;
    PASS(buf_reserve(context, text->n, e));
    memmove(context->data + text->n, context->data, n);
    memcpy(context->data, text->data, text->n);
    context->n += text->n;
    context->data[context->n] = 0;
    return OK;
}

enum status prompts_item(const struct prompts *p, int64_t i, struct item *out, struct err *e)
{
    CLEANUP(buf_free) struct buf before = {0};
    PASS(make(p, &p->items, i, out, e));
    PASS(buf_add(&before, p->description, strlen(p->description), e));
    for (int64_t k = 0; k < p->shots; k++)
        PASS(add_example(p, p->drawn[i * p->shots + k], &before, e));
    if (!out->apart) PASS(put_before(&before, &out->context, e));
    for (int64_t c = 0; out->apart && c < out->n; c++)
        PASS(put_before(&before, &out->choice[c].context, e));
    return OK;
}
