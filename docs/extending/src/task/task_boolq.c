/* BoolQ: questions about a passage, with yes or no as answers. */
#include "task/field.h"
#include "task/task_table.h"

static enum status boolq(const json_t *row, struct item *out, struct err *e)
{
    PASS(field_format(row, "{passage}\nQuestion: {question}?\nAnswer:", &out->context, e));
    PASS(item_add(out, (struct text){"no", 2}, e));
    PASS(item_add(out, (struct text){"yes", 3}, e));
    return item_gold_of_field(row, "label", out, e);
}

const struct task task_boolq = {
    .name = "boolq",
    .data = "aps/super_glue boolq, validation; examples: train",
    .doc = "yes or no, by a passage",
    .examples = EXAMPLES_APART,
    .make = boolq,
};
