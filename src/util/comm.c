#include "util/comm.h"

enum status comm_of_node(MPI_Comm comm, MPI_Comm *out, struct err *e)
{
    NEED(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, out) == MPI_SUCCESS,
         ERR_MPI, "MPI_Comm_split_type failed");
    return OK;
}

void comm_free(MPI_Comm *comm)
{
    if (*comm != MPI_COMM_NULL) MPI_Comm_free(comm);
}
