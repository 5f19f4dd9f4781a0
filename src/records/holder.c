#include "records/holder.h"
#include "records/slurm.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/hash.h"
#include "util/process.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* --- this process --- */

/* Adds what the environment variable says. */
static void add_variable(json_t *self, const char *key, const char *variable)
{
    const char *value = getenv(variable);
    if (self && value) json_object_set_new(self, key, json_string(value));
}

json_t *holder_self(void)
{
    char host[256] = "", boot[64], space[64], utc[21], token[HASH_HEX];
    gethostname(host, sizeof host - 1);
    fsx_text("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    boot[strcspn(boot, "\n")] = '\0';
    const ssize_t n = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    space[n > 0 ? n : 0] = '\0'; /* process ids are valid only inside one namespace */
    clock_utc(utc);
    struct {
        unsigned char random[16];
        struct timespec now;
        long pid;
    } seed = {.pid = (long)getpid()};
    clock_gettime(CLOCK_REALTIME, &seed.now);
    if (getrandom(seed.random, sizeof seed.random, GRND_NONBLOCK) < 0) seed.random[0] = 1;
    hash_bytes(&seed, sizeof seed, token);
    json_t *self = json_pack("{s:s, s:I, s:s, s:s, s:I, s:s, s:s}", "host", host, "pid",
                             (json_int_t)getpid(), "boot_id", boot, "pid_namespace", space, "start",
                             (json_int_t)process_start(getpid()), "utc", utc, "token", token);
    add_variable(self, "slurm_cluster", "SLURM_CLUSTER_NAME");
    add_variable(self, "slurm_job", "SLURM_JOB_ID");
    add_variable(self, "slurm_restarts", "SLURM_RESTART_COUNT");
    return self;
}

/* --- another --- */

/* Both say it, and the same. */
static bool same_text(const json_t *a, const json_t *b, const char *key)
{
    const char *text = json_text(a, key, "");
    return text[0] && strcmp(text, json_text(b, key, "")) == 0;
}

bool holder_is_ending(const json_t *holder)
{
    const unsigned long exiting = 4; /* PF_EXITING of the kernel, in field 9 */
    char line[1024];
    const char *flags = process_field((long)json_int(holder, "pid"), 9, line);
    return flags && strtoul(flags, NULL, 10) & exiting;
}

enum holder_state holder_look(const json_t *holder, const json_t *self, double age)
{
    const long pid = (long)json_int(holder, "pid");
    const long long start = json_int(holder, "start");
    const bool this_boot = same_text(holder, self, "boot_id");
    struct timespec up;
    clock_gettime(CLOCK_BOOTTIME, &up);
    if (pid > 0 && this_boot && same_text(holder, self, "pid_namespace"))
        return process_runs(pid, start) ? HOLDER_RUNS : HOLDER_GONE;
    /* An earlier boot of this host. Another host of the same name would have renewed its lock since
     * this one was booted. */
    if (!this_boot && same_text(holder, self, "host") && json_text(holder, "boot_id", "")[0] &&
        age > (double)up.tv_sec)
        return HOLDER_GONE;
    return HOLDER_UNKNOWN;
}

const char *holder_describe(const json_t *holder, char *out, size_t size)
{
    if (!holder)
        snprintf(out, size, "somebody (the file is not readable as a lock)");
    else
        snprintf(out, size, "process %lld on host %s since %s", (long long)json_int(holder, "pid"),
                 json_text(holder, "host", "unknown"), json_text(holder, "utc", "an unknown time"));
    return out;
}

double holder_lease(const json_t *holder)
{
    const double usual = 120, lease = json_number_get(json_object_get(holder, "lease"));
    return lease > 0 ? lease : usual;
}

/* --- its Slurm job --- */

static long restarts_of(const json_t *holder)
{
    return strtol(json_text(holder, "slurm_restarts", "0"), NULL, 10);
}

bool holder_job_is_over(const json_t *holder, const json_t *self)
{
    const char *job = json_text(holder, "slurm_job", ""), *mine = json_text(self, "slurm_job", "");
    const char *cluster = json_text(self, "slurm_cluster", "");
    if (!job[0]) return false;
    if (cluster[0] && strcmp(cluster, json_text(holder, "slurm_cluster", "")) != 0) return false;
    if (strcmp(job, mine) == 0) return restarts_of(self) > restarts_of(holder);
    return slurm_job_is_over(job, restarts_of(holder));
}
