/* One run at a time; exactly one other run takes over the lock of a dead one. */
#include "sample.h"
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

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

static void second_is_refused(void **state)
{
    (void)state;
    char *folder = sample_folder(), *results = sample_path(folder, "x.h5");
    char host[256] = "", pid[32];
    struct lock *first, *second;
    struct err e = {0};
    gethostname(host, sizeof host - 1);
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    assert_int_equal(lock_take(results, &first, &e), OK);
    assert_int_equal(sample_files(folder), 1);
    assert_int_equal(lock_take(results, &second, &e), ERR_LOCKED);
    assert_non_null(strstr(e.text, results));
    assert_non_null(strstr(e.text, host));
    assert_non_null(strstr(e.text, pid));
    lock_release(first);
    assert_int_equal(sample_files(folder), 0);
    err_clear(&e);
    assert_int_equal(lock_take(results, &second, &e), OK);
    lock_release(second);
    lock_release(NULL);
    free(results);
    sample_remove(folder);
}

/* Who holds it, for those who only read. */
static void it_is_looked_at(void **state)
{
    (void)state;
    char *folder = sample_folder(), *results = sample_path(folder, "x.h5"), host[256] = "";
    struct lock *l;
    gethostname(host, sizeof host - 1);
    assert_false(lock_look(results).held);
    assert_int_equal(lock_take(results, &l, NULL), OK);
    struct lock_holder holder = lock_look(results);
    assert_true(holder.held && holder.certain);
    assert_int_equal(holder.pid, getpid());
    assert_string_equal(holder.host, host);
    assert_int_equal(strlen(holder.utc), 20);
    json_t *json = lock_text(results);
    lock_release(l);
    assert_false(lock_look(results).held);
    json_object_set_new(json, "host", json_string("another"));
    put_lock(results, json);
    holder = lock_look(results);
    assert_true(holder.held && !holder.certain);
    assert_string_equal(holder.host, "another");
    json_object_set_new(json, "host", json_string(host));
    json_object_set_new(json, "start", json_integer(1)); /* that process has ended */
    put_lock(results, json);
    assert_false(lock_look(results).held);
    assert_int_equal(sample_files(folder), 1); /* it was only looked at */
    json_decref(json);
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
        _exit(lock_take(results, &l, NULL) == OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return child;
}

static void dead_holder_is_replaced(void **state)
{
    (void)state;
    char *folder = sample_folder(), *results = sample_path(folder, "x.h5");
    struct lock *l;
    struct err e = {0};
    die_with_lock(results);
    assert_int_equal(lock_take(results, &l, &e), OK);
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
    char *folder = sample_folder(), *results = sample_path(folder, "x.h5"), byte;
    int ready[2];
    struct lock *l;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        if (lock_take(results, &l, NULL) != OK || write(ready[1], "x", 1) != 1) _exit(1);
        pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(lock_take(results, &l, NULL), ERR_LOCKED);
    kill(child, SIGKILL);
    assert_int_equal(lock_take(results, &l, NULL), OK);
    lock_release(l);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ready[0]);
    close(ready[1]);
    free(results);
    sample_remove(folder);
}

/* Our lock with one thing changed: who may take it over. */
static enum status take_with(const char *key, json_t *value)
{
    char *folder = sample_folder(), *results = sample_path(folder, "x.h5");
    struct lock *l;
    assert_int_equal(lock_take(results, &l, NULL), OK);
    json_t *json = lock_text(results);
    lock_release(l);
    if (key) json_object_set_new(json, key, value);
    put_lock(results, json);
    json_decref(json);
    enum status st = lock_take(results, &l, NULL);
    if (st == OK) lock_release(l);
    free(results);
    sample_remove(folder);
    return st;
}

static void only_the_certainly_dead(void **state)
{
    (void)state;
    assert_int_equal(take_with(NULL, NULL), ERR_LOCKED);
    assert_int_equal(take_with("host", json_string("another")), ERR_LOCKED);
    assert_int_equal(take_with("pid_namespace", json_string("pid:[1]")), ERR_LOCKED);
    assert_int_equal(take_with("pid", json_string("?")), ERR_LOCKED);
    assert_int_equal(take_with("boot_id", json_string("an earlier boot")), OK);
    assert_int_equal(take_with("start", json_integer(1)), OK); /* the process id was reused */
}

static void garbage_is_not_taken_over(void **state)
{
    (void)state;
    char *folder = sample_folder(), *results = sample_path(folder, "x.h5"), *path;
    struct lock *l;
    struct err e = {0};
    assert_int_equal(mem_format(&path, NULL, "%s.lock", results), OK);
    assert_int_equal(fsx_write_atomic(path, "hello", 5, NULL), OK);
    assert_int_equal(lock_take(results, &l, &e), ERR_LOCKED);
    assert_non_null(strstr(e.text, "delete"));
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
    enum { TAKERS = 8, ROUNDS = 12 };
    for (int round = 0; round < ROUNDS; round++) {
        char *folder = sample_folder(), *results = sample_path(folder, "x.h5");
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
            c = lock_take(results, &l, NULL) == OK ? 'y' : 'n';
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
    char *folder = sample_folder(), *results = sample_path(folder, "x.h5"), *path;
    struct lock *first, *second;
    assert_int_equal(mem_format(&path, NULL, "%s.lock", results), OK);
    assert_int_equal(lock_take(results, &first, NULL), OK);
    assert_int_equal(unlink(path), 0); /* by hand */
    assert_int_equal(lock_take(results, &second, NULL), OK);
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
    char *folder = sample_folder(), *path = sample_path(folder, "absent/x.h5");
    assert_int_equal(lock_take(path, &l, &e), ERR_IO);
    assert_non_null(strstr(e.text, "/absent/x.h5.lock: ")); /* no temporary name */
    free(path);
    sample_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(second_is_refused),
        cmocka_unit_test(it_is_looked_at),
        cmocka_unit_test(dead_holder_is_replaced),
        cmocka_unit_test(zombie_is_dead),
        cmocka_unit_test(only_the_certainly_dead),
        cmocka_unit_test(garbage_is_not_taken_over),
        cmocka_unit_test(one_of_many_takers),
        cmocka_unit_test(release_leaves_another_lock),
        cmocka_unit_test(no_folder),
    };
    return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
