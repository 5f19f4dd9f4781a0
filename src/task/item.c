#include "task/item.h"
#include "task/field.h"
#include "util/mem.h"

void item_free(struct item *i)
{
    buf_free(&i->context);
    for (int64_t c = 0; c < i->n; c++) {
        buf_free(&i->choice[c].context);
        buf_free(&i->choice[c].text);
    }
    free(i->choice);
    *i = (struct item){0};
}

enum status item_choice(struct item *i, struct choice **out, struct err *e)
{
    PASS(mem_grow(&i->choice, i->n, &i->capacity, sizeof *i->choice, e));
    *out = &i->choice[i->n++];
    **out = (struct choice){0};
    return OK;
}

const struct buf *item_context(const struct item *i, int64_t c)
{
    return i->apart ? &i->choice[c].context : &i->context;
}

enum status item_add(struct item *out, struct text t, struct err *e)
{
    struct choice *c;
    PASS(item_choice(out, &c, e));
    return buf_add(&c->text, t.at, t.n, e);
}

enum status item_add_field(const json_t *row, const char *name, struct item *out, struct err *e)
{
    struct text t;
    PASS(field_text(row, name, &t, e));
    return item_add(out, t, e);
}

enum status item_add_list(const json_t *row, const char *name, struct item *out, struct err *e)
{
    const json_t *list;
    PASS(field_list(row, name, &list, e));
    for (size_t i = 0; i < json_array_size(list); i++)
        PASS(item_add(out, field_item(list, (int64_t)i), e));
    return OK;
}

void item_set_gold(struct item *out, int64_t gold)
{
    out->gold = gold >= 0 && gold < out->n ? gold : GOLD_NONE;
}

enum status item_gold_of_field(const json_t *row, const char *name, struct item *out, struct err *e)
{
    struct text answer;
    int64_t place;
    if (!json_is_string(json_object_get(row, name))) {
        PASS(field_integer(row, name, &place, e));
        item_set_gold(out, place);
        return OK;
    }
    PASS(field_text(row, name, &answer, e));
    out->gold = GOLD_NONE;
    for (int64_t i = out->n - 1; i >= 0; i--)
        if (text_is(answer, (struct text){out->choice[i].text.data, out->choice[i].text.n}))
            out->gold = i;
    const bool place_is = answer.n == 1 && answer.at[0] >= '0' && answer.at[0] < '0' + out->n;
    NEED(out->gold != GOLD_NONE || !place_is, ERR_FORMAT,
         "field \"%s\" is the string \"%.*s\", which lm-evaluation-harness looks for among the "
         "texts of the choices; the place of a choice is a number: %.*s",
         name, (int)answer.n, answer.at, (int)answer.n, answer.at);
    return OK;
}

enum status item_gold_of_label(const json_t *row, struct text answer, struct item *out,
                               struct err *e)
{
    const json_t *labels;
    PASS(field_list(row, "choices.label", &labels, e));
    for (size_t i = 0; i < json_array_size(labels); i++)
        if (text_is(answer, field_item(labels, (int64_t)i))) {
            item_set_gold(out, (int64_t)i);
            return OK;
        }
    RAISE(ERR_FORMAT, "field \"answerKey\": \"%.*s\" is none of \"choices.label\"", (int)answer.n,
          answer.at);
}

enum status item_add_lettered(const json_t *row, const char *question, const char *list, char last,
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
    for (char letter = 'A'; letter <= last; letter++)
        PASS(item_add(out, (struct text){&letter, 1}, e));
    return OK;
}
