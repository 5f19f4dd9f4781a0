#include "run/slurm_site.h"
#include "memory/states.h"
#include "records/lock.h"
#include "records/part_files.h"
#include "records/slurm.h"
#include "run/owner.h"
#include "run/run_journal.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/quantity.h"
#include <limits.h>
#include <math.h>
#include <unistd.h>

enum { ANSWER = 8192, LONG_ANSWER = 1 << 18 };
enum { TIME_SHORT = 600 /* seconds of a job, below which too few of them are work */ };

/* The whole answer of a command that may be long, as the caller's; "" if there is none. */
static char *answer_of(const char *const command[])
{
    char *answer = calloc(LONG_ANSWER, 1);
    if (answer && !slurm_ask(command, "10", answer, LONG_ANSWER)) answer[0] = '\0';
    return answer;
}

/* The lines of an answer in one. */
static void join_lines(char *answer)
{
    for (char *c = answer; *c; c++)
        if (*c == '\n') *c = c[1] ? ';' : '\0';
}

/* --- nodes --- */

/* The largest index of an array's element; 0: Slurm does not say. */
static int64_t array_most(void)
{
    const char *const argv[] = {"scontrol", "show", "config", NULL};
    char *answer = answer_of(argv);
    const char *at = answer ? strstr(answer, "MaxArraySize") : NULL;
    if (at) at = strchr(at, '=');
    const int64_t size = at ? strtoll(at + 1, NULL, 10) : 0;
    free(answer);
    return size > 0 ? size - 1 : 0;
}

/* The cores of the smallest and largest node of a partition (NULL: of all), and the least memory of
 * those with the fewest cores, bytes; 0: sinfo does not say. */
static void node_sizes(const char *partition, int64_t *cores, int64_t *memory, int64_t *largest)
{
    char *next = NULL;
    const char *const all[] = {"sinfo", "-h", "-e", "-o", "%c %m", NULL};
    const char *const one[] = {"sinfo", "-h", "-e", "-p", partition, "-o", "%c %m", NULL};
    char *answer = answer_of(partition ? one : all);
    *cores = *memory = *largest = 0;
    for (char *line = answer ? strtok_r(answer, "\n", &next) : NULL; line;
         line = strtok_r(NULL, "\n", &next)) {
        long long c, m;
        if (sscanf(line, "%lld %lld", &c, &m) != 2) continue;
        *largest = max64(*largest, c);
        if (*cores > 0 && (c > *cores || (c == *cores && m << 20 >= *memory))) continue;
        *cores = c;
        *memory = m << 20;
    }
    free(answer);
}

/* Whether a list "a,b" has the word. */
static bool lists(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strcspn(at, ",") == n && strncmp(at, word, n) == 0) return true;
    return false;
}

static double number_of(const char *line, const char *key)
{
    char text[64];
    slurm_value(line, key, text, sizeof text);
    return text[0] >= '0' && text[0] <= '9' ? strtod(text, NULL) : INFINITY;
}

/* Seconds of an element at most. */
static double time_limit(const char *line)
{
    char text[64];
    double seconds;
    slurm_value(line, " MaxTime=", text, sizeof text);
    if (!text[0] || strcmp(text, "UNLIMITED") == 0) return INFINITY;
    if (span_parse(text, &seconds, NULL) != OK) seconds = INFINITY;
    return seconds;
}

/* Sets the limits of *at by the partitions asked for, or the default one; of several, which jobs
 * may choose from, the widest. ERR_USAGE: one is none. */
