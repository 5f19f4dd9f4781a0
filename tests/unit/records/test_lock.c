/* One run at a time; exactly one other run takes over the lock of a dead one. */
#include "sample.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static json_t *lock_text(const char *results)
{
    char *path;
    json_t *json;
    assert_int_equal(mem_format(&path, NULL, "%s.lock", results), OK);
    assert_int_equal(json_read_file(path, 0, &json, NULL), OK);
    free(path);
    return json;
}

static void put_lock(const char *results, const json_t *json)
{
    char *path, *text = json_dumps(json, 0);
    assert_int_equal(mem_format(&path, NULL, "%s.lock", results), OK);
    assert_int_equal(fsx_write_atomic(path, text, strlen(text), NULL), OK);
    free(path);
    free(text);
}

/* The lock was renewed so many seconds ago, at most when time began. */
static void set_age(const char *results, int64_t seconds)
{
    char *path;
    struct timespec now, times[2];
    clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec = now.tv_sec > seconds ? now.tv_sec - seconds : 0;
    times[0] = times[1] = now;
    assert_int_equal(mem_format(&path, NULL, "%s.lock", results), OK);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    free(path);
}

static const char *rival; /* a lock file that takes the place of the next one that is removed */

static void take_over(const char *path)
{
    const char *name = rival;
    if (!name || strlen(path) < 5 || strcmp(path + strlen(path) - 5, ".lock") != 0) return;
    rival = NULL;
    assert_int_equal(renameat(AT_FDCWD, name, AT_FDCWD, path), 0);
}

/* In place of the C library's, for all of this program. */
int unlink(const char *path)
{
    take_over(path);
    return unlinkat(AT_FDCWD, path, 0);
}

int rename(const char *from, const char *to)
{
    take_over(from);
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

/* Somebody takes the lock over after its holder has looked whose it is, before it removes it. */
static void is_taken_over_at_the_last_moment(bool abandons)
{
    char *folder = sample_folder(), *results = sample_path(folder, "x.journal"),
         *other = sample_path(folder, "other");
    struct lock *l;
    assert_int_equal(lock_take(results, NULL, &l, NULL), OK);
    assert_int_equal(fsx_write_atomic(other, "{\"pid\":1}", 9, NULL), OK);
    rival = other;
    if (abandons) lock_abandon(l);
    lock_release(l);
    assert_null(rival);
    json_t *json = lock_text(results);
    assert_int_equal(json_integer_value(json_object_get(json, "pid")), 1);
    assert_int_equal(sample_files(folder), 1);
    json_decref(json);
    free(results);
    free(other);
    sample_remove(folder);
}

static void release_leaves_the_lock_of_who_took_over(void **state)
{
    (void)state;
    is_taken_over_at_the_last_moment(false);
    is_taken_over_at_the_last_moment(true);
}

static void second_is_refused(void **state)
{
    (void)state;
    char *folder = sample_folder(), *results = sample_path(folder, "x.journal");
    char host[256] = "", pid[32];
    struct lock *first, *second;
    struct err e = {0};
    gethostname(host, sizeof host - 1);
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    assert_int_equal(lock_take(results, NULL, &first, &e), OK);
    assert_int_equal(sample_files(folder), 1);
    assert_int_equal(lock_take(results, NULL, &second, &e), ERR_LOCKED);
    assert_non_null(strstr(e.text, results));
    assert_non_null(strstr(e.text, host));
    assert_non_null(strstr(e.text, pid));
    lock_release(first);
    assert_int_equal(sample_files(folder), 0);
    err_clear(&e);
    assert_int_equal(lock_take(results, NULL, &second, &e), OK);
    lock_release(second);
    lock_release(NULL);
    free(results);
    sample_remove(folder);
}

/* Who holds it, for those who only read. */
static void it_is_looked_at(void **state)
{
    (void)state;
    char *folder = sample_folder(), *results = sample_path(folder, "x.journal"), host[256] = "";
    struct lock *l;
    gethostname(host, sizeof host - 1);
    assert_false(lock_look(results).held);
    assert_int_equal(lock_take(results, NULL, &l, NULL), OK);
    struct lock_holder holder = lock_look(results);
    assert_true(holder.held && holder.certain);
    assert_int_equal(holder.pid, getpid());
    assert_string_equal(holder.host, host);
    assert_int_equal(strlen(holder.utc), 20);
    json_t *json = lock_text(results), *mine = json_copy(json);
    lock_release(l);
    assert_false(lock_look(results).held);
    json_object_set_new(json, "host", json_string("another"));
    json_object_set_new(json, "boot_id", json_string("another"));
    put_lock(results, json);
    holder = lock_look(results);
    assert_true(holder.held && !holder.certain);
    assert_string_equal(holder.host, "another");
    set_age(results, 200); /* not renewed for more than the lease */
    assert_false(lock_look(results).held);
    json_object_set_new(mine, "start", json_integer(1)); /* that process has ended */
    put_lock(results, mine);
    assert_false(lock_look(results).held);
    assert_int_equal(sample_files(folder), 1); /* it was only looked at */
    json_decref(json);
    json_decref(mine);
    free(results);
    sample_remove(folder);
}

/* Takes the lock in a child that ends without releasing it. */
static pid_t die_with_lock(const char *results)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct lock *l;
        _exit(lock_take(results, NULL, &l, NULL) == OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return child;
}

static void dead_holder_is_replaced(void **state)
{
    (void)state;
    char *folder = sample_folder(), *results = sample_path(folder, "x.journal");
    struct lock *l;
    struct err e = {0};
    die_with_lock(results);
    assert_int_equal(lock_take(results, NULL, &l, &e), OK);
    json_t *json = lock_text(results);
    assert_int_equal(json_integer_value(json_object_get(json, "pid")), getpid());
    json_decref(json);
    assert_int_equal(sample_files(folder), 1);
    lock_release(l);
    assert_int_equal(sample_files(folder), 0);
    free(results);
    sample_remove(folder);
}

/* A killed holder that its parent has not reaped still has its process id. */
static void zombie_is_dead(void **state)
{
    (void)state;
    char *folder = sample_folder(), *results = sample_path(folder, "x.journal"), byte;
    int ready[2];
    struct lock *l;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        if (lock_take(results, NULL, &l, NULL) != OK || write(ready[1], "x", 1) != 1) _exit(1);
        pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(lock_take(results, NULL, &l, NULL), ERR_LOCKED);
    kill(child, SIGKILL);
    assert_int_equal(lock_take(results, NULL, &l, NULL), OK);
    lock_release(l);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ready[0]);
    close(ready[1]);
    free(results);
    sample_remove(folder);
}

