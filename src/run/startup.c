#include "run/startup.h"
#include "sched/link.h"
#include "sched/link_socket.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/thread.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

static atomic_bool over;
static int late; /* the exit code of ranks that have not met */
static double begun, took;
static int launch = -1; /* connected to `qtraj launch` */

double startup_limit(int64_t ranks)
{
    const double usual = 120, a_rank = 0.1;
    const char *given = getenv("QTRAJ_MEET");
    const double seconds = given ? strtod(given, NULL) : 0;
    return seconds > 0 ? seconds : usual + a_rank * (double)ranks;
}

int64_t startup_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i])) return atoll(getenv(names[i]));
    return -1;
}

bool startup_is_first_here(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    return rank ? atoi(rank) == 0 : startup_rank() <= 0;
}

enum status startup_room(bool mpirun, struct err *e)
{
    enum { ROOM = 16 * 1024 * 1024 };
    static const char *const names[] = {"OMPI_MCA_orte_tmpdir_base", "TMPDIR", "TEMP", "TMP"};
    const char *folder = "/tmp";
    AUTO_FREE char *path = NULL;
    CLEANUP(fsx_close) int fd = -1;
    for (size_t i = sizeof names / sizeof *names; i-- > 0;)
        if (getenv(names[i])) folder = getenv(names[i]);
    PASS(mem_format(&path, e, "%s/qtraj-XXXXXX", folder));
    fd = mkstemp(path);
    NEED(fd >= 0, ERR_IO,
         "TMPDIR: %s: no file can be made there (%s), and Open MPI needs some: name a folder that "
         "exists, on a local disk",
         folder, strerror(errno));
    unlink(path);
    const int failed = mpirun ? posix_fallocate(fd, 0, ROOM) : 0;
    NEED(!failed, ERR_FULL,
         "TMPDIR: %s: less than 16 MiB of room (%s), and Open MPI needs some: name a folder with "
         "room, on a local disk",
         folder, strerror(failed));
    return OK;
}

/* --- the clock --- */

/* Whether rank 0 has spawned this process to replace a lost one. It meets rank 0 alone, which
 * counts it as lost if it does not come; the others go on. */
static bool replaces(void)
{
    return getenv("OMPI_PARENT_PORT");
}

/* Time in which this process was stopped counts little. One rank speaks for all: the first that can
 * has mpirun end the others. */
static void *wait_for_ranks(void *unused)
{
    enum { TURNS = 10 };
    const char *ranks = getenv("OMPI_COMM_WORLD_SIZE");
    const double turn = 2, limit = startup_limit(ranks ? atoll(ranks) : 1);
    const int64_t rank = startup_rank();
    const double end = limit + turn * (double)(rank < TURNS ? rank : TURNS);
    struct clock_running clock = {0};
    (void)unused;
    while (clock_running(&clock) < end) {
        clock_sleep(0.1);
        if (over) return NULL;
    }
    if (!atomic_exchange(&over, true)) {
        /* With recovery, mpirun would wait for a stopped rank. */
        log_error(
            "the ranks have not connected within %.0f s: one has died or is stopped, or MPI "
            "has not connected all of them, perhaps for lack of memory (ulimit -v) or of room in "
            "/dev/shm or TMPDIR; QTRAJ_MEET=SECONDS gives them longer",
            limit);
        if (link_recovers() && !replaces()) kill(getppid(), SIGTERM);
        _exit(late);
    }
    return NULL;
}

/* `qtraj launch` notices when this process is stopped, or its host gone. */
static void *beat(void *unused)
{
    const char byte = STARTUP_BEAT;
    const bool first = startup_rank() == 0;
    (void)unused;
    while ((first || !over) &&
           (send(launch, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 || errno == EAGAIN))
        clock_sleep(0.5);
    return NULL;
}

/* --- */

static void say(const char *what, size_t n)
{
    if (launch >= 0 && send(launch, what, n, MSG_NOSIGNAL) != (ssize_t)n)
        log_trace("link", "qtraj launch is gone");
}

void startup_begin(bool meets, int code)
{
    const double patience = 10;
    const char *address = getenv(STARTUP_LAUNCH);
    begun = clock_seconds();
    late = code;
    if (!meets || startup_rank() < 0) return;
    if (address && !replaces()) launch = link_socket_connect(address, 1 + startup_rank(), patience);
    if (!thread_start(launch < 0 ? wait_for_ranks : beat, NULL, NULL))
        log_trace("sched", "no thread checks whether the ranks connect");
}

void startup_end(void)
{
    if (atomic_exchange(&over, true)) return;
    took = clock_seconds() - begun;
    say((const char[]){STARTUP_MET}, 1);
    if (launch < 0 && startup_rank() == 0 && !replaces()) {
        /* Planning, which follows, may take longer than the ranks have to meet. */
        const char *path = getenv(STARTUP_FILE);
        const int fd = path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
        if (fd >= 0) close(fd);
    }
}

void startup_tell(int code)
{
    say((const char[]){STARTUP_ENDS, (char)code}, 2);
}

double startup_seconds(void)
{
    return took;
}
