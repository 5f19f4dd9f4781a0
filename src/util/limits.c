#include "util/fsx.h"
#include "util/limits_internal.h"
#include "util/mem.h"
#include <omp.h>
#include <stdio.h>
#include <sys/resource.h>

bool limits_text(const char *root, const char *path, char text[LIMITS_TEXT])
{
    char full[1024];
    if ((size_t)snprintf(full, sizeof full, "%s%s", root, path) >= sizeof full) return false;
    return fsx_text(full, text, LIMITS_TEXT);
}

void limits_lower_memory(struct limits *l, int64_t bytes, const char *from)
{
    if (bytes <= 0 || bytes >= l->memory) return;
    l->memory = bytes;
    snprintf(l->memory_from, sizeof l->memory_from, "%s", from);
}

void limits_lower_cores(struct limits *l, int64_t cores, const char *from)
{
    if (cores <= 0 || cores >= l->cores) return;
    l->cores = cores;
    snprintf(l->cores_from, sizeof l->cores_from, "%s", from);
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
    NEED(limits_text(root, "/proc/meminfo", text), ERR_IO, "%s/proc/meminfo: cannot be read", root);
    l->machine_memory = field_kib(text, "MemTotal:");
    l->available = field_kib(text, "MemAvailable:");
    NEED(l->machine_memory > 0, ERR_IO, "%s/proc/meminfo: no MemTotal", root);
    if (l->available < 0) l->available = l->machine_memory;
    NEED(limits_text(root, "/proc/self/status", text), ERR_IO,
         "%s/proc/self/status: cannot be read", root);
    const char *allowed = strstr(text, "Cpus_allowed_list:");
    if (allowed) set_parse(allowed + strcspn(allowed, "0123456789\n"), &l->cpus);
    NEED(cpu_set_count(&l->cpus) > 0, ERR_IO, "%s/proc/self/status: no Cpus_allowed_list", root);
    if (!root[0]) set_add_places(&l->cpus);
    l->machine_cores = cpu_set_count(&l->cpus);
    if (limits_text(root, "/sys/devices/system/cpu/online", text)) {
        set_parse(text, &online);
        if (cpu_set_count(&online) > 0) l->machine_cores = cpu_set_count(&online);
    }
    l->memory = l->machine_memory;
    l->cores = l->machine_cores;
    snprintf(l->memory_from, sizeof l->memory_from, "the machine's memory");
    snprintf(l->cores_from, sizeof l->cores_from, "the machine's CPUs");
    return OK;
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
    limits_cgroups(root, &l, text);
    /* 0 is also what Slurm writes for all of the memory: no limit. */
    const int64_t mib = 1 << 20;
    int64_t tasks = env_integer("SLURM_NTASKS_PER_NODE"), cpus = env_integer("SLURM_CPUS_ON_NODE");
    int64_t per_task = env_integer("SLURM_CPUS_PER_TASK");
    if (!tasks) tasks = env_integer("SLURM_TASKS_PER_NODE");
    limits_lower_cores(&l, cpus, "SLURM_CPUS_ON_NODE");
    if (!cpus && per_task && tasks) {
        cpus = per_task * tasks;
        limits_lower_cores(&l, cpus, "SLURM_CPUS_PER_TASK x SLURM_NTASKS_PER_NODE");
    }
    limits_lower_memory(&l, env_integer("SLURM_MEM_PER_NODE") * mib, "SLURM_MEM_PER_NODE");
    if (!cpus) cpus = l.cores;
    limits_lower_memory(&l, env_integer("SLURM_MEM_PER_CPU") * cpus * mib, "SLURM_MEM_PER_CPU");
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        l.process_memory = (int64_t)space.rlim_cur;
    *out = l;
    return OK;
}
