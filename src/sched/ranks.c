#include "sched/ranks.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/mem.h"
#include <unistd.h>

/* A communicator whose ranks have the slots from `first` on. */
struct ranks_comm {
    MPI_Comm comm;
    int first, n;
};

struct sent {
    MPI_Request request;
    int rank, comm;
    char *text;
};

enum status ranks_open(struct ranks *s, MPI_Comm world, struct link *link, struct err *e)
{
    MPI_Comm_size(world, &s->n);
    s->link = link;
    PASS(mem_zero(&s->rank, s->n, sizeof *s->rank, "ranks", e));
    for (int i = 0; i < s->n; i++) s->rank[i] = (struct rank){.peer = i, .link = i, .leader = 1};
    s->rank[0].leader = 0;
    PASS(mem_grow(&s->comms, 0, &s->comms_capacity, sizeof *s->comms, e));
    s->comms[s->n_comms++] = (struct ranks_comm){.comm = world, .n = s->n};
    return OK;
}

/* From here to end_calls, calls of MPI may take some time and no more. */
static void begin_calls(const struct ranks *s)
{
    if (s->link) link_alarm(s->link, patience_limit(), "a call of MPI on rank 0 does not return");
}

static void end_calls(const struct ranks *s)
{
    if (s->link) link_alarm(s->link, 0, NULL);
}

/* --- sending --- */

static void test_sent(struct ranks *s)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < s->n_sent; i++) {
        struct sent *one = &s->sent[i];
        int finished = 0;
        MPI_Test(&one->request, &finished, MPI_STATUS_IGNORE);
        if (finished)
            free(one->text);
        else if (one->comm == s->rank[one->rank].comm && !s->rank[one->rank].gone)
            s->sent[kept++] = *one;
        else
            MPI_Request_free(&one->request); /* its text may still be read, and stays */
    }
    s->n_sent = kept;
}

enum status ranks_send(struct ranks *s, int rank, int tag, const char *text, struct err *e)
{
    for (size_t n = SCHED_CHUNK; n == SCHED_CHUNK; text += n) {
        n = strnlen(text, SCHED_CHUNK);
        const struct rank *to = &s->rank[rank];
        struct sent one = {.rank = rank, .comm = to->comm};
        PASS(mem_grow(&s->sent, s->n_sent, &s->sent_capacity, sizeof *s->sent, e));
        PASS(mem_alloc(&one.text, SCHED_CHUNK, 1, "a message", e));
        memcpy(one.text, text, n);
        s->sent[s->n_sent++] = one;
        begin_calls(s);
        const int code = MPI_Isend(one.text, (int)n, MPI_CHAR, to->peer, tag,
                                   s->comms[to->comm].comm, &s->sent[s->n_sent - 1].request);
        end_calls(s);
        NEED(code == MPI_SUCCESS, ERR_MPI, "MPI_Isend to rank %d failed", rank);
    }
    return OK;
}

void ranks_close(struct ranks *s)
{
    const double end = clock_seconds() + 1;
    for (long pause = 0; s->n_sent > 0 && clock_seconds() < end;) {
        begin_calls(s);
        test_sent(s);
        end_calls(s);
        if (s->n_sent > 0) patience_pause(&pause);
    }
    for (int i = 0; i < s->n; i++) free(s->rank[i].arrival.text);
    free(s->sent);
    free(s->comms);
    free(s->rank);
}

/* --- receiving --- */

/* Messages of the communicators in turn. */
static bool probe(struct ranks *s, int64_t *comm, MPI_Status *probed)
{
    const int64_t first = s->next;
    for (int64_t i = 0; i < s->n_comms; i++) {
        int there = 0;
        *comm = (first + i) % s->n_comms;
        if (s->comms[*comm].comm == MPI_COMM_NULL) continue;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, s->comms[*comm].comm, &there, probed);
        s->next = *comm + 1;
        if (there) return true;
    }
    return false;
}

