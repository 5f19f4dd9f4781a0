/* HellaSwag and MathQA, whose texts the harness cleans up with regular expressions. */
#include "task/field.h"
#include "task/task_table.h"
#include <string.h>

/* Appends t without what \[.*?\] matches: from a bracket to the next closing one on the same line.
 */
static enum status drop_brackets(struct text t, struct buf *out, struct err *e)
{
    size_t i = 0;
    while (i < t.n) {
        const char *open = memchr(t.at + i, '[', t.n - i);
        const size_t start = open ? (size_t)(open - t.at) : t.n;
        PASS(buf_add(out, t.at + i, start - i, e));
        if (!open) break;
        size_t end = start + 1;
        while (end < t.n && t.at[end] != ']' && t.at[end] != '\n') end++;
        if (end < t.n && t.at[end] == ']')
            i = end + 1;
        else {
            PASS(buf_add(out, "[", 1, e));
            i = start + 1;
        }
    }
    return OK;
}

/* Appends the text as the harness cleans it up. */
static enum status hellaswag_clean(struct text t, struct buf *out, struct err *e)
{
    CLEANUP(buf_free) struct buf titles = {0}, plain = {0};
    t = pytext_strip(t);
    PASS(buf_add_replaced(&titles, t.at, t.n, " [title]", 8, ". ", 2, e));
    PASS(drop_brackets(text_in(&titles), &plain, e));
    return buf_add_replaced(out, plain.data, plain.n, "  ", 2, " ", 1, e);
}

static enum status hellaswag_context(const json_t *row, struct buf *out, struct err *e)
{
    CLEANUP(buf_free) struct buf raw = {0};
    struct text second;
    PASS(field_format(row, "{activity_label}: {ctx_a} ", &raw, e));
    PASS(field_text(row, "ctx_b", &second, e));
    PASS(pytext_capitalize(second, &raw, e));
    return hellaswag_clean(text_in(&raw), out, e);
}

static enum status hellaswag(const json_t *row, struct item *out, struct err *e)
{
    const json_t *endings;
    struct choice *c;
    int64_t label;
    PASS(hellaswag_context(row, &out->context, e));
    PASS(field_list(row, "endings", &endings, e));
    for (size_t i = 0; i < json_array_size(endings); i++) {
        PASS(item_choice(out, &c, e));
        PASS(hellaswag_clean(field_item(endings, (int64_t)i), &c->text, e));
    }
    PASS(field_integer(row, "label", &label, e));
    item_set_gold(out, label);
    return OK;
}

const struct task task_hellaswag = {
    .name = "hellaswag",
    .data = "Rowan/hellaswag, validation; examples: train",
    .doc = "which ending follows a description",
    .norm = true,
    .examples = EXAMPLES_APART,
    .make = hellaswag,
};

/* The end of what the expression "[abcd] \) .*?, |e \) .*?$" matches at byte i, where lines end at
 * a line feed; 0: nothing. */
static size_t mathqa_match(struct text t, size_t i)
{
    if (t.n - i < 4 || memcmp(t.at + i + 1, " ) ", 3) != 0) return 0;
    const char letter = t.at[i];
    if (letter < 'a' || letter > 'e') return 0;
    for (size_t k = i + 4; k <= t.n; k++) {
        const bool ends = k == t.n || (k == t.n - 1 && t.at[k] == '\n');
        if (letter == 'e' && ends) return k;
        if (letter != 'e' && k + 2 <= t.n && t.at[k] == ',' && t.at[k + 1] == ' ') return k + 2;
        if (k < t.n && t.at[k] == '\n') return 0;
    }
    return 0;
}

static enum status mathqa(const json_t *row, struct item *out, struct err *e)
{
    struct text options, correct;
    struct choice *c;
    PASS(field_format(row, "Question: {Problem}\nAnswer:", &out->context, e));
    PASS(field_text(row, "options", &options, e));
    for (size_t i = 0; i < options.n;) {
        const size_t end = mathqa_match(options, i);
        if (!end) {
            i++;
            continue;
        }
        size_t n = end - i - 4; /* without blanks and commas at the end */
        while (n > 0 && (options.at[i + 3 + n] == ' ' || options.at[i + 3 + n] == ',')) n--;
        PASS(item_choice(out, &c, e));
        PASS(buf_add(&c->text, options.at + i + 4, n, e));
        i = end;
    }
    PASS(field_text(row, "correct", &correct, e));
    NEED(correct.n == 1 && correct.at[0] >= 'a' && correct.at[0] <= 'e', ERR_FORMAT,
         "field \"correct\": expected a letter from a to e");
    item_set_gold(out, correct.at[0] - 'a');
    return OK;
}

const struct task task_mathqa = {
    .name = "mathqa",
    .data = "regisss/math_qa, test; examples: train",
    .doc = "arithmetic word problems",
    .norm = true,
    .make = mathqa,
};
