#include "util/temporary.h"
#include "util/mem.h"
#include "util/process.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <regex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

/* A name in use. Entries are used again and never freed, so that a signal handler may read them. */
struct entry {
    struct entry *next;
    atomic_bool taken, complete; /* complete: the name is written */
    char name[PATH_MAX];
};

static _Atomic(struct entry *) entries;

static void enter(const char *name)
{
    struct entry *i = atomic_load(&entries);
    if (strlen(name) >= sizeof i->name) return; /* no file can have it */
    for (bool no = false; i && !atomic_compare_exchange_strong(&i->taken, &no, true); no = false)
        i = i->next;
    if (!i) {
        i = calloc(1, sizeof *i);
        if (!i) return;
        atomic_store(&i->taken, true);
        i->next = atomic_load(&entries);
        while (!atomic_compare_exchange_weak(&entries, &i->next, i)) continue;
    }
    snprintf(i->name, sizeof i->name, "%s", name);
    atomic_store(&i->complete, true);
}

/* The host's name, cut so that a name of a file has room for it. */
static void host_name(char host[25])
{
    if (gethostname(host, 25) != 0) host[0] = '\0';
    host[24] = '\0';
    for (char *c = host; *c; c++)
        if (*c == '/') *c = '-';
}

enum status temporary_begin(const char *path, char **out, struct err *e)
{
    char host[25];
    uint32_t number;
    host_name(host);
    NEED(getrandom(&number, sizeof number, 0) == (ssize_t)sizeof number, ERR_IO,
         "%s: no random number for a temporary name: %s", path, strerror(errno));
    const long pid = (long)getpid();
    const long long start = process_start(pid) > 0 ? process_start(pid) : 0;
    PASS(mem_format(out, e, "%s.tmp.%s.%ld-%lld.%08x", path, host, pid, start, number));
    temporary_remove_left(path, TEMPORARY_DEAD);
    enter(*out);
    return OK;
}

void temporary_remove(const char *path)
{
    if (unlink(path) != 0 && errno == EISDIR) {
        /* A folder and the files in it; folders within it stay. readdir is not async-signal-safe.
         */
        _Alignas(struct dirent64) char found[4096];
        const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (ssize_t n; fd >= 0 && (n = getdents64(fd, found, sizeof found)) > 0;)
            for (const char *at = found; at < found + n;) {
                const struct dirent64 *d = (const void *)at;
                unlinkat(fd, d->d_name, 0);
                at += d->d_reclen;
            }
        if (fd >= 0) close(fd);
        rmdir(path);
    }
}

void temporary_end(char *name)
{
    if (!name) return;
    temporary_remove(name);
    for (struct entry *i = atomic_load(&entries); i; i = i->next) {
        if (!atomic_load(&i->complete) || strcmp(i->name, name) != 0) continue;
        atomic_store(&i->complete, false);
        atomic_store(&i->taken, false);
        break;
    }
    free(name);
}

void temporary_remove_all(void)
{
    for (const struct entry *i = atomic_load(&entries); i; i = i->next)
        if (atomic_load(&i->complete)) temporary_remove(i->name);
}

/* --- signals --- */

/* The default comes back only when all is removed: a second signal, as timeout and launchers send
 * it, may reach another thread, and would end the process before. */
static void on_signal(int number)
{
    temporary_remove_all();
    signal(number, SIG_DFL);
    raise(number);
}

void temporary_catch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal}, old;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(numbers[i], &action, NULL);
}

/* --- what others left --- */

/* Whether a name's end, behind ".tmp.", is of a process that is gone, or of any one. Earlier
 * versions wrote the number of the process alone, or without its start. */
static bool is_left(const char *end, enum temporary_whose whose)
{
    enum { HOST = 2, PID = 3, EARLIER_PID = 5, GROUPS = 7 }; /* a start follows its process */
    static const char form[] = "^((.*)[.]([0-9]+)(-[0-9]+)?[.][0-9a-f]{8}|([0-9]+)(-[0-9]+)?)$";
    char host[25];
    regex_t names;
    regmatch_t at[GROUPS];
    if (regcomp(&names, form, REG_EXTENDED) != 0) return false;
    const bool fits = regexec(&names, end, GROUPS, at, 0) == 0;
    regfree(&names);
    if (!fits || whose == TEMPORARY_ALL) return fits;
    host_name(host);
    const bool named = at[HOST].rm_so == 0;
    const size_t length = named ? (size_t)at[HOST].rm_eo : 0;
    if (named && (strlen(host) != length || strncmp(host, end, length) != 0)) return false;
    const regmatch_t *pid = &at[named ? PID : EARLIER_PID], *start = pid + 1;
    return !process_runs(strtol(end + pid->rm_so, NULL, 10),
                         start->rm_so < 0 ? 0 : strtoll(end + start->rm_so + 1, NULL, 10));
}

void temporary_remove_left(const char *path, enum temporary_whose whose)
{
    static const char middle[] = ".tmp.";
    AUTO_FREE char *folder = NULL;
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const size_t n = strlen(base), m = strlen(middle);
    const enum status st = slash ? mem_format(&folder, NULL, "%.*s", (int)(base - path), path)
                                 : mem_string(&folder, "./", NULL);
    DIR *dir = st == OK ? opendir(folder) : NULL;
    for (struct dirent *d; dir && (d = readdir(dir)) != NULL;) {
        AUTO_FREE char *name = NULL;
        const char *end = d->d_name + n;
        if (strncmp(d->d_name, base, n) != 0 || strncmp(end, middle, m) != 0) continue;
        for (const char *at = end; (at = strstr(at, middle)) != NULL;) end = at += m;
        if (!is_left(end, whose) || mem_format(&name, NULL, "%s%s", folder, d->d_name) != OK)
            continue;
        temporary_remove(name);
    }
    if (dir) closedir(dir);
}