/* Our lock with some things changed, renewed so many seconds ago: what a second process gets. With
 * a journal it is known, too, that the first no longer holds that. */
static enum status take_with(json_t *changes, int64_t age, bool journal)
{
    char *folder = sample_folder(), *results = sample_path(folder, "x.journal");
    const struct lock_options o = {.create = journal};
    struct lock *l;
    assert_int_equal(lock_take(results, &o, &l, NULL), OK);
    json_t *json = lock_text(results);
    lock_release(l);
    json_object_update_new(json, changes);
    put_lock(results, json);
    set_age(results, age);
    json_decref(json);
    enum status st = lock_take(results, &o, &l, NULL);
    if (st == OK) lock_release(l);
    free(results);
    sample_remove(folder);
    return st;
}

#define OTHER_BOOT "boot_id", "another boot"

static void only_the_certainly_dead(void **state)
{
    (void)state;
    const int64_t ever = (int64_t)1 << 40;
    assert_int_equal(take_with(json_object(), 0, false), ERR_LOCKED);
    assert_int_equal(take_with(json_pack("{s:s}", "host", "another"), 0, false), ERR_LOCKED);
    assert_int_equal(take_with(json_pack("{s:s}", "pid_namespace", "pid:[1]"), 0, false),
                     ERR_LOCKED);
    assert_int_equal(take_with(json_pack("{s:s}", "pid", "?"), 0, false), ERR_LOCKED);
    assert_int_equal(take_with(json_pack("{s:i}", "start", 1), 0, false), OK); /* a reused id */
    /* A process of another container: its journal says whether it is gone. */
    assert_int_equal(take_with(json_pack("{s:s}", "pid_namespace", "pid:[1]"), 0, true), OK);
    assert_int_equal(
        take_with(json_pack("{s:s, s:i}", "pid_namespace", "pid:[1]", "journal_inode", 1), 0, true),
        ERR_LOCKED);
    /* Another boot: of this host, unless the lock was renewed since this one began. */
    assert_int_equal(take_with(json_pack("{s:s}", OTHER_BOOT), ever, true), OK);
    assert_int_equal(take_with(json_pack("{s:s}", OTHER_BOOT), 0, true), ERR_LOCKED);
    assert_int_equal(take_with(json_pack("{s:s, s:s}", OTHER_BOOT, "host", "another"), 1, true),
                     ERR_LOCKED);
}