static enum status find_limits(const char *asked, struct slurm_nodes *at, struct err *e)
{
    const char *const argv[] = {"scontrol", "-a", "-o", "show", "partition", NULL};
    AUTO_FREE char *answer = answer_of(argv);
    char *next = NULL, known[512] = "", name[64], state[64];
    int64_t found = 0, up = 0, wanted = 1;
    double nodes = 0;
    at->limit = 0;
    for (const char *c = asked ? asked : ""; *c; c++) wanted += *c == ',';
    for (char *line = answer ? strtok_r(answer, "\n", &next) : NULL; line;
         line = strtok_r(NULL, "\n", &next)) {
        if (strncmp(line, "PartitionName=", 14) != 0) continue;
        slurm_value(line, "PartitionName=", name, sizeof name);
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", name);
        if (asked ? !lists(asked, name) : !strstr(line, " Default=YES")) continue;
        found++;
        slurm_value(line, " State=", state, sizeof state);
        up += strcmp(state, "DOWN") != 0;
        at->limit = fmax(at->limit, time_limit(line));
        nodes = fmax(nodes, fmin(number_of(line, " MaxNodes="), number_of(line, " TotalNodes=")));
    }
    NEED(!asked || !known[0] || found == wanted, ERR_USAGE,
         "--partition %s: Slurm has no such partition; there are: %s", asked, known);
    at->down = found > 0 && up == 0;
    if (at->limit <= 0) at->limit = INFINITY;
    at->each = nodes >= 1 && nodes < (double)at->nodes ? (int64_t)nodes : at->nodes;
    return OK;
}

enum status slurm_nodes_find(const struct slurm_request *r, struct slurm_nodes *at, struct err *e)
{
    char *end;
    int64_t cores, memory;
    *at = (struct slurm_nodes){.nodes = r->nodes, .cores = r->cores, .most = array_most()};
    if (at->most == 0) at->most = 1000;
    NEED(at->nodes >= 1 && at->nodes <= 1000000, ERR_USAGE,
         "--nodes %lld: expected at least 1 node", (long long)at->nodes);
    PASS(span_parse(r->time, &at->time, e));
    NEED(at->time >= 60, ERR_USAGE, "--time %s: expected at least a minute", r->time);
    if (at->time < TIME_SHORT)
        log_warn(
            "--time %s: jobs stop working 90 seconds before it ends, and Slurm waits two minutes "
            "before it starts one again: give 10 minutes or more",
            r->time);
    if (r->memory) {
        const double gib = strtod(r->memory, &end);
        NEED(end != r->memory && gib > 0 && gib < 1e6 && (!*end || strcmp(end, "G") == 0),
             ERR_USAGE, "--node-memory %s: expected GiB, such as 256 or 256G", r->memory);
        at->memory = (int64_t)(gib * (1 << 30));
    }
    PASS(find_limits(r->partition, at, e));
    node_sizes(r->partition, &cores, &memory, &at->largest);
    NEED(cores > 0 || (at->cores && at->memory), ERR_USAGE,
         "sinfo does not say what nodes there are: give --node-cores and --node-memory");
    if (at->cores == 0) at->cores = cores;
    if (at->memory == 0) at->memory = memory;
    NEED(at->cores >= 1, ERR_USAGE, "--node-cores %lld: expected at least 1", (long long)at->cores);
    return OK;
}

/* --- what Slurm would do with the jobs --- */

/* Whether sbatch would take a job of one node with this time, as far as it says: why. */
static bool sbatch_accepts(const struct slurm_request *r, double seconds, const char *script,
                           char *why, size_t size)
{
    char answer[ANSWER] = "", time[SPAN];
    const char *argv[12] = {"sbatch", "--test-only", "-t", time, "-N1"};
    int n = 5;
    span_slurm(seconds, time);
    if (r->partition) argv[n++] = "-p", argv[n++] = r->partition;
    if (r->account) argv[n++] = "-A", argv[n++] = r->account;
    argv[n] = script;
    const bool asked = slurm_ask(argv, "30", answer, sizeof answer);
    if (asked && strstr(answer, " to start at ")) return true;
    join_lines(answer);
    snprintf(why, size, "%s", asked ? answer : "no answer of sbatch");
    return false;
}

enum status slurm_site_check(const struct slurm_request *r, const struct slurm_nodes *at,
                             const struct plan *p, bool ask, const char *merge,
                             struct plan_faults *f, struct err *e)
{
    char why[512], limit[SPAN];
    const char *of = r->partition ? r->partition : "the default one";
    if (at->down) PASS(plan_faults_add(f, p, e, "partition %s is down: its jobs do not start", of));
    if (at->time > at->limit) {
        span_slurm(at->limit, limit);
        PASS(plan_faults_add(f, p, e,
                             "--time %s: jobs of the partition (%s) may take %s; such a job would "
                             "wait for ever",
                             r->time, of, limit));
    }
    if (at->largest > 0 && at->cores > at->largest)
        PASS(plan_faults_add(f, p, e,
                             "--node-cores %lld: no node of the partition (%s) has more than %lld; "
                             "such a job would wait for ever",
                             (long long)at->cores, of, (long long)at->largest));
    if (!ask || sbatch_accepts(r, at->time, merge, why, sizeof why)) return OK;
    return plan_faults_add(f, p, e, "Slurm refuses such jobs: %s", why);
}

