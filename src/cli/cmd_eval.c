/* qtraj eval: the loss of one checkpoint on a text, and its logits. */
#include "checkpoint/safetensors.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/single.h"
#include "eval/head.h"
#include "util/mem.h"
#include <stdlib.h>

struct eval {
    struct single single; /* first member: its address is the hooks' context */
    struct data_options data;
    const char *logits;
};

/* OUT holds `logits` (sequences, length, V) when all have one length, else logits.0, logits.1, ...
 */
static enum status plan_logits(const struct sequences *s, int64_t vocab,
                               struct tensor_shape **shapes, int64_t *n, struct err *e)
{
    int64_t T = s->n ? s->offset[1] - s->offset[0] : 0;
    bool equal = true;
    for (int64_t i = 0; i < s->n; i++) equal = equal && s->offset[i + 1] - s->offset[i] == T;
    *n = equal ? 1 : s->n;
    PASS(mem_zero(shapes, *n, sizeof **shapes, "logits", e));
    for (int64_t i = 0; i < *n; i++) {
        struct tensor_shape *shape = &(*shapes)[i];
        char *name;
        if (equal) {
            PASS(mem_string(&name, "logits", e));
            *shape = (struct tensor_shape){name, DTYPE_F32, 3, {s->n, T, vocab}};
        } else {
            PASS(mem_format(&name, e, "logits.%lld", (long long)i));
            *shape =
                (struct tensor_shape){name, DTYPE_F32, 2, {s->offset[i + 1] - s->offset[i], vocab}};
        }
    }
    return OK;
}

static enum status write_logits(void *context, const struct model *m, const struct sequences *s,
                                const float *x, struct err *e)
{
    enum status st = OK;
    const struct eval *o = context;
    int64_t n = 0, V = model_shape(m)->vocab, C = model_shape(m)->hidden;
    struct tensor_shape *shapes = NULL;
    struct safetensors_out *out = NULL;
    float *logits = NULL;
    TRY(plan_logits(s, V, &shapes, &n, e));
    TRY(safetensors_create(o->logits, shapes, n, &out, e));
    for (int64_t i = 0; i < s->n; i++) {
        int64_t T = s->offset[i + 1] - s->offset[i];
        free(logits);
        logits = NULL;
        TRY(mem_alloc(&logits, T * V, sizeof *logits, "logits", e));
        TRY(head_logits(m, x + s->offset[i] * C, T, logits, e));
        TRY(safetensors_append(out, logits, T * V, e));
    }
    TRY(safetensors_commit(out, e));
done:
    safetensors_out_close(out);
    for (int64_t i = 0; shapes && i < n; i++) free((char *)(uintptr_t)shapes[i].name);
    free(shapes);
    free(logits);
    return st;
}

static enum status print(const struct eval *o, bool json, struct err *e)
{
    const json_t *record = o->single.checkpoint;
    const json_t *d = json_object_get(json_object_get(record, "datasets"), "evaluation");
    if (!json) {
        printf("loss %.6f ± %.6f nats, perplexity %.4f, %lld tokens scored\n",
               json_number_get(json_object_get(d, "loss")),
               json_number_get(json_object_get(d, "loss_stderr")),
               json_number_get(json_object_get(d, "perplexity")),
               (long long)json_integer_value(json_object_get(d, "tokens")));
        return OK;
    }
    json_t *out = json_pack(
        "{s:o, s:o, s:o, s:o, s:O, s:O}", "loss", single_number(record, "loss"), "loss_stderr",
        single_number(record, "loss_stderr"), "perplexity", single_number(record, "perplexity"),
        "bits_per_byte", single_number(record, "bits_per_byte"), "tokens",
        json_object_get(d, "tokens"), "loss_per_sequence", json_object_get(d, "sequence_loss"));
    return cli_print_json(out, JSON_COMPACT, e);
}

static enum status run(struct call *c, struct err *e)
{
    enum status st = OK;
    struct eval o = {0};
    const char *dir, *tokenizer = NULL;
    struct arg_choice products = {.words = products_words};
    bool json = false;
    const struct arg table[] = {
        {"--tokenizer", ARG_TEXT, &tokenizer, "FILE", "tokenizer.json (DIR's own)"},
        {"--logits", ARG_TEXT, &o.logits, "OUT", "write the logits to a safetensors file"},
        {"--products", ARG_CHOICE, &products, "KIND", "how forward passes multiply (f32)"},
        {"--json", ARG_SWITCH, &json, NULL, "print JSON"},
    };
    options_default(&data_table, &o.data);
    const struct arg_keys keys[] = {{"the text:", &data_scored_table, "", &o.data}};
    const struct args args = {ARGS(table), ARGS_KEYS(keys)};
    TRY(args_parse(&args, c, &dir, 1, e));
    if (c->help) goto done;
    TRY(single_add_evaluation(&o.single, &o.data, "", e));
    if (o.logits) o.single.hooks.hidden = write_logits;
    single_products(&o.single, products.word);
    TRY(single_run(&o.single, dir, tokenizer, e));
    TRY(print(&o, json, e));
done:
    options_free(&data_table, &o.data);
    single_free(&o.single);
    return st;
}

const struct command cmd_eval = {
    .name = "eval",
    .arguments = "DIR (--text FILE [--length N] | --ids FILE:KEY) [--logits OUT] [--json]",
    .doc = "measure the loss of one checkpoint",
    .run = run,
};
