#include "task/prompts.h"
#include "task/pyrandom.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>

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
    enum status st = OK;
    int64_t *others = NULL, n = p->pool.n;
    TRY(mem_alloc(&others, n, sizeof *others, "examples", e));
    for (int64_t i = 0; i < n; i++) others[i] = i;
    TRY(keep_others(p, item, others, &n, e));
    TRY(draw(r, p, n, p->shots, out, e));
    for (int64_t k = 0; k < p->shots; k++) out[k] = others[out[k]];
done:
    free(others);
    return st;
}

static enum status draw_apart(struct pyrandom *r, const struct prompts *p, int64_t i, int64_t *out,
                              struct err *e)
{
    enum status st = OK;
    int64_t *drawn = NULL, n = p->shots + 1;
    json_t *item = NULL;
    TRY(line_open(&p->items, i, &item, e));
    TRY(mem_alloc(&drawn, n, sizeof *drawn, "examples", e));
    TRY(draw(r, p, p->pool.n, n, drawn, e));
    TRY(keep_others(p, item, drawn, &n, e));
    if (n < p->shots)
        TRY(draw_again(r, p, item, out, e));
    else
        memcpy(out, drawn, (size_t)p->shots * sizeof *out);
done:
    free(drawn);
    json_decref(item);
    return st;
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
    enum status st = OK;
    char *name = NULL;
    const bool first = p->task->examples == EXAMPLES_FIRST;
    TRY(mem_format(&name, e, "%s.fewshot", p->name));
    TRY(lines_read(folder, name, first ? p->shots : 0, &p->pool, e));
    ENSURE(!first || p->pool.n == p->shots, ERR_FORMAT, "%s: %lld rows, expected %lld examples",
           p->pool.path, (long long)p->pool.n, (long long)p->shots);
done:
    free(name);
    return st;
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
    enum status st = OK;
    const char *subject;
    struct prompts p = {.shots = choice->shots};
    ENSURE(choice->shots >= 0, ERR_USAGE, "shots: expected 0 or more");
    ENSURE(choice->limit >= 0, ERR_USAGE, "limit: expected 0 or more");
    TRY(task_find(name, &p.task, &subject, e));
    TRY(mem_string(&p.name, name, e));
    TRY(describe(&p, subject, e));
    TRY(lines_read(choice->folder, name, choice->limit, &p.items, e));
    if (p.shots > 0) {
        TRY(read_pool(&p, choice->folder, e));
        TRY(draw_all(&p, e));
    }
    *out = p;
    p = (struct prompts){0};
done:
    prompts_free(&p);
    return st;
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
    enum status st = OK;
    json_t *row = NULL;
    TRY(line_open(rows, i, &row, e));
    st = p->task->make(row, out, e);
    if (st == OK && out->n == 0) st = err_set(e, ERR_FORMAT, __FILE__, __LINE__, "no choices");
    if (st != OK) line_blame(rows, i, e);
done:
    json_decref(row);
    return st;
}

/* Appends an example: its context, a blank, the right answer and an empty line. Of a sentence of
 * WinoGrande that ends with its gap, the harness gives the context alone. */
static enum status add_example(const struct prompts *p, int64_t row, struct buf *out, struct err *e)
{
    enum status st = OK;
    struct item x = {0};
    TRY(make(p, &p->pool, row, &x, e));
    if (x.gold == GOLD_NONE) {
        st = err_set(e, ERR_FORMAT, __FILE__, __LINE__,
                     "an example whose right answer is none of its choices, with which "
                     "lm-evaluation-harness fails or shows another text: remove the row");
        line_blame(&p->pool, row, e);
        goto done;
    }
    const struct buf *context = item_context(&x, x.gold), *answer = &x.choice[x.gold].text;
    TRY(buf_add(out, context->data, context->n, e));
    if (x.apart && answer->n == 0) goto done;
    TRY(buf_add(out, " ", 1, e));
    TRY(buf_add(out, answer->data, answer->n, e));
    TRY(buf_add(out, "\n\n", 2, e));
done:
    item_free(&x);
    return st;
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
    enum status st = OK;
    struct buf before = {0};
    TRY(make(p, &p->items, i, out, e));
    TRY(buf_add(&before, p->description, strlen(p->description), e));
    for (int64_t k = 0; k < p->shots; k++)
        TRY(add_example(p, p->drawn[i * p->shots + k], &before, e));
    if (!out->apart) TRY(put_before(&before, &out->context, e));
    for (int64_t c = 0; out->apart && c < out->n; c++)
        TRY(put_before(&before, &out->choice[c].context, e));
done:
    buf_free(&before);
    return st;
}