/* Not renewed for its lease: taken over after a quarter of it, and the journal is then a copy. */
static void lease_expires(void **state)
{
    (void)state;
    const char *const host[] = {"this", "another"};
    for (int i = 0; i < 2; i++) {
        char *folder = sample_folder(), *results = sample_path(folder, "x.journal");
        const struct lock_options o = {.create = true};
        struct lock *l;
        struct stat before, after;
        assert_int_equal(fsx_write_atomic(results, "text", 4, NULL), OK);
        assert_int_equal(stat(results, &before), 0);
        json_t *json =
            json_pack("{s:s, s:s, s:i, s:f}", OTHER_BOOT, "host", host[i], "pid", 1, "lease", 0.4);
        put_lock(results, json);
        set_age(results, 1);
        json_decref(json);
        assert_int_equal(lock_take(results, &o, &l, NULL), OK);
        assert_int_equal(lock_check(l, NULL), OK);
        assert_int_equal(stat(results, &after), 0);
        assert_int_not_equal(before.st_ino, after.st_ino);
        assert_int_equal(after.st_size, 4);
        assert_int_equal(sample_files(folder), 2);
        lock_release(l);
        free(results);
        sample_remove(folder);
    }
}

static void wait_for_renewal(const char *results)
{
    char *path;
    struct stat before, now;
    assert_int_equal(mem_format(&path, NULL, "%s.lock", results), OK);
    assert_int_equal(stat(path, &before), 0);
    do {
        usleep(10000);
        assert_int_equal(stat(path, &now), 0);
    } while (now.st_mtim.tv_sec == before.st_mtim.tv_sec &&
             now.st_mtim.tv_nsec == before.st_mtim.tv_nsec);
    free(path);
}

static void set_flag(void *flag)
{
    *(volatile bool *)flag = true;
}

/* A holder that is stopped: refused while its lease lasts, then taken over; it finds out. A lease
 * that it renews does not end. */
static void stopped_holder(void **state)
{
    (void)state;
    char *folder = sample_folder(), *results = sample_path(folder, "x.journal"), byte;
    const struct lock_options o = {.create = true};
    int ready[2];
    struct lock *l;
    setenv("QTRAJ_LEASE", "4", 1);
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        volatile bool lost = false;
        struct err e = {0};
        const struct lock_options mine = {true, set_flag, (void *)(uintptr_t)&lost};
        if (lock_take(results, &mine, &l, NULL) != OK || write(ready[1], "x", 1) != 1) _exit(1);
        for (int i = 0; i < 2000 && !lost; i++) usleep(10000);
        if (!lost || lock_check(l, &e) != ERR_IO || !strstr(e.text, "taken over")) _exit(2);
        lock_release(l);
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    wait_for_renewal(results);
    assert_int_equal(lock_take(results, &o, &l, NULL), ERR_LOCKED); /* it was renewed */
    kill(child, SIGSTOP);
    enum status st;
    while ((st = lock_take(results, &o, &l, NULL)) == ERR_LOCKED) usleep(10000);
    assert_int_equal(st, OK);
    kill(child, SIGCONT);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(lock_check(l, NULL), OK);
    assert_int_equal(sample_files(folder), 2);
    lock_release(l);
    unsetenv("QTRAJ_LEASE");
    close(ready[0]);
    close(ready[1]);
    free(results);
    sample_remove(folder);
}

/* A scontrol that says this of every job; what a second process gets of a lock of job 7. */
static enum status take_from_job(const char *says, double lease)
{
    char *folder = sample_folder(), *tool = sample_path(folder, "scontrol"), *script;
    char *path = NULL, *kept = NULL;
    assert_int_equal(mem_string(&kept, getenv("PATH"), NULL), OK);
    assert_int_equal(mem_format(&path, NULL, "%s:%s", folder, kept), OK);
    assert_int_equal(mem_format(&script, NULL, "#!/bin/sh\n%s\n", says), OK);
    assert_int_equal(fsx_write_atomic(tool, script, strlen(script), NULL), OK);
    assert_int_equal(chmod(tool, 0755), 0);
    setenv("PATH", path, 1);
    enum status st = take_with(json_pack("{s:s, s:s, s:s, s:f, s:s}", OTHER_BOOT, "host", "another",
                                         "slurm_job", "7", "lease", lease, "slurm_restarts", "1"),
                               0, true);
    setenv("PATH", kept, 1);
    free(kept);
    free(path);
    free(script);
    free(tool);
    sample_remove(folder);
    return st;
}

