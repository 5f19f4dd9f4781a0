/* All-to-all exchanges of doubles with counts that differ from rank to rank. */
#include "math/dist_internal.h"
#include "util/mem.h"
#include <limits.h>

enum status exchange_init(struct exchange *x, int ranks, struct err *e)
{
    *x = (struct exchange){.ranks = ranks};
    PASS(mem_zero(&x->send_n, 4 * (int64_t)ranks, sizeof *x->send_n, "counts of ranks", e));
    x->recv_n = x->send_n + ranks;
    x->send_at = x->recv_n + ranks;
    x->recv_at = x->send_at + ranks;
    return OK;
}

void exchange_free(struct exchange *x)
{
    free(x->send_n);
    free(x->send);
    free(x->recv);
    *x = (struct exchange){0};
}

static enum status buffer_grow(const int *n, int *at, int ranks, double **buffer, int64_t *capacity,
                               struct err *e)
{
    int64_t total = 0;
    for (int r = 0; r < ranks; r++) {
        at[r] = (int)total;
        total += n[r];
        NEED(total <= INT_MAX, ERR_SHAPE,
             "an exchange of %lld numbers is beyond what MPI counts; use more ranks a group",
             (long long)total);
    }
    if (total <= *capacity) return OK;
    free(*buffer);
    *buffer = NULL;
    *capacity = 0;
    PASS(mem_alloc(buffer, total, sizeof **buffer, "an exchange between ranks", e));
    *capacity = total;
    return OK;
}

enum status exchange_alloc(struct exchange *x, struct err *e)
{
    PASS(buffer_grow(x->send_n, x->send_at, x->ranks, &x->send, &x->send_capacity, e));
    return buffer_grow(x->recv_n, x->recv_at, x->ranks, &x->recv, &x->recv_capacity, e);
}

enum status exchange_run(struct exchange *x, MPI_Comm comm, struct err *e)
{
    NEED(MPI_Alltoallv(x->send, x->send_n, x->send_at, MPI_DOUBLE, x->recv, x->recv_n, x->recv_at,
                       MPI_DOUBLE, comm) == MPI_SUCCESS,
         ERR_MPI, "MPI_Alltoallv failed");
    return OK;
}