/* --- jobs that are there --- */

/* *out (the caller frees) = the path without symbolic links, as far as it is there: the same before
 * its folder is made and after. */
static enum status find_real(const char *path, char **out, struct err *e)
{
    char real[PATH_MAX];
    AUTO_FREE char *folder = NULL, *above = NULL;
    if (realpath(path, real)) return mem_string(out, real, e);
    PASS(fsx_parent(path, &folder, e));
    if (strcmp(folder, path) == 0) /* "." that is gone */
        PASS(mem_string(&above, "", e));
    else
        PASS(find_real(folder, &above, e));
    return mem_format(out, e, "%s/%s", strcmp(above, "/") ? above : "", basename(path));
}

enum status slurm_comment(const char *results, char **out, struct err *e)
{
    AUTO_FREE char *real = NULL;
    PASS(find_real(results, &real, e));
    return mem_format(out, e, "qtraj %s", real);
}

void slurm_find_jobs(const char *comment, char *ids, size_t size)
{
    const char *own = getenv("SLURM_JOB_ID");
    char uid[32], *next = NULL;
    const char *const argv[] = {"squeue", "-h", "-u", uid, "-o", "%F %A %T %k", NULL};
    snprintf(uid, sizeof uid, "%lld", (long long)getuid());
    char *answer = answer_of(argv);
    ids[0] = '\0';
    for (char *line = answer ? strtok_r(answer, "\n", &next) : NULL; line;
         line = strtok_r(NULL, "\n", &next)) {
        char array[32], job[32], state[32], id[40];
        int at = 0;
        if (sscanf(line, "%31s %31s %31s %n", array, job, state, &at) != 3 || !at) continue;
        if (strcmp(line + at, comment) != 0 || strcmp(state, "COMPLETING") == 0) continue;
        if (own && strcmp(own, job) == 0) continue;
        snprintf(id, sizeof id, " %s ", array);
        const size_t used = strlen(ids);
        if (strstr(ids, id) || used + strlen(id) > size) continue; /* whole ids only */
        snprintf(ids + used, size - used, "%s", used ? id + 1 : id);
    }
    ids[strlen(ids) - (ids[0] != '\0')] = '\0';
    if (ids[0]) memmove(ids, ids + 1, strlen(ids)); /* without the blanks around them */
    free(answer);
}

enum status slurm_check_jobs(const struct plan *p, const char *comment, struct plan_faults *f,
                             struct err *e)
{
    char ids[512];
    slurm_find_jobs(comment, ids, sizeof ids);
    if (!ids[0]) {
        /* A process, in no job that squeue knows, that computes these results or a part. */
        CLEANUP(parts_free) struct part_places all = {0};
        int64_t n = 0;
        struct lock_holder first = {0};
        if (parts_of(p->sweep->results, &all, NULL) != OK)
            return OK; /* no folder: a fault already */
        for (int64_t i = 0; i < all.n; i++) {
            const struct lock_holder h = lock_look(all.part[i].journal);
            if (!h.held || (!h.certain && !h.renewed)) continue;
            if (!n++) first = h;
        }
        if (n)
            PASS(plan_faults_add(
                f, p, e,
                "%lld process%s compute%s these results (%lld on %s): the jobs would compute the "
                "same twice; wait, or stop %s",
                (long long)n, n > 1 ? "es" : "", n > 1 ? "" : "s", (long long)first.pid, first.host,
                n > 1 ? "them" : "it"));
        return OK;
    }
    return plan_faults_add(f, p, e,
                           "jobs of these results wait or run: %s; others would compute the same "
                           "twice: wait for them, or `scancel %s`",
                           ids, ids);
}