/* What Slurm says of the job counts, but not against a holder that renews its lock. */
static void slurm_says(void **state)
{
    (void)state;
    static const char job[] = "echo JobId=7 JobName=x JobState=%s Reason=None Restarts=%d x=y";
    static const struct {
        const char *state;
        int restarts;
        enum status expected;
    } cases[] = {{"RUNNING", 1, ERR_LOCKED}, {"COMPLETING", 1, ERR_LOCKED}, {"RUNNING", 2, OK},
                 {"PENDING", 2, OK},         {"NODE_FAIL", 1, OK},          {"TIMEOUT", 1, OK}};
    char says[128];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(says, sizeof says, job, cases[i].state, cases[i].restarts);
        const double lease = cases[i].expected == OK ? 0.4 : 60;
        assert_int_equal(take_from_job(says, lease), cases[i].expected);
    }
    assert_int_equal(
        take_from_job("echo slurm_load_jobs error: Invalid job id specified; exit 1", 0.4), OK);
    assert_int_equal(take_from_job("echo Unable to contact slurm controller; exit 1", 60),
                     ERR_LOCKED);
    assert_int_equal(take_from_job("exit 1", 60), ERR_LOCKED);
    setenv("SLURM_JOB_ID", "7", 1); /* a later start of the same job need not ask */
    setenv("SLURM_RESTART_COUNT", "2", 1);
    assert_int_equal(take_from_job("exit 1", 0.4), OK);
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_RESTART_COUNT");
}

/* Other names of a journal are the same journal; a lock file that was removed keeps nobody out. */
static void every_name(void **state)
{
    (void)state;
    char *folder = sample_folder(), *results = sample_path(folder, "x.journal"), *path;
    char *soft = sample_path(folder, "soft.journal"), *hard = sample_path(folder, "hard.journal");
    const struct lock_options o = {.create = true};
    struct lock *first, *second;
    struct err e = {0};
    assert_int_equal(mem_format(&path, NULL, "%s.lock", results), OK);
    assert_int_equal(symlink("x.journal", soft), 0);
    assert_int_equal(lock_take(soft, &o, &first, NULL), OK); /* where the link leads */
    assert_true(fsx_is_file(results));
    assert_int_equal(link(results, hard), 0);
    assert_int_equal(lock_take(results, &o, &second, &e), ERR_LOCKED);
    err_clear(&e);
    assert_int_equal(lock_take(hard, &o, &second, &e), ERR_LOCKED);
    assert_non_null(strstr(e.text, "another process is writing it"));
    assert_int_equal(unlink(path), 0);
    err_clear(&e);
    assert_int_equal(lock_take(results, &o, &second, &e), ERR_LOCKED);
    assert_int_equal(lock_check(first, NULL), OK); /* which makes it again */
    assert_true(fsx_is_file(path));
    lock_release(first);
    assert_int_equal(sample_files(folder), 3);
    assert_int_equal(lock_take(hard, &o, &second, &e), OK);
    lock_release(second);
    free(path);
    free(results);
    free(soft);
    free(hard);
    sample_remove(folder);
}

/* What a run leaves that is killed as it takes the lock, or writes a file. */
static void leftovers_go(void **state)
{
    (void)state;
    char *folder = sample_folder(), *results = sample_path(folder, "x.journal");
    char *mine = sample_path(folder, "x.journal.tmp.12x"), *text, host[25], name[128];
    struct lock *l;
    const pid_t dead = die_with_lock(results);
    gethostname(host, sizeof host);
    host[sizeof host - 1] = '\0';
    snprintf(name, sizeof name, "x.journal.lock.tmp.%s.%ld.0123abcd", host, (long)dead);
    char *lock = sample_path(folder, "x.journal.lock"), *left = sample_path(folder, name);
    snprintf(name, sizeof name, "x.journal.lock.tmp.%s.%ld.4567cdef", host, (long)dead);
    char *empty = sample_path(folder, name); /* killed before its first write */
    char *half = sample_path(folder, "x.journal.tmp.123");
    assert_int_equal(fsx_read(lock, 0, &text, NULL, NULL), OK);
    assert_int_equal(fsx_write_atomic(left, text, strlen(text), NULL), OK);
    assert_int_equal(fsx_write_atomic(empty, "", 0, NULL), OK);
    assert_int_equal(fsx_write_atomic(half, text, strlen(text), NULL), OK);
    assert_int_equal(fsx_write_atomic(mine, text, strlen(text), NULL), OK);
    assert_int_equal(lock_take(results, NULL, &l, NULL), OK);
    assert_int_equal(sample_files(folder), 2);
    assert_true(fsx_is_file(mine));
    lock_release(l);
    free(text);
    free(lock);
    free(left);
    free(empty);
    free(half);
    free(mine);
    free(results);
    sample_remove(folder);
}

