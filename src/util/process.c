#include "util/process.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* The name, field 2, may contain blanks and brackets, so fields are counted from the last ')'. */
const char *process_field(long pid, int field, char line[1024])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, line, 1023) : 0;
    if (fd >= 0) close(fd);
    line[n > 0 ? n : 0] = '\0';
    const char *p = strrchr(line, ')');
    p = p && p[1] ? p + 2 : NULL;
    for (int i = 3; p && i < field; i++)
        if ((p = strchr(p, ' '))) p++;
    return p && *p ? p : NULL;
}

long long process_start(long pid)
{
    char line[1024];
    const char *start = process_field(pid, 22, line);
    return start ? atoll(start) : -1;
}

static bool is_zombie(long pid)
{
    char line[1024];
    const char *state = process_field(pid, 3, line);
    return state && (*state == 'Z' || *state == 'X');
}

bool process_runs(long pid, long long start)
{
    if ((kill((pid_t)pid, 0) != 0 && errno == ESRCH) || is_zombie(pid)) return false;
    const long long now = process_start(pid);
    return start <= 0 || now <= 0 || now == start; /* else the id was reused */
}
