/* Many users of one ledger in a space that is too small for them, simulated: what they do comes in
 * random order, visits read random sets, and users are killed at any moment and start again.
 * Nothing is downloaded: a fetch is a file that grows by a piece at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scratch.h"
#include "stage/stager_internal.h"
#include "stage/tree.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/num.h"
#include <sys/stat.h>

enum { USERS = 5, CHECKPOINTS = 14, VISITS = 12, READS = 4, GROUPS = 3, PIECES = 4, PIECE = 1000 };

enum phase { HERE, BEGUN, DONE };

struct visit {
    int64_t n, reads[READS]; /* checkpoints */
    enum phase phase;
    int left; /* steps until it ends */
};

struct user {
    char name[64];
    struct stager *s; /* NULL: not running */
    bool uses, commands;
    int64_t n, groups;
    struct visit visits[USERS * VISITS];
    int64_t place[USERS * VISITS]; /* of the stager's visits among these */
    int64_t items[CHECKPOINTS];
    int64_t growing, deaths; /* growing: bytes of the running fetch; -1: none runs */
};

static struct world {
    json_t *state;
    struct user users[USERS + 1];
    int64_t n_users, n_checkpoints, space, size[CHECKPOINTS];
    int64_t fetches[CHECKPOINTS], readers[CHECKPOINTS], deaths, stalls, steps;
    bool grows; /* checkpoints differ in size, which nobody knows before */
} w;

static struct err error;
static char base[512];
static uint64_t seed;

static int64_t below(int64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

static const char *path_of(int64_t c)
{
    static char paths[4][600];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof *paths, "%s/c%02lld", base, (long long)c);
    return path;
}

static int64_t number_of(const char *path)
{
    return atoll(strrchr(path, '/') + 2);
}

/* --- users --- */

/* What is left for the user to do, as a job. */
static json_t *job_of(struct user *u)
{
    json_t *items = json_array(), *visits = json_array();
    int64_t index[CHECKPOINTS], n = 0;
    memset(index, -1, sizeof index);
    for (int64_t i = 0; i < u->n; i++) {
        json_t *one = json_array();
        if (u->visits[i].phase == DONE) continue;
        u->place[json_array_size(visits)] = i;
        for (int64_t k = 0; k < u->visits[i].n; k++) {
            const int64_t c = u->visits[i].reads[k];
            if (index[c] < 0)
                json_array_append_new(items, json_pack("{s:s, s:s, s:s, s:b, s:[s]}", "name", "m c",
                                                       "model", "m", "path", path_of(c), "keep", 0,
                                                       "command", "none"));
            if (index[c] < 0) index[c] = n++;
            json_array_append_new(one, json_integer((json_int_t)index[c]));
        }
        json_array_append_new(visits, one);
    }
    return json_pack("{s:s, s:s, s:I, s:i, s:f, s:b, s:b, s:o, s:o}", "folder", base, "user",
                     u->name, "space", (json_int_t)w.space, "tries", 2, "pause", 0.01, "commands",
                     u->commands, "uses", u->uses, "items", items, "visits", visits);
}

static void change(struct user *u, ledger_change *what)
{
    bool changed = false;
    if (what(u->s, w.state, &changed, &error) != OK) fail_msg("%s", error.text);
}

static void look(struct user *u)
{
    change(u, stager_arrange);
    u->s->begun = true;
    bool dropped = false;
    for (int64_t i = 0; i < u->s->n_items; i++) {
        if (!u->s->items[i].unwanted) continue;
        dropped = true;
        if (u->growing >= 0 && u->s->fetching == i) u->growing = -1;
    }
    if (dropped) change(u, stager_unclaim);
    for (int64_t i = 0; i < u->s->leaving.n; i++) {
        static const char *const what[] = {"removing", "partial"};
        for (int k = 0; k < 2; k++) {
            char *beside;
            assert_int_equal(ledger_beside(u->s->leaving.text[i], what[k], &beside, &error), OK);
            assert_int_equal(tree_remove(beside, &error), OK);
            free(beside);
        }
        json_object_del(json_object_get(w.state, "checkpoints"), u->s->leaving.text[i]);
    }
    texts_free(&u->s->leaving);
    u->s->leaving = (struct texts){0};
}