static void garbage_is_refused_for_a_lease(void **state)
{
    (void)state;
    char *folder = sample_folder(), *results = sample_path(folder, "x.journal"), *path;
    struct lock *l;
    struct err e = {0};
    assert_int_equal(mem_format(&path, NULL, "%s.lock", results), OK);
    assert_int_equal(fsx_write_atomic(path, "hello", 5, NULL), OK);
    assert_int_equal(lock_take(results, NULL, &l, &e), ERR_LOCKED);
    assert_non_null(strstr(e.text, "not readable as a lock"));
    assert_int_equal(sample_files(folder), 1);
    free(path);
    free(results);
    sample_remove(folder);
}

/* Many processes compete for one stale lock: exactly one gets it. The winner holds it until all
 * have tried; the pipe signals this when the last child has closed its end. */
static void one_of_many_takers(void **state)
{
    (void)state;
    enum { TAKERS = 8, ROUNDS = 6 };
    for (int round = 0; round < ROUNDS; round++) {
        char *folder = sample_folder(), *results = sample_path(folder, "x.journal");
        int go[2], said[2], hold[2], won = 0;
        char answer;
        die_with_lock(results);
        assert_int_equal(pipe(go), 0);
        assert_int_equal(pipe(said), 0);
        assert_int_equal(pipe(hold), 0);
        for (int i = 0; i < TAKERS; i++) {
            if (fork() != 0) continue;
            struct lock *l;
            char c;
            close(go[1]);
            close(hold[1]);
            if (freopen("/dev/null", "w", stderr) == NULL) _exit(1);
            if (read(go[0], &c, 1) != 0) _exit(1); /* all start together */
            c = lock_take(results, NULL, &l, NULL) == OK ? 'y' : 'n';
            if (write(said[1], &c, 1) != 1) _exit(1);
            if (read(hold[0], &c, 1) != 0) _exit(1);
            _exit(0);
        }
        close(go[0]);
        close(go[1]);
        close(said[1]);
        close(hold[0]);
        for (int i = 0; i < TAKERS; i++) {
            assert_int_equal(read(said[0], &answer, 1), 1);
            won += answer == 'y';
        }
        close(said[0]);
        close(hold[1]);
        for (int i = 0; i < TAKERS; i++) wait(NULL);
        assert_int_equal(won, 1);
        assert_int_equal(sample_files(folder), 1);
        free(results);
        sample_remove(folder);
    }
}

static void release_leaves_another_lock(void **state)
{
    (void)state;
    char *folder = sample_folder(), *results = sample_path(folder, "x.journal"), *path;
    struct lock *first, *second;
    assert_int_equal(mem_format(&path, NULL, "%s.lock", results), OK);
    assert_int_equal(lock_take(results, NULL, &first, NULL), OK);
    assert_int_equal(unlink(path), 0); /* by hand */
    assert_int_equal(lock_take(results, NULL, &second, NULL), OK);
    lock_release(first);
    assert_int_equal(sample_files(folder), 1);
    lock_release(second);
    assert_int_equal(sample_files(folder), 0);
    free(path);
    free(results);
    sample_remove(folder);
}

static void no_folder(void **state)
{
    (void)state;
    struct lock *l;
    struct err e = {0};
    char *folder = sample_folder(), *path = sample_path(folder, "absent/x.journal");
    assert_int_equal(lock_take(path, NULL, &l, &e), ERR_IO);
    assert_non_null(strstr(e.text, "/absent/x.journal.lock: ")); /* no temporary name */
    free(path);
    sample_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(release_leaves_the_lock_of_who_took_over),
        cmocka_unit_test(second_is_refused),
        cmocka_unit_test(it_is_looked_at),
        cmocka_unit_test(dead_holder_is_replaced),
        cmocka_unit_test(zombie_is_dead),
        cmocka_unit_test(only_the_certainly_dead),
        cmocka_unit_test(lease_expires),
        cmocka_unit_test(stopped_holder),
        cmocka_unit_test(slurm_says),
        cmocka_unit_test(every_name),
        cmocka_unit_test(leftovers_go),
        cmocka_unit_test(garbage_is_refused_for_a_lease),
        cmocka_unit_test(one_of_many_takers),
        cmocka_unit_test(release_leaves_another_lock),
        cmocka_unit_test(no_folder),
    };
    return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
