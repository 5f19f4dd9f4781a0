#include "util/agree.h"
#include "util/patient.h"
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
        return err_set(e, ERR_MPI, __FILE__, __LINE__, "bad communicator");
    int mine = st == OK ? INT_MAX : rank;
    if (size == 1) return st;
    MPI_Request request;
    if (MPI_Iallreduce(&mine, &first, 1, MPI_INT, MPI_MIN, comm, &request) ||
        patient_wait(&request))
        return err_set(e, ERR_MPI, __FILE__, __LINE__, "MPI_Iallreduce failed");
    if (first == INT_MAX) return OK;
    if (rank == first && e) memcpy(why.text, e->text, sizeof why.text);
    if (MPI_Bcast(&why, sizeof why, MPI_BYTE, first, comm))
        return err_set(e, ERR_MPI, __FILE__, __LINE__, "MPI_Bcast failed");
    if (st == (enum status)why.code) return st;
    err_clear(e);
    return err_set(e, (enum status)why.code, __FILE__, __LINE__, "rank %d: %s", first, why.text);
}