static void start(struct user *u)
{
    json_t *job = job_of(u);
    if (stager_open(job, &u->s, &error) != OK) fail_msg("%s", error.text);
    json_decref(job);
    u->growing = -1;
    look(u);
}

/* kill -9: what it has claimed, begun and registered stays as it is. */
static void kill_user(struct user *u)
{
    stager_close(u->s);
    u->s = NULL;
    u->deaths++;
    w.deaths++;
    for (int64_t i = 0; i < u->n; i++)
        if (u->visits[i].phase == BEGUN) u->visits[i].phase = HERE;
}

/* --- fetching --- */

static void grow(struct user *u)
{
    char file[700];
    struct item *item = &u->s->items[u->s->fetching];
    const int64_t c = number_of(item->path);
    u->growing += PIECE;
    snprintf(file, sizeof file, "%s/a", item->partial);
    assert_int_equal(truncate(file, (off_t)min64(u->growing, w.size[c])), 0);
    change(u, stager_measure);
    assert_false(u->s->hopeless);
    if (u->s->stalled) {
        u->growing = -1;
        w.stalls++;
        return;
    }
    if (u->growing < w.size[c]) return;
    assert_int_equal(rename(item->partial, item->path), 0);
    json_t *entry = stager_entry(w.state, item->path);
    json_object_set_new(entry, "state", json_string("there"));
    json_object_set_new(entry, "bytes", json_integer((json_int_t)w.size[c]));
    stager_note_bytes(w.state, item, w.size[c]);
    w.fetches[c]++;
    item->mine = false;
    u->growing = -1;
}

/* The command goes on with what an earlier one has left. */
static void fetch(struct user *u)
{
    if (u->growing >= 0) {
        grow(u);
        return;
    }
    for (int64_t i = 0; i < u->s->n_items; i++) {
        struct item *item = &u->s->items[i];
        char file[700];
        if (!item->mine || item == u->s->stalled) continue;
        snprintf(file, sizeof file, "%s/a", item->partial);
        (void)mkdir(item->partial, 0777);
        FILE *f = fopen(file, "a");
        assert_non_null(f);
        fclose(f);
        u->s->fetching = i;
        u->growing = tree_bytes(item->partial);
        return;
    }
}

/* --- visits --- */

static bool all_there(const struct visit *v)
{
    for (int64_t k = 0; k < v->n; k++)
        if (!fsx_is_dir(path_of(v->reads[k]))) return false;
    return true;
}

static bool may_begin(const struct user *u, int64_t visit)
{
    const json_t *user = json_object_get(json_object_get(w.state, "users"), u->name);
    json_t *one;
    size_t i;
    json_array_foreach(json_object_get(user, "ready"), i,
                       one) if (json_integer_value(one) == visit) return true;
    return false;
}

/* Groups take visits in order, wait for what they read, and read it until they end. */
static void work(struct user *u)
{
    int64_t busy = 0;
    for (int64_t i = 0; i < u->s->n_visits && busy < u->groups; i++) {
        struct visit *v = &u->visits[u->place[i]];
        if (v->phase == DONE) continue;
        busy++;
        if (v->phase == HERE && all_there(v) && may_begin(u, i)) {
            v->phase = BEGUN;
            v->left = 1 + (int)below(8);
        }
        if (v->phase != BEGUN) continue;
        if (!all_there(v)) fail_msg("%s: removed what visit %lld reads", u->name, (long long)i);
        if (--v->left > 0) continue;
        v->phase = DONE;
        stager_end_visit(u->s, i);
    }
}

