#include "task/item.h"
#include "util/mem.h"
#include <stdlib.h>

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
