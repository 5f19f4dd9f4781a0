#include "util/agree.h"
#include "util/patience.h"
#include <limits.h>
#include <string.h>

enum status err_agree(MPI_Comm comm, enum status st, struct err *e)
{
    struct {
        int code;
        char text[sizeof e->text];
    } why = {.code = st};
    int rank, size, first;
    if (MPI_Comm_rank(comm, &rank) || MPI_Comm_size(comm, &size))
        RAISE(ERR_MPI, "bad communicator");
    int mine = st == OK ? INT_MAX : rank;
    if (size == 1) return st;
    MPI_Request request;
    if (MPI_Iallreduce(&mine, &first, 1, MPI_INT, MPI_MIN, comm, &request) ||
        patience_wait(&request))
        RAISE(ERR_MPI, "MPI_Iallreduce failed");
    if (first == INT_MAX) return OK;
    if (rank == first && e) memcpy(why.text, e->text, sizeof why.text);
    if (MPI_Bcast(&why, sizeof why, MPI_BYTE, first, comm)) RAISE(ERR_MPI, "MPI_Bcast failed");
    if (st == (enum status)why.code) return st;
    err_clear(e);
    RAISE((enum status)why.code, "rank %d: %s", first, why.text);
}
