/* The functions that make items of rows, except those of HellaSwag and MathQA, whose texts are
 * cleaned up first. The contexts are the harness's templates. */
#include "task/task_make.h"
#include "task/field.h"
#include <string.h>

static enum status add(struct item *out, struct text t, struct err *e)
{
    struct choice *c;
    PASS(item_choice(out, &c, e));
    return buf_add(&c->text, t.at, t.n, e);
}

static enum status add_field(const json_t *row, const char *name, struct item *out, struct err *e)
{
    struct text t;
    PASS(field_text(row, name, &t, e));
    return add(out, t, e);
}

static enum status add_list(const json_t *row, const char *name, struct item *out, struct err *e)
{
    const json_t *list;
    PASS(field_list(row, name, &list, e));
    for (size_t i = 0; i < json_array_size(list); i++)
        PASS(add(out, field_item(list, (int64_t)i), e));
    return OK;
}

/* The choices "A", "B", ... to `last`. */
static enum status add_letters(char last, struct item *out, struct err *e)
{
    for (char letter = 'A'; letter <= last; letter++) PASS(add(out, (struct text){&letter, 1}, e));
    return OK;
}

static void set_gold(struct item *out, int64_t gold)
{
    out->gold = gold >= 0 && gold < out->n ? gold : GOLD_NONE;
}

/* Whether the text is the digits of a choice's place. */
static bool is_place(struct text t, const struct item *out)
{
    return t.n == 1 && t.at[0] >= '0' && t.at[0] < '0' + out->n;
}

/* The gold by a field that the harness takes as it is: an integer is the place of a choice, a
 * string a choice's text. */
static enum status gold_of_field(const json_t *row, const char *name, struct item *out,
                                 struct err *e)
{
    struct text answer;
    int64_t place;
    if (!json_is_string(json_object_get(row, name))) {
        PASS(field_integer(row, name, &place, e));
        set_gold(out, place);
        return OK;
    }
    PASS(field_text(row, name, &answer, e));
    out->gold = GOLD_NONE;
    for (int64_t i = out->n - 1; i >= 0; i--)
        if (text_is(answer, (struct text){out->choice[i].text.data, out->choice[i].text.n}))
            out->gold = i;
    NEED(out->gold != GOLD_NONE || !is_place(answer, out), ERR_FORMAT,
         "field \"%s\" is the string \"%.*s\", which lm-evaluation-harness looks for among the "
         "texts of the choices; the place of a choice is a number: %.*s",
         name, (int)answer.n, answer.at, (int)answer.n, answer.at);
    return OK;
}

/* The gold is the place of the answer's label in the list of labels. */
static enum status gold_of_label(const json_t *row, struct text answer, struct item *out,
                                 struct err *e)
{
    const json_t *labels;
    PASS(field_list(row, "choices.label", &labels, e));
    for (size_t i = 0; i < json_array_size(labels); i++)
        if (text_is(answer, field_item(labels, (int64_t)i))) {
            set_gold(out, (int64_t)i);
            return OK;
        }
    RAISE(ERR_FORMAT, "field \"answerKey\": \"%.*s\" is none of \"choices.label\"", (int)answer.n,
          answer.at);
}

enum status make_arc(const json_t *row, struct item *out, struct err *e)
{
    struct text answer;
    PASS(field_format(row, "Question: {question}\nAnswer:", &out->context, e));
    PASS(add_list(row, "choices.text", out, e));
    PASS(field_text(row, "answerKey", &answer, e));
    return gold_of_label(row, answer, out, e);
}

enum status make_openbookqa(const json_t *row, struct item *out, struct err *e)
{
    struct text answer;
    PASS(field_format(row, "{question_stem}", &out->context, e));
    PASS(add_list(row, "choices.text", out, e));
    PASS(field_text(row, "answerKey", &answer, e));
    return gold_of_label(row, pytext_lstrip(answer), out, e);
}

enum status make_piqa(const json_t *row, struct item *out, struct err *e)
{
    PASS(field_format(row, "Question: {goal}\nAnswer:", &out->context, e));
    PASS(add_field(row, "sol1", out, e));
    PASS(add_field(row, "sol2", out, e));
    return gold_of_field(row, "label", out, e);
}

/* What is scored is the text behind the gap; the choices differ in what is before it. */
enum status make_winogrande(const json_t *row, struct item *out, struct err *e)
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
        PASS(add(out, behind, e));
        PASS(buf_add(&out->choice[i].context, sentence.at, before, e));
        PASS(buf_add(&out->choice[i].context, option.at, option.n, e));
    }
    PASS(field_text(row, "answer", &answer, e));
    NEED(answer.n == 1 && (answer.at[0] == '1' || answer.at[0] == '2'), ERR_FORMAT,
         "field \"answer\": expected \"1\" or \"2\"");
    out->gold = answer.at[0] - '1';
    return OK;
}

enum status make_pubmedqa(const json_t *row, struct item *out, struct err *e)
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
    for (int i = 0; i < 3; i++) PASS(add(out, (struct text){answers[i], strlen(answers[i])}, e));
    return gold_of_field(row, "final_decision", out, e);
}

enum status make_sciq(const json_t *row, struct item *out, struct err *e)
{
    static const char *const names[] = {"distractor1", "distractor2", "distractor3",
                                        "correct_answer"};
    PASS(field_format(row, "{support:lstrip}\nQuestion: {question}\nAnswer:", &out->context, e));
    for (int i = 0; i < 4; i++) PASS(add_field(row, names[i], out, e));
    out->gold = 3;
    return OK;
}

enum status make_social_iqa(const json_t *row, struct item *out, struct err *e)
{
    int64_t label;
    PASS(field_format(row, "Q: {context} {question}\nA:", &out->context, e));
    PASS(add_field(row, "answerA", out, e));
    PASS(add_field(row, "answerB", out, e));
    PASS(add_field(row, "answerC", out, e));
    PASS(field_integer(row, "label", &label, e));
    set_gold(out, label - 1);
    return OK;
}

/* The question with the answers of the list after their letters, of which the last is `last`; the
 * choices are the letters. */
static enum status lettered(const json_t *row, const char *question, const char *list, char last,
                            struct item *out, struct err *e)
{
    const json_t *texts;
    const int64_t n = last - 'A' + 1;
    PASS(field_format(row, question, &out->context, e));
    PASS(field_list(row, list, &texts, e));
    NEED((int64_t)json_array_size(texts) >= n, ERR_FORMAT,
         "field \"%s\": expected %lld items, found %zu", list, (long long)n,
         json_array_size(texts));
    for (int64_t i = 0; i < n; i++) {
        const struct text t = field_item(texts, i);
        const char before[] = {'\n', (char)('A' + i), '.', ' '};
        PASS(buf_add(&out->context, before, sizeof before, e));
        PASS(buf_add(&out->context, t.at, t.n, e));
    }
    PASS(buf_add(&out->context, "\nAnswer:", strlen("\nAnswer:"), e));
    return add_letters(last, out, e);
}

enum status make_commonsense_qa(const json_t *row, struct item *out, struct err *e)
{
    PASS(lettered(row, "Question: {question:strip}", "choices.text", 'E', out, e));
    return gold_of_field(row, "answerKey", out, e);
}

enum status make_mmlu(const json_t *row, struct item *out, struct err *e)
{
    PASS(lettered(row, "{question:strip}", "choices", 'D', out, e));
    return gold_of_field(row, "answer", out, e);
}
