#include "util/limits.h"
#include "util/agree.h"
#include "util/comm.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/words.h"
#include <omp.h>
#include <stdio.h>
#include <sys/resource.h>

enum { LIMITS_TEXT = 65536 };

/* The file root + path as a NUL-terminated text of at most LIMITS_TEXT - 1 bytes; false: not
 * readable. */
static bool read_text(const char *root, const char *path, char text[LIMITS_TEXT])
{
    char full[1024];
    if ((size_t)snprintf(full, sizeof full, "%s%s", root, path) >= sizeof full) return false;
    return fsx_text(full, text, LIMITS_TEXT);
}

/* Lowers the limit to the value, with its source, if it is higher. */
static void lower_memory(struct limits *l, int64_t bytes, const char *from)
{
    if (bytes <= 0 || bytes >= l->memory) return;
    l->memory = bytes;
    snprintf(l->memory_from, LIMITS_FROM, "%.*s", LIMITS_FROM - 1, from);
}

static void lower_cores(struct limits *l, int64_t cores, const char *from)
{
    if (cores <= 0 || cores >= l->cores) return;
    l->cores = cores;
    snprintf(l->cores_from, LIMITS_FROM, "%.*s", LIMITS_FROM - 1, from);
}

int64_t limits_usable(int64_t bytes)
{
    return bytes / 10 * 9;
}

/* --- CPU sets --- */

static void set_add(struct cpu_set *s, int64_t cpu)
{
    if (cpu >= 0 && cpu < LIMITS_CPUS)
        s->bits[cpu / LIMITS_WORD] |= UINT64_C(1) << cpu % LIMITS_WORD;
}

int64_t cpu_set_count(const struct cpu_set *s)
{
    int64_t n = 0;
    for (int i = 0; i < LIMITS_CPUS / LIMITS_WORD; i++) n += __builtin_popcountll(s->bits[i]);
    return n;
}

/* "0-3,8,10-11" up to the end of the line. */
static void set_parse(const char *text, struct cpu_set *s)
{
    *s = (struct cpu_set){0};
    while (*text && *text != '\n') {
        char *end;
        long first = strtol(text, &end, 10), last = first;
        if (end == text) return;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        for (long cpu = first; cpu <= last && cpu < LIMITS_CPUS; cpu++) set_add(s, cpu);
        text = *end == ',' ? end + 1 : end;
    }
}

/* With OMP_PROC_BIND this thread is pinned to the first of OpenMP's places; the process has them
 * all. */
static void set_add_places(struct cpu_set *s)
{
    if (omp_get_proc_bind() == omp_proc_bind_false) return;
    for (int place = 0; place < omp_get_num_places(); place++) {
        int n = omp_get_place_num_procs(place), *ids = NULL;
        if (mem_alloc(&ids, n, sizeof *ids, "places", NULL) != OK) return;
        omp_get_place_proc_ids(place, ids);
        for (int i = 0; i < n; i++) set_add(s, ids[i]);
        free(ids);
    }
}

/* --- the machine --- */

/* The number after `key` at the start of a line "Key: value kB"; -1: not there. */
static int64_t field_kib(const char *text, const char *key)
{
    size_t n = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n'), line += line != NULL)
        if (strncmp(line, key, n) == 0) return strtoll(line + n, NULL, 10) * 1024;
    return -1;
}

static enum status read_machine(const char *root, struct limits *l, char text[LIMITS_TEXT],
                                struct err *e)
{
    struct cpu_set online;
    NEED(read_text(root, "/proc/meminfo", text), ERR_IO, "%s/proc/meminfo: cannot be read", root);
    l->machine_memory = field_kib(text, "MemTotal:");
    l->available = field_kib(text, "MemAvailable:");
    NEED(l->machine_memory > 0, ERR_IO, "%s/proc/meminfo: no MemTotal", root);
    if (l->available < 0) l->available = l->machine_memory;
    NEED(read_text(root, "/proc/self/status", text), ERR_IO, "%s/proc/self/status: cannot be read",
         root);
    const char *allowed = strstr(text, "Cpus_allowed_list:");
    if (allowed) set_parse(allowed + strcspn(allowed, "0123456789\n"), &l->cpus);
    NEED(cpu_set_count(&l->cpus) > 0, ERR_IO, "%s/proc/self/status: no Cpus_allowed_list", root);
    if (!root[0]) set_add_places(&l->cpus);
    l->machine_cores = cpu_set_count(&l->cpus);
    if (read_text(root, "/sys/devices/system/cpu/online", text)) {
        set_parse(text, &online);
        if (cpu_set_count(&online) > 0) l->machine_cores = cpu_set_count(&online);
    }
    l->memory = l->machine_memory;
    l->cores = l->machine_cores;
    snprintf(l->memory_from, sizeof l->memory_from, "the machine's memory");
    snprintf(l->cores_from, sizeof l->cores_from, "the machine's CPUs");
    return OK;
}

