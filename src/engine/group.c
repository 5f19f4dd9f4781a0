#include "engine/group.h"
#include "util/agree.h"
#include "util/bulk.h"
#include "util/mem.h"
#include <errno.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum status group_agree(const struct visit_group *g, enum status st, struct err *e)
{
    return g->size > 1 ? err_agree(g->comm, st, e) : st;
}

int64_t group_max(const struct visit_group *g, int64_t value)
{
    int64_t maximum = value;
    if (g->size > 1) MPI_Allreduce(&value, &maximum, 1, MPI_INT64_T, MPI_MAX, g->comm);
    return maximum;
}

/* Finds which ranks share a node. */
static enum status nodes_find(struct visit_group *g, struct err *e)
{
    PASS(group_agree(g, mem_zero(&g->node_of, g->size, sizeof *g->node_of, "ranks", e), e));
    NEED(MPI_Comm_split_type(g->comm, MPI_COMM_TYPE_SHARED, g->rank, MPI_INFO_NULL, &g->node) ==
             MPI_SUCCESS,
         ERR_MPI, "MPI_Comm_split_type failed");
    MPI_Comm_rank(g->node, &g->node_rank);
    MPI_Comm_size(g->node, &g->node_size);
    MPI_Comm_set_errhandler(g->node, MPI_ERRORS_RETURN);
    NEED(MPI_Comm_split(g->comm, g->node_rank == 0 ? 0 : MPI_UNDEFINED, g->rank, &g->leaders) ==
             MPI_SUCCESS,
         ERR_MPI, "MPI_Comm_split failed");
    int place[2] = {0, 0};
    if (g->leaders != MPI_COMM_NULL) {
        MPI_Comm_rank(g->leaders, &place[0]);
        MPI_Comm_size(g->leaders, &place[1]);
    }
    MPI_Bcast(place, 2, MPI_INT, 0, g->node);
    g->nodes = place[1];
    MPI_Allgather(place, 1, MPI_INT, g->node_of, 1, MPI_INT, g->comm);
    return OK;
}

enum status group_open(MPI_Comm comm, struct visit_group *g, struct err *e)
{
    *g = (struct visit_group){
        .comm = comm, .node = MPI_COMM_NULL, .leaders = MPI_COMM_NULL, .node_size = 1, .nodes = 1};
    MPI_Comm_rank(comm, &g->rank);
    MPI_Comm_size(comm, &g->size);
    g->team = (struct quant_team){comm, g->rank, g->size};
    return g->size > 1 ? nodes_find(g, e) : OK;
}

void group_close(struct visit_group *g)
{
    if (g->size > 1 && g->node != MPI_COMM_NULL) MPI_Comm_free(&g->node);
    if (g->size > 1 && g->leaders != MPI_COMM_NULL) MPI_Comm_free(&g->leaders);
    free(g->node_of);
    *g = (struct visit_group){.node = MPI_COMM_NULL, .leaders = MPI_COMM_NULL};
}

/* The folder in which MPI allocates shared memory. */
static const char *shared_folder(void)
{
    const char *named = getenv("OMPI_MCA_osc_sm_backing_directory");
    return named && named[0] ? named : "/dev/shm";
}

static enum status no_space(const char *what, int64_t bytes, struct err *e)
{
    return err_set(
        e, ERR_NOMEM, __FILE__, __LINE__,
        "%s: the ranks of this node cannot share %.1f MB, there is not enough space in %s: make "
        "it larger (in containers --shm-size), or use fewer ranks per visit "
        "(run.ranks_per_group)",
        what, (double)bytes / 1e6, shared_folder());
}

/* Checks before MPI does, which hangs if only one rank finds too little shared memory. */
static enum status window_check(const struct visit_group *g, int64_t bytes, const char *what,
                                struct err *e)
{
    enum { BESIDE = 1 << 16 }; /* for MPI itself */
    struct statvfs s;
    if (g->node_rank != 0 || statvfs(shared_folder(), &s) != 0 || s.f_blocks == 0) return OK;
    if ((double)s.f_bavail * (double)s.f_frsize >= (double)bytes + BESIDE) return OK;
    return no_space(what, bytes, e);
}

/* Rank 0 of the node allocates all of it, so that it is contiguous. */
static enum status window_open(const struct visit_group *g, int64_t bytes, const char *what,
                               struct group_memory *m, struct err *e)
{
    MPI_Aint own = g->node_rank == 0 ? (MPI_Aint)bytes : 0, size;
    int unit;
    if (MPI_Win_allocate_shared(own, sizeof(float), MPI_INFO_NULL, g->node, &m->at, &m->window) !=
        MPI_SUCCESS)
        PASS(no_space(what, bytes, e));
    m->shared = true;
    MPI_Win_shared_query(m->window, 0, &size, &unit, &m->at);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, m->window);
    return OK;
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* Shared memory is allocated when it is first touched, and the process dies if none is left.
 * Populating it in advance returns an error instead (EINVAL: the kernel is too old). Done in
 * pieces, so that it does not count as this rank's resident memory. */
static enum status window_populate(const struct visit_group *g, int64_t bytes, const char *what,
                                   const struct group_memory *m, struct err *e)
{
    enum { PIECE = 64 << 20 };
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)m->at / page * page;
    uintptr_t end = (uintptr_t)m->at + (uintptr_t)bytes;
    for (; g->node_rank == 0 && at < end; at += PIECE) {
        size_t n = end - at < PIECE ? end - at : PIECE;
        if (madvise((void *)at, n, MADV_POPULATE_WRITE) == 0)
            madvise((void *)at, n, MADV_DONTNEED);
        else if (errno == EFAULT || errno == ENOMEM)
            return no_space(what, bytes, e);
    }
    return OK;
}

