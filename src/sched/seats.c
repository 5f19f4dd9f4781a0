#include "sched/seats.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A communicator whose ranks have seats from `first` on. */
struct crew {
    MPI_Comm comm;
    int first, n;
};

struct sent {
    MPI_Request request;
    int seat, crew;
    char *text;
};

enum status seats_open(struct seats *s, MPI_Comm world, struct link *link, struct err *e)
{
    MPI_Comm_size(world, &s->n);
    s->link = link;
    PASS(mem_zero(&s->seat, s->n, sizeof *s->seat, "ranks", e));
    for (int i = 0; i < s->n; i++) s->seat[i] = (struct seat){.peer = i, .link = i, .leader = 1};
    s->seat[0].leader = 0;
    PASS(mem_grow(&s->crews, 0, &s->crews_capacity, sizeof *s->crews, e));
    s->crews[s->n_crews++] = (struct crew){.comm = world, .n = s->n};
    return OK;
}

/* From here to end_calls, calls of MPI may take some time and no more. */
static void begin_calls(const struct seats *s)
{
    if (s->link) link_alarm(s->link, link_patience(), "a call of MPI on rank 0 does not return");
}

static void end_calls(const struct seats *s)
{
    if (s->link) link_alarm(s->link, 0, NULL);
}

/* --- sending --- */

static void tend_sent(struct seats *s)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < s->n_sent; i++) {
        struct sent *one = &s->sent[i];
        int finished = 0;
        MPI_Test(&one->request, &finished, MPI_STATUS_IGNORE);
        if (finished)
            free(one->text);
        else if (one->crew == s->seat[one->seat].crew && !s->seat[one->seat].gone)
            s->sent[kept++] = *one;
        else
            MPI_Request_free(&one->request); /* its text may still be read, and stays */
    }
    s->n_sent = kept;
}

static enum status post_chunk(struct seats *s, int seat, int tag, const char *text, size_t n,
                              struct err *e)
{
    const struct seat *to = &s->seat[seat];
    struct sent one = {.seat = seat, .crew = to->crew};
    PASS(mem_grow(&s->sent, s->n_sent, &s->sent_capacity, sizeof *s->sent, e));
    PASS(mem_alloc(&one.text, SCHED_CHUNK, 1, "a message", e));
    memcpy(one.text, text, n);
    s->sent[s->n_sent++] = one;
    begin_calls(s);
    const int code = MPI_Isend(one.text, (int)n, MPI_CHAR, to->peer, tag, s->crews[to->crew].comm,
                               &s->sent[s->n_sent - 1].request);
    end_calls(s);
    NEED(code == MPI_SUCCESS, ERR_MPI, "MPI_Isend to rank %d failed", seat);
    return OK;
}

enum status seats_post(struct seats *s, int seat, int tag, const char *text, struct err *e)
{
    for (size_t n = SCHED_CHUNK; n == SCHED_CHUNK; text += n) {
        n = strnlen(text, SCHED_CHUNK);
        PASS(post_chunk(s, seat, tag, text, n, e));
    }
    return OK;
}

void seats_close(struct seats *s)
{
    const double end = clock_seconds() + 1;
    for (long pause = 0; s->n_sent > 0 && clock_seconds() < end;) {
        begin_calls(s);
        tend_sent(s);
        end_calls(s);
        if (s->n_sent > 0) patient_pause(&pause);
    }
    for (int i = 0; i < s->n; i++) free(s->seat[i].arrival.text);
    free(s->sent);
    free(s->crews);
    free(s->seat);
}

/* --- receiving --- */

/* Messages of the communicators in turn. */
static bool probe(struct seats *s, int64_t *crew, MPI_Status *probed)
{
    const int64_t first = s->next;
    for (int64_t i = 0; i < s->n_crews; i++) {
        int there = 0;
        *crew = (first + i) % s->n_crews;
        if (s->crews[*crew].comm == MPI_COMM_NULL) continue;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, s->crews[*crew].comm, &there, probed);
        s->next = *crew + 1;
        if (there) return true;
    }
    return false;
}