/* --- cgroups --- */

/* /proc/self/cgroup names the groups, /proc/self/mountinfo
 * their folders (cgroups(7), proc(5)). A limit applies to all levels below it, so every folder from
 * the process's group up to the mount point is read; those that are not visible inside a container
 * are skipped. */
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

/* -1: not a number ("max"). Numbers larger than the machine mean no limit; lower_* ignores
 * them. */
static int64_t number_in(const char *root, const char *folder, const char *file, char *text)
{
    char path[2 * PATH_LENGTH];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    char *end;
    if (!read_text(root, path, text)) return -1;
    long long value = strtoll(text, &end, 10);
    return end == text ? -1 : value;
}

static void lower_memory_by(const char *root, struct limits *l, const char *folder,
                            const char *file, char *text)
{
    char from[2 * PATH_LENGTH];
    snprintf(from, sizeof from, "%s/%s", folder, file);
    lower_memory(l, number_in(root, folder, file, text), from);
}

/* A quota is CPU time per period; a fraction of a core still runs one thread. */
static void lower_cores_by(struct limits *l, const char *folder, const char *file, double quota,
                           double period)
{
    char from[2 * PATH_LENGTH];
    if (quota <= 0 || period <= 0 || quota / period > LIMITS_CPUS) return;
    int64_t cores = (int64_t)(quota / period);
    snprintf(from, sizeof from, "%s/%s", folder, file);
    lower_cores(l, cores < 1 ? 1 : cores, from);
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
        if (read_text(root, path, text) && sscanf(text, "%lf %lf", &quota, &period) == 2)
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

static void apply_cgroups(const char *root, struct limits *l, char text[LIMITS_TEXT])
{
    struct mount mounts[MOUNTS];
    char groups[4096];
    if (!read_text(root, "/proc/self/mountinfo", text)) return;
    int n = 0;
    for (char *line = text, *next; line && *line && n < MOUNTS; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        n += parse_mount(line, &mounts[n]);
    }
    if (!read_text(root, "/proc/self/cgroup", text)) return;
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

/* --- Slurm --- */

/* A positive integer of the environment; 0: none. */
static int64_t env_integer(const char *name)
{
    const char *text = getenv(name);
    char *end;
    if (!text) return 0;
    long long value = strtoll(text, &end, 10);
    /* "8(x2)": the same on several nodes. */
    return end != text && (*end == '\0' || *end == '(' || *end == ',') && value > 0 ? value : 0;
}

enum status limits_read(const char *root, struct limits *out, struct err *e)
{
    struct limits l = {.process_memory = INT64_MAX};
    struct rlimit space;
    AUTO_FREE char *text = NULL;
    PASS(mem_alloc(&text, LIMITS_TEXT, 1, "limits", e));
    PASS(read_machine(root, &l, text, e));
    apply_cgroups(root, &l, text);
    /* 0 is also what Slurm writes for all of the memory: no limit. */
    const int64_t mib = 1 << 20;
    int64_t tasks = env_integer("SLURM_NTASKS_PER_NODE"), cpus = env_integer("SLURM_CPUS_ON_NODE");
    int64_t per_task = env_integer("SLURM_CPUS_PER_TASK");
    if (!tasks) tasks = env_integer("SLURM_TASKS_PER_NODE");
    lower_cores(&l, cpus, "SLURM_CPUS_ON_NODE");
    if (!cpus && per_task && tasks) {
        cpus = per_task * tasks;
        lower_cores(&l, cpus, "SLURM_CPUS_PER_TASK x SLURM_NTASKS_PER_NODE");
    }
    lower_memory(&l, env_integer("SLURM_MEM_PER_NODE") * mib, "SLURM_MEM_PER_NODE");
    if (!cpus) cpus = l.cores;
    lower_memory(&l, env_integer("SLURM_MEM_PER_CPU") * cpus * mib, "SLURM_MEM_PER_CPU");
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        l.process_memory = (int64_t)space.rlim_cur;
    *out = l;
    return OK;
}

/* --- a rank's share of its node --- */

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
