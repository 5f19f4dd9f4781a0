/* arrivals: which ranks of a run have come, and how it ended, by what they tell `qtraj launch`
 * (startup.h). Only who knows the secret in their environment can tell it anything. */
#pragma once
#include "util/err.h"

struct arrivals;

/* Listens for so many ranks, and sets STARTUP_LAUNCH in the environment; on the loopback address if
 * all will be `here`, on this host. The caller closes *out. ERR_IO: it cannot; ERR_NOMEM. */
MUST_USE enum status arrivals_open(int64_t ranks, bool here, struct arrivals **out, struct err *e);
/* NULL: nothing. */
void arrivals_close(struct arrivals *a);
CLEANUP_BY_VALUE(struct arrivals, arrivals_close);

struct arrivals_view {
    bool met;      /* rank 0 has met all others */
    int verdict;   /* the code that rank 0 has sent; -1: none */
    bool gone;     /* rank 0 has ended */
    int64_t ended; /* a rank that has ended before all had met; -1: none */
    double run;    /* seconds for which this process has run since arrivals_open */
    double silent; /* those since rank 0 was heard of; 0: it has not come, or is gone */
};
/* Takes in what has come, without waiting. To be called every second. */
struct arrivals_view arrivals_look(struct arrivals *a);
/* Who is silent for so many seconds of running time is stopped, or its host is gone. */
enum { ARRIVALS_SILENT = 3 };
/* Says which ranks have not come, and which have but are silent or wait. text (n bytes). */
void arrivals_describe(const struct arrivals *a, char *text, size_t n);
/* "rank 3 (HOST, process 123)". text (n bytes). */
void arrivals_name(const struct arrivals *a, int64_t rank, char *text, size_t n);
