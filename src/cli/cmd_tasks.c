/* qtraj tasks: the table of tasks, and what a model is asked for one of them. */
#include "cli/args.h"
#include "cli/cli.h"
#include "config/sweep.h"
#include "task/encode.h"
#include "task/prompts.h"
#include "task/task_table.h"
#include "util/mem.h"
#include "util/page.h"

static enum status print_table(bool json, struct err *e)
{
    enum { INDENT = 4 };
    const int64_t width = page_width(stdout, OPTION_PAGE);
    const struct task *t;
    json_t *list = json_array();
    for (int64_t i = 0; (t = task_at(i)) != NULL; i++) {
        if (!json) {
            printf("%s\n", t->name);
            page_print(stdout, width, INDENT, printf("%*s", INDENT, ""), t->doc);
            page_print(stdout, width, INDENT, printf("%*s", INDENT, ""), t->data);
        }
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:b}", "name", t->name, "doc",
                                              t->doc, "data", t->data, "accuracy_norm", t->norm));
    }
    if (json) return cli_print_json(list, JSON_INDENT(1), e);
    json_decref(list);
    return OK;
}

static json_t *string_of(struct text t)
{
    return json_stringn(t.at ? t.at : "", t.n);
}

static json_t *ids_new(const int32_t *ids, int64_t n)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < n; i++) json_array_append_new(list, json_integer(ids[i]));
    return list;
}

/* Adds what is asked for choice c to the object: its texts, and with an encoder its tokens. */
static enum status add_choice(json_t *out, const struct item *x, int64_t c,
                              const struct encoder *encoder, struct err *e)
{
    AUTO_FREE int32_t *before = NULL, *behind = NULL;
    CLEANUP(buf_free) struct buf continuation = {0};
    int64_t n_before, n_behind;
    const struct text context = text_in(item_context(x, c));
    PASS(buf_add(&continuation, " ", 1, e));
    PASS(buf_add(&continuation, x->choice[c].text.data, x->choice[c].text.n, e));
    json_array_append_new(json_object_get(out, "contexts"), string_of(context));
    json_array_append_new(json_object_get(out, "continuations"), string_of(text_in(&continuation)));
    if (!encoder->tokenizer) return OK;
    PASS(encode_context(encoder, context, &before, &n_before, e));
    PASS(encode_continuation(encoder, context, n_before, text_in(&continuation), &behind, &n_behind,
                             e));
    json_array_append_new(json_object_get(out, "context_tokens"), ids_new(before, n_before));
    json_array_append_new(json_object_get(out, "continuation_tokens"), ids_new(behind, n_behind));
    return OK;
}

static enum status print_item(const struct prompts *p, int64_t i, const struct encoder *encoder,
                              struct err *e)
{
    CLEANUP(item_free) struct item x = {0};
    json_auto_t *out = NULL;
    PASS(prompts_item(p, i, &x, e));
    out = json_pack("{s:s, s:I, s:o, s:[], s:[]}", "task", p->name, "item", (json_int_t)i, "gold",
                    x.gold == GOLD_NONE ? json_null() : json_integer(x.gold), "contexts",
                    "continuations");
    if (encoder->tokenizer) {
        json_object_set_new(out, "context_tokens", json_array());
        json_object_set_new(out, "continuation_tokens", json_array());
    }
    for (int64_t c = 0; c < x.n; c++) {
        enum status st = add_choice(out, &x, c, encoder, e);
        if (st != OK) line_blame(&p->items, i, e);
        PASS(st);
    }
    return cli_print_json(json_incref(out), JSON_COMPACT, e);
}

/* Of a task with subjects, those of all its subjects. */
static enum status print_items(const char *name, const struct prompts_choice *choice,
                               const char *tokenizer, struct err *e)
{
    CLEANUP(tokenizer_close_at) struct tokenizer *t = NULL;
    CLEANUP(texts_free) struct texts names = {0};
    struct encoder encoder = {0};
    CLEANUP(prompts_free) struct prompts p = {0};
    if (tokenizer) {
        PASS(tokenizer_open(tokenizer, &t, e));
        PASS(encoder_init(&encoder, t, e));
    }
    PASS(task_names(name, choice->folder, &names, e));
    for (int64_t k = 0; k < names.n; k++) {
        PASS(prompts_open(names.text[k], choice, &p, e));
        for (int64_t i = 0; i < p.items.n; i++) PASS(print_item(&p, i, &encoder, e));
        prompts_free(&p);
    }
    return OK;
}

static enum status run(struct call *c, struct err *e)
{
    const char *name = NULL, *tokenizer = NULL;
    bool json = false;
    struct prompts_choice choice = {.shots = TASK_SHOTS};
    const struct arg table[] = {
        {"--task-data", ARG_TEXT, &choice.folder, "FOLDER", "of the tasks' data"},
        {"--shots", ARG_INTEGER, &choice.shots, "N", "examples before each question; default 5"},
        {"--limit", ARG_INTEGER, &choice.limit, "N", "items, the first ones; default: all"},
        {"--tokenizer", ARG_TEXT, &tokenizer, "FILE", "tokenizer.json: print the token ids too"},
        {"--json", ARG_SWITCH, &json, NULL, "print the table as JSON (prompts always are)"},
    };
    static const struct arg_with with[] = {{"--shots", "--task-data"},
                                           {"--limit", "--task-data"},
                                           {"--tokenizer", "--task-data"},
                                           {NULL, NULL}};
    const struct args args = {ARGS(table), .with = with, .optional = 1};
    PASS(args_parse(&args, c, &name, 1, e));
    if (c->help) return OK;
    NEED(name || !choice.folder, ERR_USAGE,
         "--task-data has no effect here: it goes with the NAME of a task");
    if (!name) return print_table(json, e);
    NEED(choice.folder, ERR_USAGE, "--task-data FOLDER is missing: where is the data of %s?", name);
    return print_items(name, &choice, tokenizer, e);
}

const struct command cmd_tasks = {
    .name = "tasks",
    .arguments = "[NAME --task-data FOLDER [--shots N] [--limit N] [--tokenizer FILE]] [--json]",
    .doc = "list the tasks, or print what is asked for each item of one as JSON lines",
    .without_mpi = true,
    .run = run,
};