static bool is_through(const struct user *u)
{
    for (int64_t i = 0; i < u->n; i++)
        if (u->visits[i].phase != DONE) return false;
    return true;
}

/* One that was killed after its last visit has not told so yet. */
static bool is_over_for(const struct user *u)
{
    return is_through(u) && !json_object_get(json_object_get(w.state, "users"), u->name);
}

/* --- the world --- */

static bool is_over(void)
{
    for (int64_t i = 0; i < w.n_users; i++)
        if (w.users[i].uses && (!is_over_for(&w.users[i]) || w.users[i].s)) return false;
    return true;
}

static void check_space(void)
{
    const int64_t beyond = w.grows ? PIECE * w.n_users : 0, bytes = tree_bytes(base);
    int64_t locks = 0; /* files of the ledger's locks lie there, too */
    for (int64_t i = 0; i < w.n_users; i++) {
        char file[700];
        struct stat s;
        snprintf(file, sizeof file, "%s/%s.user.lock", base, w.users[i].name);
        if (stat(file, &s) == 0) locks += (int64_t)s.st_size;
    }
    if (bytes - locks > w.space + beyond)
        fail_msg("%lld bytes in a space of %lld", (long long)(bytes - locks), (long long)w.space);
}

static void step(struct user *u, int64_t deaths)
{
    if (!u->s) {
        if (!is_over_for(u) && below(20) == 0) start(u);
        return;
    }
    switch (below(4)) {
    case 0:
        look(u);
        if (w.steps % 8 == 0) check_space();
        if (u->uses && is_through(u)) {
            stager_close(u->s);
            u->s = NULL;
        }
        return;
    case 1:
        if (u->uses) work(u);
        return;
    default:
        fetch(u);
    }
    if (u->deaths < deaths && below(60) == 0) kill_user(u);
}

/* Visits of neighbours in a trajectory, as movement and averages read them, or of any. */
static void make_visit(struct visit *v, int64_t around, bool any)
{
    const int64_t n = 1 + below(READS);
    *v = (struct visit){0};
    for (int64_t k = 0; k < n; k++) {
        const int64_t c = any ? below(w.n_checkpoints) : around - k;
        bool twice = c < 0;
        for (int64_t j = 0; j < v->n; j++) twice = twice || v->reads[j] == c;
        if (!twice) v->reads[v->n++] = c;
    }
}

static void make_users(bool staged)
{
    const bool any = below(3) == 0;
    int64_t most = 0;
    for (int64_t i = 0; i < w.n_users; i++) {
        struct user *u = &w.users[i];
        snprintf(u->name, sizeof u->name, "part-%lld-of-%lld", (long long)i, (long long)w.n_users);
        u->uses = true;
        u->commands = !staged;
        u->groups = 1 + below(GROUPS);
        u->n = 1 + below(VISITS);
        const int64_t at = i * w.n_checkpoints / w.n_users;
        for (int64_t k = 0; k < u->n; k++) {
            make_visit(&u->visits[k], min64(at + k / 2, w.n_checkpoints - 1), any);
            int64_t sum = 0;
            for (int64_t r = 0; r < u->visits[k].n; r++) {
                w.readers[u->visits[k].reads[r]]++;
                sum += w.size[u->visits[k].reads[r]];
            }
            most = max64(most, sum);
        }
    }
    w.space = most + most * below(5) / 4; /* from the smallest possible */
}

/* `qtraj stage`, which fetches for all: in the order of the first user. */
static void add_stage(void)
{
    struct user *u = &w.users[w.n_users++];
    *u = (struct user){.name = "stage-all", .commands = true};
    for (int64_t i = 0; i + 1 < w.n_users; i++)
        for (int64_t k = 0; k < w.users[i].n; k++) u->visits[u->n++] = w.users[i].visits[k];
}