static enum status receive_chunk(struct ranks *s, int64_t comm, const MPI_Status *probed,
                                 struct ranks_message *m, bool *there, struct err *e)
{
    const struct ranks_comm *c = &s->comms[comm];
    *m = (struct ranks_message){.rank = c->first + probed->MPI_SOURCE, .tag = probed->MPI_TAG};
    struct rank *from = &s->rank[m->rank];
    struct sched_arrival strange = {0};
    bool whole;
    if (!from->gone && from->comm == (int)comm) {
        PASS(sched_chunk(c->comm, probed, &from->arrival, &whole, e));
        if (!whole) return OK;
        m->text = from->arrival.text;
        from->arrival = (struct sched_arrival){0};
        *there = true;
        return OK;
    }
    PASS(sched_chunk(c->comm, probed, &strange, &whole, e));
    free(strange.text);
    if (whole)
        log_trace("sched", "a message of rank %d, which is written off, is dropped%s", m->rank,
                  m->tag == TAG_RESULT ? ": a result" : "");
    return OK;
}

enum status ranks_receive(struct ranks *s, struct ranks_message *m, bool *there, struct err *e)
{
    enum status st = OK;
    MPI_Status probed;
    int64_t comm;
    *there = false;
    begin_calls(s);
    test_sent(s);
    while (st == OK && !*there && probe(s, &comm, &probed))
        st = receive_chunk(s, comm, &probed, m, there, e);
    end_calls(s);
    return st;
}

/* --- groups --- */

int ranks_group(const struct ranks *s, int leader)
{
    int n = 0;
    for (int i = leader; i < s->n && s->rank[i].leader == leader; i++) n++;
    return n;
}

void ranks_split(struct ranks *s, int leader, int64_t class, bool rest)
{
    const struct sched_split split = {class, rest};
    const int size = ranks_group(s, leader);
    int64_t color = -1;
    for (int i = 0, last = leader; i < size; i++) {
        const int64_t own = sched_split_color(&split, size, i);
        if (own != color) last = leader + i;
        color = own;
        s->rank[leader + i].leader = last;
    }
}

void ranks_lose(struct ranks *s, int leader)
{
    const int size = ranks_group(s, leader);
    for (int i = leader; i < leader + size; i++) {
        s->rank[i].gone = true;
        free(s->rank[i].arrival.text);
        s->rank[i].arrival = (struct sched_arrival){0};
        if (s->link) link_dismiss(s->link, s->rank[i].link);
    }
    for (int64_t c = 1; c < s->n_comms; c++) { /* none of its ranks is left: nobody listens */
        int living = 0;
        for (int i = 0; i < s->comms[c].n; i++) {
            const struct rank *rank = &s->rank[s->comms[c].first + i];
            living += rank->comm == c && !rank->gone;
        }
        if (!living) s->comms[c].comm = MPI_COMM_NULL;
    }
}

enum status ranks_replace(struct ranks *s, int leader, char **argv, const char **terms,
                          struct err *e)
{
    const int n = ranks_group(s, leader);
    struct ranks_comm c = {.first = leader, .n = n};
    int64_t first;
    PASS(mem_grow(&s->comms, s->n_comms, &s->comms_capacity, sizeof *s->comms, e));
    PASS(link_expect(s->link, n, &first, e));
    /* A group of n new processes. If one of them dies on the way, MPI waits for it for minutes. */
    char self[4096];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    NEED(length > 0, ERR_MPI, "this program's file cannot be found");
    self[length] = '\0';
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    link_alarm(s->link, patience_limit() / 2,
               "a lost rank cannot be replaced: MPI_Comm_spawn hangs");
    const int code = MPI_Comm_spawn(self, argv + 1, n, MPI_INFO_NULL, 0, MPI_COMM_SELF, &c.comm,
                                    MPI_ERRCODES_IGNORE);
    link_alarm(s->link, 0, NULL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    NEED(code == MPI_SUCCESS, ERR_MPI, "MPI_Comm_spawn failed");
    for (int i = 0; i < n; i++)
        s->rank[leader + i] =
            (struct rank){.comm = (int)s->n_comms, .peer = i, .link = first + i, .leader = leader};
    s->comms[s->n_comms++] = c;
    /* What each new process needs to find its rank. */
    AUTO_FREE char *text = NULL;
    for (int i = 0; i < n; i++) {
        PASS(mem_format(&text, e, "%lld\n%s\n%s", (long long)s->rank[leader + i].link,
                        link_address(s->link), terms[i]));
        PASS(ranks_send(s, leader + i, TAG_TERMS, text, e));
        mem_drop(&text);
    }
    return OK;
}
