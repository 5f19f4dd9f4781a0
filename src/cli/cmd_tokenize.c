/* qtraj tokenize: the token ids of lines on stdin. */
#include "cli/args.h"
#include "cli/cli.h"
#include "tokenizer/tokenizer.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <errno.h>

/* One line: a JSON string with --json, else the text itself. */
static enum status tokenize_line(const struct tokenizer *t, const char *line, size_t n,
                                 int64_t number, bool special, bool json, struct err *e)
{
    json_error_t error;
    json_auto_t *value = NULL;
    AUTO_FREE int32_t *ids = NULL;
    int64_t n_ids;
    if (json) {
        value = json_loadb(line, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
        NEED(json_is_string(value), ERR_FORMAT, "line %lld: expected a JSON string%s%s",
             (long long)number, value ? "" : ": ", value ? "" : error.text);
        line = json_string_value(value);
        n = json_string_length(value);
    }
    PASS(tokenizer_encode(t, line, n, special, &ids, &n_ids, e));
    if (json) putchar('[');
    for (int64_t i = 0; i < n_ids; i++) printf(i ? (json ? ",%d" : " %d") : "%d", ids[i]);
    puts(json ? "]" : "");
    return OK;
}

static enum status run(struct call *c, struct err *e)
{
    const char *path;
    bool json = false, special = false;
    CLEANUP(tokenizer_close_at) struct tokenizer *t = NULL;
    AUTO_FREE char *line = NULL;
    size_t capacity = 0;
    ssize_t n;
    const struct arg table[] = {
        {"--special-tokens", ARG_SWITCH, &special, NULL, "add what the post-processor adds (BOS)"},
        {"--json", ARG_SWITCH, &json, NULL,
         "each line of stdin a JSON string, each line out a JSON array of ids"},
    };
    const struct args args = {ARGS(table)};
    PASS(args_parse(&args, c, &path, 1, e));
    if (c->help) return OK;
    PASS(tokenizer_open(path, &t, e));
    for (int64_t number = 1; (n = getline(&line, &capacity, stdin)) >= 0; number++) {
        if (n && line[n - 1] == '\n') n--;
        PASS(tokenize_line(t, line, (size_t)n, number, special, json, e));
    }
    NEED(feof(stdin), fsx_errno_status(errno), "standard input: %s", strerror(errno));
    return OK;
}

const struct command cmd_tokenize = {
    .name = "tokenize",
    .arguments = "TOKENIZER.json [--special-tokens] [--json]",
    .doc = "print the token ids of the text on stdin, a line each",
    .run = run,
};
