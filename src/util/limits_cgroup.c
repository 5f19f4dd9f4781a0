/* Limits of the cgroups of a process: /proc/self/cgroup names the groups, /proc/self/mountinfo
 * their folders (cgroups(7), proc(5)). A limit applies to all levels below it, so every folder from
 * the process's group up to the mount point is read; those that are not visible inside a container
 * are skipped. */
#include "util/limits_internal.h"
#include "util/words.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_LENGTH = 1024, MOUNTS = 32 };

/* One mounted hierarchy. */
struct mount {
    bool unified;                  /* version 2 */
    char controllers[PATH_LENGTH]; /* version 1: "rw,cpu,cpuacct" */
    char root[PATH_LENGTH];        /* the group that the mount point shows */
    char point[PATH_LENGTH];
};

/* "31 23 0:28 /group /mount/point options ... - type source options" */
static bool parse_mount(const char *line, struct mount *m)
{
    char type[64], options[PATH_LENGTH];
    const char *behind = strstr(line, " - ");
    if (!behind || sscanf(line, "%*s %*s %*s %1023s %1023s", m->root, m->point) != 2) return false;
    if (sscanf(behind, " - %63s %*s %1023s", type, options) != 2) return false;
    m->unified = strcmp(type, "cgroup2") == 0;
    snprintf(m->controllers, sizeof m->controllers, "%s", m->unified ? "" : options);
    return m->unified || strcmp(type, "cgroup") == 0;
}

/* -1: not a number ("max"). Numbers larger than the machine mean no limit; limits_lower_* ignores
 * them. */
static int64_t number_in(const char *root, const char *folder, const char *file, char *text)
{
    char path[2 * PATH_LENGTH];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    char *end;
    if (!limits_text(root, path, text)) return -1;
    long long value = strtoll(text, &end, 10);
    return end == text ? -1 : value;
}

static void lower_memory_by(const char *root, struct limits *l, const char *folder,
                            const char *file, char *text)
{
    char from[2 * PATH_LENGTH];
    snprintf(from, sizeof from, "%s/%s", folder, file);
    limits_lower_memory(l, number_in(root, folder, file, text), from);
}

/* A quota is CPU time per period; a fraction of a core still runs one thread. */
static void lower_cores_by(struct limits *l, const char *folder, const char *file, double quota,
                           double period)
{
    char from[2 * PATH_LENGTH];
    if (quota <= 0 || period <= 0 || quota / period > LIMITS_CPUS) return;
    int64_t cores = (int64_t)(quota / period);
    snprintf(from, sizeof from, "%s/%s", folder, file);
    limits_lower_cores(l, cores < 1 ? 1 : cores, from);
}

static void look_at(const char *root, struct limits *l, const struct mount *m, const char *folder,
                    char *text)
{
    if (m->unified) {
        char path[2 * PATH_LENGTH + 16];
        double quota, period;
        lower_memory_by(root, l, folder, "memory.max", text);
        lower_memory_by(root, l, folder, "memory.high", text);
        snprintf(path, sizeof path, "%s/cpu.max", folder);
        if (limits_text(root, path, text) && sscanf(text, "%lf %lf", &quota, &period) == 2)
            lower_cores_by(l, folder, "cpu.max", quota, period);
        return;
    }
    if (words_have(m->controllers, ",", "memory", 6))
        lower_memory_by(root, l, folder, "memory.limit_in_bytes", text);
    if (words_have(m->controllers, ",", "cpu", 3))
        lower_cores_by(l, folder, "cpu.cfs_quota_us",
                       (double)number_in(root, folder, "cpu.cfs_quota_us", text),
                       (double)number_in(root, folder, "cpu.cfs_period_us", text));
}

/* Reads all levels of the group that the mount shows. */
static void look_upwards(const char *root, struct limits *l, const struct mount *m,
                         const char *group, char *text)
{
    char folder[2 * PATH_LENGTH];
    size_t n = strcmp(m->root, "/") == 0 ? 0 : strlen(m->root), point = strlen(m->point);
    /* For a group outside the mount (a container without its own namespace) only the mount point is
     * read. */
    bool inside = strncmp(group, m->root, n) == 0 && (group[n] == '/' || group[n] == '\0');
    snprintf(folder, sizeof folder, "%s%s", m->point, inside ? group + n : "");
    for (;;) {
        size_t length = strlen(folder);
        while (length > point && folder[length - 1] == '/') folder[--length] = '\0';
        look_at(root, l, m, folder, text);
        if (length <= point) return;
        *strrchr(folder, '/') = '\0';
    }
}

/* "4:memory:/group", "1:cpu,cpuacct:/group", "0::/group" */
static bool belongs(const char *controllers, size_t n, const struct mount *m)
{
    if (n == 0) return m->unified;
    for (const char *p = controllers; !m->unified && p < controllers + n;) {
        size_t word = strcspn(p, ",:");
        if (words_have(m->controllers, ",", p, word)) return true;
        p += word + 1;
    }
    return false;
}

void limits_cgroups(const char *root, struct limits *l, char text[LIMITS_TEXT])
{
    struct mount mounts[MOUNTS];
    char groups[4096];
    if (!limits_text(root, "/proc/self/mountinfo", text)) return;
    int n = 0;
    for (char *line = text, *next; line && *line && n < MOUNTS; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        n += parse_mount(line, &mounts[n]);
    }
    if (!limits_text(root, "/proc/self/cgroup", text)) return;
    snprintf(groups, sizeof groups, "%s", text);
    for (char *line = groups, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        const char *controllers = strchr(line, ':');
        const char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        for (int i = 0; i < n; i++)
            if (belongs(controllers + 1, (size_t)(group - controllers - 1), &mounts[i]))
                look_upwards(root, l, &mounts[i], group + 1, text);
    }
}
