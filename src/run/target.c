#include "run/target.h"
#include "util/fsx.h"
#include "util/temporary.h"
#include <stdlib.h>

void target_free(struct target *t)
{
    lock_release(t->lock);
    free(t->cube);
    free(t->journal);
    *t = (struct target){0};
}

enum status target_open(struct target *t, const char *name, const char *const *inputs, int64_t n,
                        struct err *e)
{
    PASS(fsx_resolve(name, &t->cube, e));
    for (int64_t i = 0; i < n; i++)
        NEED(!fsx_same(name, inputs[i]), ERR_USAGE,
             "%s: would replace its own input; give the cube to write, then what it is made of",
             name);
    PASS(cube_check_place("", name, e));
    PASS(journal_path(t->cube, &t->journal, e));
    PASS(lock_take(t->journal, NULL, &t->lock, e));
    temporary_remove_left(t->cube, TEMPORARY_ALL);
    temporary_remove_left(t->journal, TEMPORARY_ALL);
    return OK;
}
