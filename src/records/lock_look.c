/* Looking at a lock. */
#include "records/holder.h"
#include "records/lock.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct lock_holder lock_look(const char *journal)
{
    struct lock_holder out = {0};
    AUTO_FREE char *resolved = NULL, *path = NULL;
    json_auto_t *holder = NULL, *self = NULL;
    struct stat file;
    struct timespec now;
    if (fsx_resolve(journal, &resolved, NULL) != OK ||
        mem_format(&path, NULL, "%s.lock", resolved) != OK || stat(path, &file) != 0)
        return out;
    const enum status read = json_read_file(path, 1 << 16, &holder, NULL);
    if (read != OK && access(path, F_OK) != 0) return out; /* it was released just now */
    self = holder_self();
    clock_gettime(CLOCK_REALTIME, &now);
    const double age = (double)(now.tv_sec - file.st_mtim.tv_sec) +
                       1e-9 * (double)(now.tv_nsec - file.st_mtim.tv_nsec);
    const enum holder_state state = holder_look(holder, self, age);
    out.certain = state == HOLDER_RUNS;
    out.ending = out.certain && holder_is_ending(holder);
    out.renewed = age < holder_lease(holder);
    out.held = out.certain || (state == HOLDER_UNKNOWN && out.renewed);
    out.pid = json_int(holder, "pid");
    snprintf(out.host, sizeof out.host, "%s", json_text(holder, "host", "unknown"));
    snprintf(out.utc, sizeof out.utc, "%s", json_text(holder, "utc", "unknown"));
    return out;
}

enum status lock_check_free(const char *journal, struct err *e)
{
    const double moment = 0.25, end = clock_seconds() + moment;
    struct lock_holder h;
    for (;;) {
        h = lock_look(journal);
        if (!h.certain || h.ending || !h.renewed) return OK;
        if (clock_seconds() > end) break;
        clock_sleep(0.05);
    }
    RAISE(ERR_LOCKED,
          "another run writes these results: %s.lock is held by process %lld on host %s since %s; "
          "wait until it has ended, or stop it",
          journal, (long long)h.pid, h.host, h.utc);
}
