#include "checkpoint/folder_copy.h"
#include "util/mem.h"
#include "util/num.h"
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 22 }; /* bytes that are copied at a time */

struct tensor_shape folder_shape(const struct tensor_entry *t)
{
    struct tensor_shape out = {.name = t->name, .dtype = t->dtype, .n_dims = t->n_dims};
    memcpy(out.shape, t->shape, sizeof out.shape);
    return out;
}

enum status folder_copy_tensor(struct folder_out *o, const struct checkpoint *c, const char *name,
                               struct err *e)
{
    enum status st = OK;
    char *piece = NULL;
    const struct tensor_entry *t = checkpoint_find(c, name);
    TRY(mem_alloc(&piece, PIECE, 1, "a piece of a tensor", e));
    int64_t most = PIECE / (int64_t)dtype_size(t->dtype);
    for (int64_t at = 0, n; at < t->n_elements; at += n) {
        n = min64(most, t->n_elements - at);
        TRY(checkpoint_read_stored(c, t, at, n, piece, e));
        TRY(folder_append(o, t->name, piece, n, e));
    }
done:
    free(piece);
    return st;
}