enum status group_memory_open(const struct visit_group *g, int64_t n, const char *what,
                              struct group_memory *m, struct err *e)
{
    enum status st = OK;
    bool shares =
        g->node_size > 1; /* may differ between nodes; all ranks make the same collective calls */
    int64_t bytes = n * (int64_t)sizeof(float);
    *m = (struct group_memory){0};
    st = shares ? window_check(g, bytes, what, e) : mem_alloc(&m->at, n, sizeof *m->at, what, e);
    PASS(group_agree(g, st, e));
    st = shares ? window_open(g, bytes, what, m, e) : OK;
    PASS(group_agree(g, st, e));
    st = shares ? window_populate(g, bytes, what, m, e) : OK;
    return group_agree(g, st, e);
}

void group_memory_sync(const struct visit_group *g, const struct group_memory *m)
{
    if (!m->shared) return;
    MPI_Win_sync(m->window);
    MPI_Barrier(g->node);
    MPI_Win_sync(m->window);
}

void group_memory_close(struct group_memory *m)
{
    if (m->shared) {
        MPI_Win_unlock_all(m->window);
        MPI_Win_free(&m->window);
    } else {
        free(m->at);
    }
    *m = (struct group_memory){0};
}

void group_pages_forget(const struct visit_group *g, const float *p, int64_t n)
{
    if (g->node_size < 2) return; /* private memory would be lost */
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)p + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)p + (uintptr_t)n * sizeof *p) / page * page;
    if (end > first) madvise((void *)first, end - first, MADV_DONTNEED);
}

enum status group_rows(const struct visit_group *g, const struct group_memory *m, float *q,
                       int64_t rows, int64_t cols, struct err *e)
{
    enum status st = OK;
    if (g->size == 1) return OK;
    group_memory_sync(g, m);
    for (int r = 0; g->leaders != MPI_COMM_NULL && g->nodes > 1 && r < g->size; r++) {
        int64_t first, end;
        team_rows(&g->team, r, rows, &first, &end);
        st = bulk_bcast(g->leaders, g->node_of[r], q + first * cols,
                        (end - first) * cols * (int64_t)sizeof *q, e);
        if (st != OK) break;
    }
    PASS(group_agree(g, st, e));
    group_memory_sync(g, m);
    return OK;
}

/* First sequence of rank r: the first whose middle is beyond r / size of the tokens. */
static int64_t first_of(const struct visit_group *g, const struct sequences *s, int r)
{
    int64_t total = s->offset[s->n], i = 0;
    if (r == g->size) return s->n;
    while (i < s->n && (s->offset[i] + s->offset[i + 1]) * g->size < 2 * total * r) i++;
    return i;
}

/* The segments of the sequences [a, b). */
static enum status copy_segments(const struct sequences *s, int64_t a, int64_t b,
                                 struct sequences *copy, struct err *e)
{
    const int64_t first = s->first_segment[a], n = s->first_segment[b] - first;
    PASS(mem_alloc(&copy->segments, n, sizeof *copy->segments, "segments", e));
    PASS(mem_alloc(&copy->first_segment, b - a + 1, sizeof *copy->first_segment, "segments", e));
    memcpy(copy->segments, s->segments + first, (size_t)n * sizeof *copy->segments);
    for (int64_t i = 0; i <= b - a; i++) copy->first_segment[i] = s->first_segment[a + i] - first;
    return OK;
}

enum status group_sequences(const struct visit_group *g, const struct sequences *s,
                            struct sequences *copy, const struct sequences **out, int64_t *first,
                            struct err *e)
{
    *first = 0;
    *out = s;
    if (g->size == 1 || !s) return OK;
    int64_t a = first_of(g, s, g->rank), b = first_of(g, s, g->rank + 1), row = s->offset[a];
    int64_t tokens = s->offset[b] - row;
    PASS(sequences_init(copy, b - a, tokens, s->bytes != NULL, e));
    memcpy(copy->ids, s->ids + row, (size_t)tokens * sizeof *s->ids);
    if (s->bytes) memcpy(copy->bytes, s->bytes + row, (size_t)tokens * sizeof *s->bytes);
    for (int64_t i = 0; i <= b - a; i++) copy->offset[i] = s->offset[a + i] - row;
    if (s->valid) {
        PASS(mem_alloc(&copy->valid, b - a, sizeof *copy->valid, "lengths of sequences", e));
        memcpy(copy->valid, s->valid + a, (size_t)(b - a) * sizeof *copy->valid);
    }
    if (s->segments) PASS(copy_segments(s, a, b, copy, e));
    *first = a;
    *out = copy;
    return OK;
}

enum status group_gather(const struct visit_group *g, const struct sequences *s,
                         const int64_t *first, int64_t width, double *numbers, struct err *e)
{
    AUTO_FREE int *counts = NULL;
    if (g->size == 1) return OK;
    enum status st = mem_alloc(&counts, 2 * (int64_t)g->size, sizeof *counts, "counts of ranks", e);
    PASS(group_agree(g, st, e));
    int *offsets = counts + g->size;
    for (int r = 0; r < g->size; r++) {
        const int64_t a = first_of(g, s, r), b = first_of(g, s, r + 1);
        offsets[r] = (int)((first ? first[a] : a) * width);
        counts[r] = (int)((first ? first[b] : b) * width - offsets[r]);
    }
    NEED(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, numbers, counts, offsets, MPI_DOUBLE,
                        g->comm) == MPI_SUCCESS,
         ERR_MPI, "MPI_Allgatherv failed");
    return OK;
}
