#include "util/bulk.h"

enum status bulk_bcast(MPI_Comm comm, int root, void *data, int64_t bytes, struct err *e)
{
    enum status st = OK;
    char *at = data;
    for (int64_t done = 0; done < bytes; done += BULK_BYTES) {
        int64_t n = bytes - done < BULK_BYTES ? bytes - done : BULK_BYTES;
        ENSURE(MPI_Bcast(at + done, (int)n, MPI_BYTE, root, comm) == MPI_SUCCESS, ERR_MPI,
               "MPI_Bcast of %lld bytes failed", (long long)n);
    }
done:
    return st;
}
