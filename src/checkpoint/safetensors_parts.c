#include "checkpoint/safetensors_parts.h"
#include "util/agree.h"
#include "util/mem.h"
#include "util/num.h"

enum { PIECE = 1 << 20 };

enum status safetensors_append_parts(MPI_Comm comm, const float *part, int64_t n,
                                     struct safetensors_out *o, struct err *e)
{
    enum status st = OK;
    AUTO_FREE float *piece = NULL;
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (rank == 0) st = mem_alloc(&piece, PIECE, sizeof *piece, "a piece of a vector", e);
    PASS(err_agree(comm, st, e));
    for (int r = 0; r < size; r++) {
        if (rank != 0 && rank != r) continue;
        if (r > 0 && rank == r) MPI_Send(&n, 1, MPI_INT64_T, 0, 0, comm);
        if (r > 0 && rank == 0) MPI_Recv(&n, 1, MPI_INT64_T, r, 0, comm, MPI_STATUS_IGNORE);
        for (int64_t a = 0; a < n; a += PIECE) {
            const int count = (int)min64(n - a, PIECE);
            if (r > 0 && rank == r) MPI_Send(part + a, count, MPI_FLOAT, 0, 0, comm);
            if (rank > 0) continue;
            if (r > 0) MPI_Recv(piece, count, MPI_FLOAT, r, 0, comm, MPI_STATUS_IGNORE);
            if (st == OK) st = safetensors_append(o, r > 0 ? piece : part + a, count, e);
        }
    }
    return err_agree(comm, st, e);
}
