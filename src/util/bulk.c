#include "util/bulk.h"
#include "util/comm.h"
#include <string.h>

/* Numbers that are summed at a time; SUM_FEW or fewer are summed on the root. */
enum { SUM_CHUNK = 1 << 19, SUM_FEW = 1 << 10 };

enum status bulk_bcast(MPI_Comm comm, int root, void *data, int64_t bytes, struct err *e)
{
    char *at = data;
    for (int64_t done = 0; done < bytes; done += BULK_BYTES) {
        int64_t n = bytes - done < BULK_BYTES ? bytes - done : BULK_BYTES;
        NEED(MPI_Bcast(at + done, (int)n, MPI_BYTE, root, comm) == MPI_SUCCESS, ERR_MPI,
             "MPI_Bcast of %lld bytes failed", (long long)n);
    }
    return OK;
}

int64_t bulk_sum_buffer(int64_t ranks)
{
    int64_t few = ranks * (ranks > SUM_FEW ? ranks : SUM_FEW);
    return few > SUM_CHUNK ? few : SUM_CHUNK;
}

/* The first of `ranks` consecutive pieces of n numbers becomes their sum, in the order of ranks. */
static void add_pieces(char *buffer, int n, int ranks, MPI_Datatype type)
{
    int size;
    MPI_Type_size(type, &size);
    for (int64_t r = 1; r < ranks; r++)
        MPI_Reduce_local(buffer + r * n * size, buffer, n, type, MPI_SUM);
}

/* The root sums everything. */
static enum status sum_few(MPI_Comm comm, int root, void *data, int n, MPI_Datatype type,
                           void *buffer, struct err *e)
{
    const int rank = comm_rank(comm), ranks = comm_size(comm);
    int size;
    MPI_Type_size(type, &size);
    NEED(MPI_Gather(data, n, type, buffer, n, type, root, comm) == MPI_SUCCESS, ERR_MPI,
         "MPI_Gather of %d numbers failed", n);
    if (rank != root) return OK;
    add_pieces(buffer, n, ranks, type);
    memcpy(data, buffer, (size_t)n * (size_t)size);
    return OK;
}

enum status bulk_sum(MPI_Comm comm, int root, void *data, int64_t n, MPI_Datatype type,
                     void *buffer, struct err *e)
{
    char *at = data;
    const int ranks = comm_size(comm);
    int size;
    MPI_Type_size(type, &size);
    if (ranks == 1) return OK;
    for (int64_t chunk; n > 0; n -= chunk, at += chunk * size) {
        int few = ranks > SUM_FEW ? ranks : SUM_FEW;
        if (n <= few) return sum_few(comm, root, at, (int)n, type, buffer, e);
        chunk = (n < SUM_CHUNK ? n : SUM_CHUNK) / ranks * ranks;
        /* Each rank sums an equal part and sends it to the root. */
        const int part = (int)(chunk / ranks);
        NEED(MPI_Alltoall(at, part, type, buffer, part, type, comm) == MPI_SUCCESS, ERR_MPI,
             "MPI_Alltoall of %d numbers failed", part);
        add_pieces(buffer, part, ranks, type);
        NEED(MPI_Gather(buffer, part, type, at, part, type, root, comm) == MPI_SUCCESS, ERR_MPI,
             "MPI_Gather of %d numbers failed", part);
    }
    return OK;
}