bool slurm_python_found(const char *script, char *why, size_t size)
{
    char answer[ANSWER] = "";
    const char *const argv[] = {script, NULL};
    const bool asked = slurm_ask(argv, "30", answer, sizeof answer);
    join_lines(answer);
    const char *last = strrchr(answer, ';');
    snprintf(why, size, "%s", asked ? answer : "no answer");
    return asked && (last ? last[1] : answer[0]) == '/'; /* its path is the last line */
}

/* --- what would make the jobs fail --- */

static enum status check_folder(const struct plan *p, const char *key, const char *path,
                                struct plan_faults *f, struct err *e)
{
    char why[1000];
    if (folder_is_writable(path, why, sizeof why)) return OK;
    return plan_faults_add(f, p, e, "%s: %s: %s", key, path, why);
}

enum status run_check_results(struct plan *p, struct plan_faults *f, struct err *e)
{
    char *folder;
    struct err why = {0};
    const char *results = p->results;
    const int64_t before = f->all.n;
    if (fsx_is_dir(results))
        return plan_faults_add(f, p, e, "results: %s is a folder; expected a file's name", results);
    enum status st = sweep_check_results(p->sweep, &why);
    if (st != OK) {
        st = plan_faults_add(f, p, e, "%s", why.text);
        err_clear(&why);
        return st;
    }
    PASS(fsx_parent(results, &folder, e));
    st = check_folder(p, "results", folder, f, e);
    free(folder);
    if (st != OK || f->all.n != before) return st;
    st = run_journal_check(results, &why);
    if (st == OK) st = owner_check(p, results, &why);
    if (st == OK) st = owner_check_weights(p, &why);
    if (st == OK) return OK;
    if (st == ERR_NOMEM) RAISE(st, "%s", why.text);
    st = plan_faults_add(f, p, e, "%s", why.text);
    return st;
}

static bool on_path(const char *program)
{
    const char *path = getenv("PATH");
    bool found = false;
    if (strchr(program, '/')) return access(program, X_OK) == 0;
    for (const char *at = path ? path : ""; *at && !found;) {
        const size_t n = strcspn(at, ":");
        char *file = NULL;
        if (mem_format(&file, NULL, "%.*s/%s", (int)n, at, program) != OK) return false;
        found = access(file, X_OK) == 0;
        free(file);
        at += n + (at[n] == ':');
    }
    return found;
}

enum status slurm_check_folders(struct plan *p, const char *report, struct plan_faults *f,
                                struct err *e)
{
    const struct sweep *s = p->sweep;
    const char *states = s->run.checkpoints;
    PASS(run_check_results(p, f, e));
    if (report) PASS(check_folder(p, "--report", report, f, e));
    if (states && strcmp(states, "off") != 0)
        PASS(check_folder(p, "run.checkpoints", states, f, e));
    AUTO_FREE char *folder = NULL;
    int64_t room;
    struct err why = {0};
    const enum status found = scratch_find(s->run.scratch, 1, &folder, &room, &why);
    if (found != OK && s->run.scratch)
        PASS(plan_faults_add(f, p, e, "%s (if only nodes have it: --anyway)", why.text));
    for (const struct model_entry *m = s->models; m < s->models + s->n_models; m++) {
        AUTO_FREE char *program = NULL;
        if (!m->stage || !s->run.stage_commands) continue;
        PASS(mem_format(&program, e, "%.*s", (int)strcspn(m->stage, "\n"), m->stage));
        if (!on_path(program))
            PASS(plan_faults_add(f, p, e, "%s: stage: %s: no such program", m->name, program));
    }
    return OK;
}

enum status slurm_rate_known(const char *results, const char *partition, char **file, char **rate,
                             struct err *e)
{
    AUTO_FREE char *folder = NULL;
    char text[64];
    PASS(fsx_parent(results, &folder, e));
    PASS(mem_format(file, e, "%s/qtraj-rate-%s.txt", folder, partition ? partition : "default"));
    if (fsx_text(*file, text, sizeof text)) {
        text[strcspn(text, "\n")] = '\0';
        if (strtod(text, NULL) > 0) PASS(mem_string(rate, text, e));
    }
    return OK;
}
