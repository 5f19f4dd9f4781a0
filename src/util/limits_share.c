/* Divides a node's memory and cores among the ranks that work there. */
#include "util/agree.h"
#include "util/comm.h"
#include "util/limits.h"
#include "util/mem.h"

/* Information that the ranks of a node exchange. */
struct card {
    int64_t works;
    struct cpu_set cpus;
};

/* CPUs of the mask, each divided by the number of working ranks that may run on it. */
static double fair_part(const struct card *cards, int n, const struct card *mine, bool *bound)
{
    double part = 0;
    *bound = true;
    for (int64_t cpu = 0; cpu < LIMITS_CPUS; cpu++) {
        int64_t word = cpu / LIMITS_WORD, sharers = 0;
        uint64_t bit = UINT64_C(1) << cpu % LIMITS_WORD;
        if (!(mine->cpus.bits[word] & bit)) continue;
        for (int i = 0; i < n; i++) sharers += cards[i].works && cards[i].cpus.bits[word] & bit;
        if (sharers > 1) *bound = false;
        part += 1.0 / (double)(sharers > 0 ? sharers : 1);
    }
    return part;
}

enum status limits_share(MPI_Comm comm, const struct limits *l, bool works,
                         struct limits_share *out, struct err *e)
{
    CLEANUP(comm_free) MPI_Comm node = MPI_COMM_NULL;
    struct card mine = {.works = works, .cpus = l->cpus};
    AUTO_FREE struct card *cards = NULL;
    PASS(comm_of_node(comm, &node, e));
    const int n = comm_size(node);
    /* Collective: a rank without memory for the cards must take part too. */
    PASS(err_agree(node, mem_alloc(&cards, n, sizeof *cards, "ranks of the node", e), e));
    NEED(MPI_Allgather(&mine, (int)sizeof mine, MPI_BYTE, cards, (int)sizeof mine, MPI_BYTE,
                       node) == MPI_SUCCESS,
         ERR_MPI, "MPI_Allgather failed");
    *out = (struct limits_share){.ranks = n};
    for (int i = 0; i < n; i++) out->workers += cards[i].works;
    int64_t parts = out->workers > 0 ? out->workers : 1;
    double part = fair_part(cards, n, &mine, &out->bound), most = (double)l->cores / (double)parts;
    if (part > most) part = most;
    out->cores = mine.works && part >= 1 ? (int64_t)(part + 1e-6) : 1;
    out->memory = l->memory / parts;
    if (out->memory > l->process_memory) out->memory = l->process_memory;
    return OK;
}
