#include "task/task_summary.h"
#include "task/task_table.h"
#include "util/mem.h"

/* Makes an item; *bytes = what is asked. */
static enum status make_item(const struct prompts *p, int64_t i, double *bytes, struct err *e)
{
    CLEANUP(item_free) struct item x = {0};
    enum status st = prompts_item(p, i, &x, e);
    *bytes = 0;
    for (int64_t c = 0; st == OK && c < x.n; c++) {
        *bytes += (double)x.choice[c].text.n + 1;
        if (c == 0 || x.apart) *bytes += (double)item_context(&x, c)->n;
    }
    return st;
}

/* Makes all items. The first malformed one is reported, whichever thread finds it. */
static enum status make_items(const struct prompts *p, double *bytes, struct err *e)
{
    const int64_t n = p->items.n;
    int64_t first_bad = n;
    double sum = 0;
    struct err bad = {0};
#pragma omp parallel for schedule(dynamic, 16) reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        struct err mine = {0};
        double own = 0;
        if (make_item(p, i, &own, &mine) != OK) err_first(&bad, &first_bad, i, &mine);
        sum += own;
    }
    *bytes = sum;
    NEED(first_bad == n, bad.code, "%s", bad.text);
    return OK;
}

static enum status add_name(const char *name, const struct prompts_choice *choice, json_t *files,
                            struct task_summary *out, char **text, struct err *e)
{
    CLEANUP(prompts_free) struct prompts p = {0};
    double bytes;
    PASS(prompts_open(name, choice, &p, e));
    PASS(make_items(&p, &bytes, e));
    out->items += p.items.n;
    out->bytes += bytes;
    PASS(mem_append(text, e, "\n%s", name));
    if (p.items.path) PASS(mem_append(text, e, " %s", p.items.hash));
    if (p.pool.path) PASS(mem_append(text, e, " %s", p.pool.hash));
    return prompts_files(&p, files, e);
}

enum status task_summarize(const char *name, const struct prompts_choice *choice, json_t *files,
                           struct task_summary *out, struct err *e)
{
    AUTO_FREE char *text = NULL;
    CLEANUP(texts_free) struct texts names = {0};
    *out = (struct task_summary){0};
    PASS(mem_string(&text, name, e));
    PASS(task_names(name, choice->folder, &names, e));
    for (int64_t i = 0; i < names.n; i++)
        PASS(add_name(names.text[i], choice, files, out, &text, e));
    hash_text(text, out->hash);
    return OK;
}