static void make_world(uint64_t number, bool staged, bool grows)
{
    static int made;
    seed = number * 7919 + 17;
    snprintf(base, sizeof base, "%s/w%d", scratch_dir(), made++);

    assert_int_equal(mkdir(base, 0777), 0);
    w = (struct world){.n_users = 2 + below(USERS - 1),
                       .n_checkpoints = 4 + below(CHECKPOINTS - 3),
                       .grows = grows,
                       .state = json_pack("{s:{s:{s:i}}, s:{}, s:{}}", "models", "m", "bytes",
                                          (grows ? 1 : PIECES) * PIECE, "checkpoints", "users")};
    for (int64_t i = 0; i < w.n_checkpoints; i++)
        w.size[i] = PIECE * (grows ? 1 + below(PIECES) : PIECES);
    make_users(staged);
    if (staged) add_stage();
}

static int64_t run_world(int64_t deaths)
{
    const int64_t limit = 200000;
    for (w.steps = 0; !is_over(); w.steps++) {
        step(&w.users[below(w.n_users)], deaths);
        if (w.steps > limit) {
            json_dumpf(w.state, stderr, JSON_INDENT(1));
            fail_msg("no progress: space %lld of pieces of %d", (long long)w.space, PIECE);
        }
    }
    for (int64_t i = 0; i < w.n_users; i++)
        if (w.users[i].s) { /* who only fetches, when everybody is through */
            while (w.users[i].growing >= 0) fetch(&w.users[i]);
            for (int k = 0; k < 3; k++) look(&w.users[i]);
            stager_close(w.users[i].s);
        }
    return w.steps;
}

/* A checkpoint is fetched at most once for each visit that reads it, and for each user that was
 * killed. A fetch ahead of visits may be in vain; so may one for each time that a checkpoint turns
 * out larger than all before it. */
static void check_fetches(bool staged, bool grows, int64_t *sum)
{
    for (int64_t c = 0; c < w.n_checkpoints; c++) {
        const int64_t most = (staged ? 2 : grows ? PIECES : 1) * w.readers[c] + w.deaths + w.stalls;
        sum[0] += w.fetches[c];
        sum[1] += w.readers[c] > 0;
        if (w.fetches[c] > most)
            fail_msg("c%02lld is read by %lld visits, and was fetched %lld times", (long long)c,
                     (long long)w.readers[c], (long long)w.fetches[c]);
    }
}

static void simulate(int64_t worlds, bool staged, bool grows, int64_t deaths, double most)
{
    int64_t sum[2] = {0}, steps = 0;
    for (int64_t i = 0; i < worlds; i++) {
        make_world((uint64_t)i, staged, grows);
        steps += run_world(deaths);
        check_fetches(staged, grows, sum);
        assert_int_equal(json_object_size(json_object_get(w.state, "users")), 0);
        for (int64_t c = 0; c < w.n_checkpoints && !staged; c++)
            assert_false(fsx_is_dir(path_of(c)));
        if (!staged) assert_int_equal(json_object_size(json_object_get(w.state, "checkpoints")), 0);
        json_decref(w.state);
    }
    print_message("%lld worlds, %lld steps: a checkpoint is fetched %.2f times on average\n",
                  (long long)worlds, (long long)steps, (double)sum[0] / (double)sum[1]);
    assert_true((double)sum[0] / (double)sum[1] < most);
}

static void parts(void **state)
{
    (void)state;
    simulate(25, false, false, 0, 3);
}

static void parts_that_die(void **state)
{
    (void)state;
    simulate(25, false, false, 3, 4);
}

static void sizes_that_nobody_knows(void **state)
{
    (void)state;
    simulate(25, false, true, 0, 4);
}

static void a_process_that_only_fetches(void **state)
{
    (void)state;
    simulate(25, true, false, 2, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts),
        cmocka_unit_test(parts_that_die),
        cmocka_unit_test(sizes_that_nobody_knows),
        cmocka_unit_test(a_process_that_only_fetches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
