#include "util/texts.h"
#include "util/mem.h"

void texts_free(struct texts *t)
{
    for (int64_t i = 0; i < t->n; i++) free(t->text[i]);
    free(t->text);
    *t = (struct texts){0};
}

bool texts_have(const struct texts *t, const char *text)
{
    for (int64_t i = 0; i < t->n; i++)
        if (strcmp(t->text[i], text) == 0) return true;
    return false;
}

enum status texts_append(struct texts *t, const char *text, struct err *e)
{
    PASS(mem_grow(&t->text, t->n + 1, &t->capacity, sizeof *t->text, e));
    PASS(mem_string(&t->text[t->n], text, e));
    t->text[++t->n] = NULL;
    return OK;
}

enum status texts_add(struct texts *t, const char *text, struct err *e)
{
    return texts_have(t, text) ? OK : texts_append(t, text, e);
}
