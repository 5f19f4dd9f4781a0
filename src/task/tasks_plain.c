/* The tasks whose texts are taken as they are. The contexts are the harness's templates. */
#include "task/field.h"
#include "task/task_table.h"
#include <string.h>

static enum status arc(const json_t *row, struct item *out, struct err *e)
{
    struct text answer;
    PASS(field_format(row, "Question: {question}\nAnswer:", &out->context, e));
    PASS(item_add_list(row, "choices.text", out, e));
    PASS(field_text(row, "answerKey", &answer, e));
    return item_gold_of_label(row, answer, out, e);
}

const struct task task_arc_challenge = {
    .name = "arc_challenge",
    .data = "allenai/ai2_arc ARC-Challenge, test; examples: train",
    .doc = "school science questions that simple methods get wrong",
    .norm = true,
    .make = arc,
};

const struct task task_arc_easy = {
    .name = "arc_easy",
    .data = "allenai/ai2_arc ARC-Easy, test; examples: train",
    .doc = "school science questions",
    .norm = true,
    .make = arc,
};

static enum status openbookqa(const json_t *row, struct item *out, struct err *e)
{
    struct text answer;
    PASS(field_format(row, "{question_stem}", &out->context, e));
    PASS(item_add_list(row, "choices.text", out, e));
    PASS(field_text(row, "answerKey", &answer, e));
    return item_gold_of_label(row, pytext_lstrip(answer), out, e);
}

const struct task task_openbookqa = {
    .name = "openbookqa",
    .data = "allenai/openbookqa main, test; examples: train",
    .doc = "elementary science facts and common sense",
    .norm = true,
    .make = openbookqa,
};

static enum status piqa(const json_t *row, struct item *out, struct err *e)
{
    PASS(field_format(row, "Question: {goal}\nAnswer:", &out->context, e));
    PASS(item_add_field(row, "sol1", out, e));
    PASS(item_add_field(row, "sol2", out, e));
    return item_gold_of_field(row, "label", out, e);
}

const struct task task_piqa = {
    .name = "piqa",
    .data = "baber/piqa, validation; examples: train",
    .doc = "which of two ways reaches an everyday goal",
    .norm = true,
    .examples = EXAMPLES_APART,
    .make = piqa,
};

/* What is scored is the text behind the gap; the choices differ in what is before it. */
static enum status winogrande(const json_t *row, struct item *out, struct err *e)
{
    struct text sentence, option, answer;
    PASS(field_text(row, "sentence", &sentence, e));
    const char *gap = memchr(sentence.at, '_', sentence.n);
    NEED(gap, ERR_FORMAT, "field \"sentence\" has no gap, the character _");
    const size_t before = (size_t)(gap - sentence.at);
    const struct text behind = pytext_strip((struct text){gap + 1, sentence.n - before - 1});
    out->apart = true;
    for (int i = 0; i < 2; i++) {
        PASS(field_text(row, i ? "option2" : "option1", &option, e));
        PASS(item_add(out, behind, e));
        PASS(buf_add(&out->choice[i].context, sentence.at, before, e));
        PASS(buf_add(&out->choice[i].context, option.at, option.n, e));
    }
    PASS(field_text(row, "answer", &answer, e));
    NEED(answer.n == 1 && (answer.at[0] == '1' || answer.at[0] == '2'), ERR_FORMAT,
         "field \"answer\": expected \"1\" or \"2\"");
    out->gold = answer.at[0] - '1';
    return OK;
}

const struct task task_winogrande = {
    .name = "winogrande",
    .data = "allenai/winogrande winogrande_xl, validation; examples: train",
    .doc = "which of two nouns fills a gap; the text behind the gap is scored",
    .examples = EXAMPLES_APART,
    .make = winogrande,
};

static enum status pubmedqa(const json_t *row, struct item *out, struct err *e)
{
    static const char *const answers[] = {"yes", "no", "maybe"};
    const json_t *contexts;
    PASS(field_list(row, "CONTEXTS", &contexts, e));
    PASS(buf_add(&out->context, "Abstract: ", strlen("Abstract: "), e));
    for (size_t i = 0; i < json_array_size(contexts); i++) {
        const struct text t = field_item(contexts, (int64_t)i);
        PASS(buf_add(&out->context, "\n", i > 0, e));
        PASS(buf_add(&out->context, t.at, t.n, e));
    }
    PASS(field_format(row, "\nQuestion: {QUESTION}\nAnswer:", &out->context, e));
    for (int i = 0; i < 3; i++)
        PASS(item_add(out, (struct text){answers[i], strlen(answers[i])}, e));
    return item_gold_of_field(row, "final_decision", out, e);
}

const struct task task_pubmedqa = {
    .name = "pubmedqa",
    .data = "bigbio/pubmed_qa pubmed_qa_labeled_fold0_source, test; examples: train",
    .doc = "yes, no or maybe, by the abstract of a biomedical paper",
    .make = pubmedqa,
};

static enum status sciq(const json_t *row, struct item *out, struct err *e)
{
    static const char *const names[] = {"distractor1", "distractor2", "distractor3",
                                        "correct_answer"};
    PASS(field_format(row, "{support:lstrip}\nQuestion: {question}\nAnswer:", &out->context, e));
    for (int i = 0; i < 4; i++) PASS(item_add_field(row, names[i], out, e));
    out->gold = 3;
    return OK;
}

const struct task task_sciq = {
    .name = "sciq",
    .data = "allenai/sciq, test; examples: train",
    .doc = "science questions with a supporting text",
    .norm = true,
    .make = sciq,
};

static enum status social_iqa(const json_t *row, struct item *out, struct err *e)
{
    int64_t label;
    PASS(field_format(row, "Q: {context} {question}\nA:", &out->context, e));
    PASS(item_add_field(row, "answerA", out, e));
    PASS(item_add_field(row, "answerB", out, e));
    PASS(item_add_field(row, "answerC", out, e));
    PASS(field_integer(row, "label", &label, e));
    item_set_gold(out, label - 1);
    return OK;
}

const struct task task_social_iqa = {
    .name = "social_iqa",
    .data = "lighteval/siqa, validation; examples: train",
    .doc = "what people in a situation want or do",
    .examples = EXAMPLES_APART,
    .make = social_iqa,
};

static enum status commonsense_qa(const json_t *row, struct item *out, struct err *e)
{
    PASS(item_add_lettered(row, "Question: {question:strip}", "choices.text", 'E', out, e));
    return item_gold_of_field(row, "answerKey", out, e);
}

const struct task task_commonsense_qa = {
    .name = "commonsense_qa",
    .data = "tau/commonsense_qa, validation; examples: train",
    .doc = "common sense, five choices named by letters",
    .examples = EXAMPLES_APART,
    .make = commonsense_qa,
};

static enum status mmlu(const json_t *row, struct item *out, struct err *e)
{
    PASS(item_add_lettered(row, "{question:strip}", "choices", 'D', out, e));
    return item_gold_of_field(row, "answer", out, e);
}

const struct task task_mmlu = {
    .name = "mmlu",
    .data = "cais/mmlu, a configuration for each subject, test; examples: dev",
    .doc =
        "exam questions of 57 subjects, four choices named by letters; one subject: mmlu_SUBJECT",
    .subjects = true,
    .examples = EXAMPLES_FIRST,
    .make = mmlu,
};