static enum status take_chunk(struct seats *s, int64_t crew, const MPI_Status *probed,
                              struct seats_message *m, bool *there, struct err *e)
{
    const struct crew *c = &s->crews[crew];
    *m = (struct seats_message){.seat = c->first + probed->MPI_SOURCE, .tag = probed->MPI_TAG};
    struct seat *from = &s->seat[m->seat];
    struct sched_arrival strange = {0};
    bool whole;
    if (!from->gone && from->crew == (int)crew) {
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
        log_trace("sched", "a message of rank %d, which is written off, is dropped%s", m->seat,
                  m->tag == TAG_RESULT ? ": a result" : "");
    return OK;
}

enum status seats_take(struct seats *s, struct seats_message *m, bool *there, struct err *e)
{
    enum status st = OK;
    MPI_Status probed;
    int64_t crew;
    *there = false;
    begin_calls(s);
    tend_sent(s);
    while (st == OK && !*there && probe(s, &crew, &probed))
        st = take_chunk(s, crew, &probed, m, there, e);
    end_calls(s);
    return st;
}

/* --- groups --- */

int seats_group(const struct seats *s, int leader)
{
    int n = 0;
    for (int i = leader; i < s->n && s->seat[i].leader == leader; i++) n++;
    return n;
}

void seats_split(struct seats *s, int leader, int64_t class, bool rest)
{
    const struct sched_split split = {class, rest};
    const int size = seats_group(s, leader);
    int64_t color = -1;
    for (int i = 0, last = leader; i < size; i++) {
        const int64_t own = sched_split_color(&split, size, i);
        if (own != color) last = leader + i;
        color = own;
        s->seat[leader + i].leader = last;
    }
}

void seats_lose(struct seats *s, int leader)
{
    const int size = seats_group(s, leader);
    for (int i = leader; i < leader + size; i++) {
        s->seat[i].gone = true;
        free(s->seat[i].arrival.text);
        s->seat[i].arrival = (struct sched_arrival){0};
        if (s->link) link_dismiss(s->link, s->seat[i].link);
    }
    for (int64_t c = 1; c < s->n_crews; c++) { /* none of its ranks is left: nobody listens */
        int living = 0;
        for (int i = 0; i < s->crews[c].n; i++) {
            const struct seat *seat = &s->seat[s->crews[c].first + i];
            living += seat->crew == c && !seat->gone;
        }
        if (!living) s->crews[c].comm = MPI_COMM_NULL;
    }
}

/* What each new process needs to find its seat. */
static enum status send_terms(struct seats *s, int leader, int n, const char **terms, struct err *e)
{
    enum status st = OK;
    char *text = NULL;
    for (int i = 0; i < n; i++) {
        TRY(mem_format(&text, e, "%lld\n%s\n%s", (long long)s->seat[leader + i].link,
                       link_address(s->link), terms[i]));
        TRY(seats_post(s, leader + i, TAG_TERMS, text, e));
        free(text);
        text = NULL;
    }
done:
    free(text);
    return st;
}

/* A group of n new processes. If one of them dies on the way, MPI waits for it for minutes. */
static enum status spawn(struct seats *s, int n, char **argv, MPI_Comm *out, struct err *e)
{
    char self[4096];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    NEED(length > 0, ERR_MPI, "this program's file cannot be found");
    self[length] = '\0';
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    link_alarm(s->link, link_patience() / 2,
               "a lost rank cannot be replaced: MPI_Comm_spawn hangs");
    const int code = MPI_Comm_spawn(self, argv + 1, n, MPI_INFO_NULL, 0, MPI_COMM_SELF, out,
                                    MPI_ERRCODES_IGNORE);
    link_alarm(s->link, 0, NULL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    NEED(code == MPI_SUCCESS, ERR_MPI, "MPI_Comm_spawn failed");
    return OK;
}

enum status seats_refill(struct seats *s, int leader, char **argv, const char **terms,
                         struct err *e)
{
    const int n = seats_group(s, leader);
    struct crew c = {.first = leader, .n = n};
    int64_t first;
    PASS(mem_grow(&s->crews, s->n_crews, &s->crews_capacity, sizeof *s->crews, e));
    PASS(link_expect(s->link, n, &first, e));
    PASS(spawn(s, n, argv, &c.comm, e));
    for (int i = 0; i < n; i++)
        s->seat[leader + i] =
            (struct seat){.crew = (int)s->n_crews, .peer = i, .link = first + i, .leader = leader};
    s->crews[s->n_crews++] = c;
    return send_terms(s, leader, n, terms, e);
}
