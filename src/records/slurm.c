#include "records/slurm.h"
#include "util/process.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER = 8192 };

bool slurm_ask(const char *const command[], const char *seconds, char *out, size_t size)
{
    enum { NO_ANSWER = 124 }; /* timeout ends with this, or more, if the command gives none */
    const char *argv[16] = {"timeout", "-s", "KILL", seconds};
    int ends[2], status = -1;
    pid_t pid = -1;
    for (int i = 0; command[i]; i++) argv[4 + i] = command[i];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    const struct child child = {.argv = argv, .out = ends[1], .line = -1};
    const bool started = child_start(&child, &pid) == 0;
    close(ends[1]);
    FILE *answer = fdopen(ends[0], "r");
    out[answer ? fread(out, 1, size - 1, answer) : 0] = '\0';
    if (answer) fclose(answer);
    while (started && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return started && answer && WIFEXITED(status) && WEXITSTATUS(status) < NO_ANSWER;
}

void slurm_value(const char *line, const char *key, char *out, size_t size)
{
    const char *p = strstr(line, key);
    size_t n = p ? strcspn(p + strlen(key), " \n") : 0;
    if (n >= size) n = size - 1;
    if (n) memcpy(out, p + strlen(key), n);
    out[n] = '\0';
}

bool slurm_job_is_over(const char *job, long restarts)
{
    /* States in which processes of this start may still run. A job that waits has none of the
     * start before: Slurm requeues it when they have ended, or when it has given up their node. */
    static const char *const alive[] = {"RUNNING",   "COMPLETING", "SUSPENDED", "STOPPED",
                                        "SIGNALING", "STAGE_OUT",  "RESIZING",  "CONFIGURING"};
    char answer[ANSWER] = "", state[64], again[32];
    const char *const argv[] = {"scontrol", "-o", "show", "job", job, NULL};
    if (!job[0] || job[strspn(job, "0123456789")]) return false; /* not Slurm's */
    if (!slurm_ask(argv, "5", answer, sizeof answer)) return false;
    if (strstr(answer, "Invalid job id specified")) return true;
    slurm_value(answer, "JobState=", state, sizeof state);
    slurm_value(answer, " Restarts=", again, sizeof again);
    if (!state[0]) return false;
    if (strtol(again, NULL, 10) > restarts) return true;
    for (size_t i = 0; i < sizeof alive / sizeof *alive; i++)
        if (strcmp(state, alive[i]) == 0) return false;
    return true;
}

/* The job of this process; NULL: none, or its name is not Slurm's. */
static const char *own_job(void)
{
    const char *job = getenv("SLURM_JOB_ID");
    return job && job[0] && !job[strspn(job, "0123456789")] ? job : NULL;
}

bool slurm_job_ends(double *when)
{
    const char *job = own_job(), *given = getenv("SLURM_JOB_END_TIME");
    char answer[ANSWER] = "", text[64];
    const char *const argv[] = {"scontrol", "-o", "show", "job", job, NULL};
    struct tm tm = {.tm_isdst = -1};
    if (!job) return false;
    *when = given ? strtod(given, NULL) : 0;
    if (*when > 0) return true;
    if (!slurm_ask(argv, "5", answer, sizeof answer)) return false;
    slurm_value(answer, " EndTime=", text, sizeof text);
    if (!strptime(text, "%Y-%m-%dT%H:%M:%S", &tm)) return false;
    *when = (double)mktime(&tm);
    return true;
}

/* The number of the last element of an array is the array's: all elements would be requeued. */
bool slurm_requeue(char *why, size_t size)
{
    const char *job = own_job(), *array = getenv("SLURM_ARRAY_JOB_ID");
    const char *element = getenv("SLURM_ARRAY_TASK_ID");
    char answer[ANSWER] = "", name[80];
    const char *const argv[] = {"scontrol", "requeue", name, NULL};
    snprintf(name, sizeof name, "%s", job ? job : "");
    if (array && element) snprintf(name, sizeof name, "%s_%s", array, element);
    const bool asked = job && slurm_ask(argv, "30", answer, sizeof answer);
    answer[strcspn(answer, "\n")] = '\0';
    snprintf(why, size, "%s", !job ? "this is no Slurm job" : !asked ? "no answer" : answer);
    return asked && answer[0] == '\0';
}
