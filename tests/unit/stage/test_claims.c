/* Random sweeps in a space that is too small for them, simulated over the functions that decide
 * (claims.h): several parts, runs and `qtraj stage` share a ledger; visits read a checkpoint, the
 * one before, or members of averages; processes are killed at any moment, also between what they do
 * on disk and what they note, and their commands outlive them for a while. The disk is a table
 * here, and time is the number of steps.
 *
 * QTRAJ_SWEEPS: how many sweeps (300); docs/decisions/0026-staging.md has the numbers of 10,000. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stage/claims.h"
#include "util/mem.h"
#include "util/num.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { USERS = 6, CHECKPOINTS = 14, VISITS = 12, READS = 4, GROUPS = 3, PIECES = 4, PIECE = 1000 };

enum phase { WAITS, BEGUN, DONE };

struct visit {
    int64_t n, reads[READS]; /* checkpoints */
    enum phase phase;
    int left; /* steps until it ends */
};

struct user {
    char name[32], life[32];
    bool runs, uses, commands, deserted; /* its process was killed and never starts again */
    int64_t n, groups, lives, fetching;  /* checkpoint; -1: none */
    struct visit visits[VISITS * USERS];
    json_t *items, *wanted;
};

/* What lies on disk: bytes of what is fetched or removed, and of the finished folder. */
struct disk {
    int64_t partial, whole, writes; /* pieces that a command still writes whose process is gone */
};

static struct world {
    json_t *state;
    struct user users[USERS + 1];
    struct disk disk[CHECKPOINTS];
    int64_t n_users, n, space, size[CHECKPOINTS], fetches[CHECKPOINTS], readers[CHECKPOINTS];
    int64_t lives, deaths, deserters, number, outlived; /* pieces written so */
    bool grows; /* checkpoints differ in size, which nobody knows before */
} w;

static uint64_t seed;

static int64_t below(int64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

static const char *path_of(int64_t c)
{
    static char paths[4][32];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof *paths, "/store/c%02lld", (long long)c);
    return path;
}

static int64_t number_of(const char *path)
{
    return atoll(strrchr(path, '/') + 2);
}

/* --- the space --- */

static int64_t bytes_on_disk(void)
{
    int64_t sum = 0;
    for (int64_t c = 0; c < w.n; c++) sum += w.disk[c].partial + w.disk[c].whole;
    return sum;
}

static void check(void)
{
    const int64_t beyond = w.grows ? PIECE * (w.n_users + w.outlived) : 0, bytes = bytes_on_disk();
    if (bytes > w.space + beyond)
        fail_msg("sweep %lld: %lld bytes in a space of %lld", (long long)w.number, (long long)bytes,
                 (long long)w.space);
    for (int64_t i = 0; i < w.n_users; i++)
        for (int64_t k = 0; k < w.users[i].n; k++) {
            const struct visit *v = &w.users[i].visits[k];
            for (int64_t r = 0; v->phase == BEGUN && r < v->n; r++)
                if (!w.disk[v->reads[r]].whole)
                    fail_msg("sweep %lld: c%02lld is removed while it is leased",
                             (long long)w.number, (long long)v->reads[r]);
        }
}

/* Each checkpoint is of a model of its own, as far as sizes are expected. */
static json_t *set_state(int64_t c, const char *word, int64_t bytes)
{
    json_t *models = json_object_get(w.state, "models");
    if (w.disk[c].whole) json_object_set_new(models, path_of(c), json_integer(bytes));
    return claims_set(w.state, path_of(c), word, bytes);
}

/* --- what a process does --- */

static const char *name_of(const struct user *u, int64_t i)
{
    static char name[64];
    snprintf(name, sizeof name, "%s: %lld", u->name, (long long)i);
    return name;
}

static json_t *reads_of(const struct visit *v)
{
    json_t *reads = json_object();
    for (int64_t r = 0; r < v->n; r++)
        json_object_set_new(reads, path_of(v->reads[r]), json_string(path_of(v->reads[r])));
    return reads;
}

static bool die(const struct user *u)
{
    return u->uses && u->lives <= 3 && below(400) == 0;
}

/* Its command is told to end, and writes on until it does. */
static void leave_fetch(struct user *u)
{
    if (u->fetching >= 0) w.disk[u->fetching].writes = below(4);
    u->fetching = -1;
}

static void outlive(int64_t c)
{
    struct disk *d = &w.disk[c];
    if (d->writes == 0) return;
    d->writes--;
    if (d->whole == 0) d->partial = min64(d->partial + PIECE, w.size[c]);
    w.outlived++;
    check();
}

static void kill_user(struct user *u)
{
    u->runs = false;
    leave_fetch(u);
    u->deserted = below(6) == 0;
    w.deserters += u->deserted;
    w.deaths++;
    for (int64_t i = 0; i < u->n; i++)
        if (u->visits[i].phase == BEGUN) u->visits[i].phase = WAITS;
}

/* Who is gone gives back; a process that has just begun also what its user had before. */
static void bury(const struct user *self, bool begins)
{
    for (int64_t i = 0; i < w.n_users; i++) {
        const struct user *u = &w.users[i];
        json_t *user = json_object_get(json_object_get(w.state, "users"), u->name);
        if (!u->runs || (begins && u == self)) json_object_del(user, "life");
    }
    claims_bury(w.state);
}

/* False: killed while it does so, before the state is stored. */
static bool remove_all(const struct user *u)
{
    json_t *all = json_object_get(w.state, "checkpoints"), *entry;
    const char *path;
    void *next;
    json_object_foreach_safe(all, next, path, entry) {
        struct disk *d = &w.disk[number_of(path)];
        if (!claims_is(entry, "removing")) continue;
        d->partial = d->whole;
        d->whole = 0;
        check();
        if (u->uses && u->lives <= 3 && below(50) == 0) return false;
        d->partial = 0;
        json_object_del(all, path);
    }
    return true;
}

/* What got or lost its name just before its process was killed. */
static void look_at_disk(void)
{
    json_t *entry;
    const char *path;
    json_object_foreach(json_object_get(w.state, "checkpoints"), path, entry) {
        const struct disk *d = &w.disk[number_of(path)];
        const bool ending = claims_is(entry, "ending");
        if (ending && d->writes) claims_measure(w.state, path, d->partial, w.space);
        if (ending && d->writes) continue;
        const bool lost = claims_is(entry, "there") && !d->whole;
        if (lost || ending || claims_is(entry, "left"))
            set_state(number_of(path), d->whole ? "there" : "left", d->whole + d->partial);
    }
}

static void register_visits(struct user *u)
{
    json_t *none = json_object();
    json_decref(u->wanted);
    u->wanted = json_object();
    for (int64_t i = 0; i < u->n; i++) {
        const struct visit *v = &u->visits[i];
        if (v->phase == DONE) json_object_del(json_object_get(w.state, "visits"), name_of(u, i));
        json_t *reads = reads_of(v);
        if (v->phase != DONE) json_object_update_missing(u->wanted, reads);
        json_decref(reads);
    }
    claims_register(w.state, u->name, u->life, u->uses ? u->wanted : none);
    json_decref(none);
}

static void claim(struct user *u)
{
    bool full;
    const char *path;
    json_t *item;
    if (!u->commands || u->fetching >= 0) return;
    json_object_foreach(u->items, path, item) {
        if (w.disk[number_of(path)].whole) json_object_set_new(item, "seen", json_true());
        if (json_object_get(item, "seen") && !claims_needed(w.state, path))
            json_object_del(u->wanted, path);
    }
    path = claims_fetch(w.state, u->name, u->items, u->wanted, w.space, 0, &full);
    if (path) u->fetching = number_of(path);
}

static void look(struct user *u, bool begins)
{
    json_t *before = json_deep_copy(w.state);
    const int64_t fetching = u->fetching;
    bury(u, begins);
    look_at_disk();
    register_visits(u);
    claim(u);
    claims_tidy(w.state);
    if (!remove_all(u)) {
        u->fetching = fetching;
        kill_user(u);
        json_decref(w.state);
        w.state = json_incref(before);
    }
    json_decref(before);
}

static void start(struct user *u)
{
    u->runs = true;
    snprintf(u->life, sizeof u->life, "%lld", (long long)w.lives++);
    u->lives++;
    look(u, true);
}

/* A piece of the running fetch. */
static void fetch(struct user *u)
{
    const int64_t c = u->fetching;
    if (c < 0) return;
    if (!w.disk[c].whole) {
        w.disk[c].partial = min64(w.disk[c].partial + PIECE, w.size[c]);
        const bool fits = claims_measure(w.state, path_of(c), w.disk[c].partial, w.space);
        check();
        if (!fits) leave_fetch(u);
        if (!fits || w.disk[c].partial < w.size[c]) return;
        w.disk[c].whole = w.size[c];
        w.disk[c].partial = 0;
        w.fetches[c]++;
        if (die(u)) { /* it has its name, and is not noted yet */
            u->fetching = -1;
            kill_user(u);
            return;
        }
    }
    set_state(c, "there", w.size[c]);
    u->fetching = -1;
}

/* --- visits --- */

/* The first visit that waits, if it has space beside what is leased; else NULL. */
static const json_t *first_with_space(void)
{
    json_t *one, *set = json_object(), *model, *first = NULL;
    const char *path;
    size_t reads = 0;
    int64_t bytes = 0;
    json_object_foreach(json_object_get(w.state, "visits"), path, one) {
        const bool leased = json_is_true(json_object_get(one, "leased"));
        if (!leased && first) continue;
        if (!leased) reads = json_object_size(json_object_get(one, "reads"));
        if (!leased) first = one;
        json_object_update(set, json_object_get(one, "reads"));
    }
    json_object_foreach(set, path, model) bytes += w.size[number_of(path)];
    const bool fits = bytes <= w.space || json_object_size(set) == reads;
    json_decref(set);
    return fits ? first : NULL;
}

static void ask(struct user *u, int64_t i)
{
    struct visit *v = &u->visits[i];
    json_t *stage =
        json_pack("{s:s, s:s, s:s, s:o, s:I}", "user", u->name, "life", u->life, "visit",
                  name_of(u, i), "reads", reads_of(v), "space", (json_int_t)w.space);
    char why[512];
    const json_t *first = first_with_space();
    bool there = true;
    for (int64_t r = 0; r < v->n; r++) there = there && w.disk[v->reads[r]].whole;
    const enum claim claim = claims_ask(w.state, stage, there, why);
    assert_int_not_equal(claim, CLAIM_NEVER);
    if (claim == CLAIM_LEASED) {
        v->phase = BEGUN;
        v->left = 1 + (int)below(8);
        /* nobody who is leased keeps from the first the space that it had */
        if (first && !json_is_true(json_object_get(first, "leased")) && !w.grows &&
            first != first_with_space())
            fail_msg("sweep %lld: the first that waits has lost its space", (long long)w.number);
    }
    json_decref(stage);
}

/* Groups take visits in order, ask for what they read, and read it until they end. */
static void work(struct user *u)
{
    int64_t busy = 0;
    for (int64_t i = 0; i < u->n && busy < u->groups; i++) {
        struct visit *v = &u->visits[i];
        if (v->phase == DONE) continue;
        busy++;
        if (v->phase == WAITS) ask(u, i);
        if (v->phase == BEGUN && --v->left <= 0) v->phase = DONE;
    }
    check();
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
    const json_t *user = json_object_get(json_object_get(w.state, "users"), u->name);
    return is_through(u) && json_object_size(json_object_get(user, "needs")) == 0;
}

static bool is_over(void)
{
    for (int64_t i = 0; i < w.n_users; i++)
        if (w.users[i].uses && !w.users[i].deserted && !is_over_for(&w.users[i])) return false;
    return true;
}

static void step(struct user *u)
{
    if (!u->runs) {
        if (!is_over_for(u) && !u->deserted && below(20) == 0) start(u);
        return;
    }
    const int64_t what = below(4);
    if (what == 0) look(u, false);
    if (what == 1 && u->uses) work(u);
    if (what > 1) fetch(u);
    if (what == 0 && u->uses && is_through(u)) {
        look(u, false);
        u->runs = false;
        leave_fetch(u);
    }
    if (u->runs && die(u)) kill_user(u);
}

/* --- sweeps --- */

/* Neighbours in a trajectory, as movement and averages read them, or any, as points of surfaces. */
static void make_visit(struct visit *v, int64_t around, bool any)
{
    const int64_t n = 1 + below(READS);
    *v = (struct visit){0};
    for (int64_t k = 0; k < n; k++) {
        const int64_t c = any ? below(w.n) : around - k;
        bool twice = c < 0;
        for (int64_t j = 0; j < v->n; j++) twice = twice || v->reads[j] == c;
        if (!twice) v->reads[v->n++] = c;
    }
}

static void make_items(struct user *u)
{
    u->items = json_object();
    u->fetching = -1;
    for (int64_t i = 0; i < u->n; i++)
        for (int64_t r = 0; r < u->visits[i].n; r++)
            json_object_set_new(u->items, path_of(u->visits[i].reads[r]),
                                json_pack("{s:s}", "model", path_of(u->visits[i].reads[r])));
}

static void make_user(struct user *u, int64_t i, int64_t *most)
{
    const bool any = below(3) == 0;
    snprintf(u->name, sizeof u->name, "part-%lld", (long long)i);
    u->uses = true;
    u->groups = 1 + below(GROUPS);
    u->n = 1 + below(VISITS);
    for (int64_t k = 0; k < u->n; k++) {
        int64_t sum = 0;
        struct visit *v = &u->visits[k];
        make_visit(v, min64(i * w.n / w.n_users + k / 2, w.n - 1), any);
        for (int64_t r = 0; r < v->n; r++) {
            w.readers[v->reads[r]]++;
            sum += w.size[v->reads[r]];
        }
        *most = max64(*most, sum);
    }
    make_items(u);
}

/* `qtraj stage`, which fetches for all: in the order of the first user. */
static void add_stage(void)
{
    struct user *u = &w.users[w.n_users];
    *u = (struct user){.name = "stage", .commands = true};
    for (int64_t i = 0; i < w.n_users; i++)
        for (int64_t k = 0; k < w.users[i].n; k++) u->visits[u->n++] = w.users[i].visits[k];
    make_items(u);
    w.n_users++;
}

static void make_world(int64_t number)
{
    int64_t most = 0;
    seed = (uint64_t)number * 7919 + 17;
    const bool staged = number % 4 == 3, grows = number % 4 == 2;
    w = (struct world){
        .n_users = 2 + below(USERS - 2),
        .n = 4 + below(CHECKPOINTS - 3),
        .grows = grows,
        .number = number,
        .state = json_pack("{s:{}, s:{}, s:{}, s:{}}", "models", "checkpoints", "users", "visits")};
    for (int64_t i = 0; i < w.n; i++) {
        w.size[i] = PIECE * (grows ? 1 + below(PIECES) : PIECES);
        if (!grows)
            json_object_set_new(json_object_get(w.state, "models"), path_of(i),
                                json_integer(w.size[i]));
    }
    for (int64_t i = 0; i < w.n_users; i++) make_user(&w.users[i], i, &most);
    for (int64_t i = 0; i < w.n_users; i++) w.users[i].commands = !staged;
    w.space = most + most * below(5) / 4; /* from the smallest possible */
    if (staged) add_stage();
}

/* Fetches of all checkpoints, and how many are read. */
static void run_world(int64_t number, int64_t sum[2])
{
    const int64_t limit = 200000;
    make_world(number);
    for (int64_t steps = 0; !is_over(); steps++) {
        step(&w.users[below(w.n_users)]);
        outlive(below(w.n));
        if (steps < limit) continue;
        json_dumpf(w.state, stderr, JSON_INDENT(1));
        fail_msg("sweep %lld: no progress in a space of %lld", (long long)number,
                 (long long)w.space);
    }
    struct user *last = &w.users[w.n_users - 1]; /* one more start removes what is left */
    last->runs = true;
    for (int i = 0; i < 40; i++) {
        look(last, false);
        for (int64_t c = 0; c < w.n; c++) outlive(c);
    }
    int64_t fetches = 0, reads = 0;
    for (int64_t c = 0; c < w.n; c++) {
        sum[0] += w.fetches[c];
        sum[1] += w.readers[c] > 0;
        fetches += w.fetches[c];
        reads += w.readers[c];
        if (w.deserters == 0 && w.users[w.n_users - 1].uses && w.disk[c].whole) {
            json_dumpf(w.state, stderr, JSON_INDENT(1));
            fail_msg("sweep %lld: c%02lld is left", (long long)number, (long long)c);
        }
    }
    /* once for each checkpoint, and once more for each that a visit asked for or that somebody
     * removed although another reads it */
    if (!w.grows && fetches > w.n + 2 * reads + w.deaths)
        fail_msg("sweep %lld: %lld fetches for %lld reads", (long long)number, (long long)fetches,
                 (long long)reads);
    for (int64_t i = 0; i < w.n_users; i++) json_decref(w.users[i].items);
    for (int64_t i = 0; i < w.n_users; i++) json_decref(w.users[i].wanted);
    json_decref(w.state);
}

static void simulated_sweeps_end_within_the_space(void **state)
{
    const char *text = getenv("QTRAJ_SWEEPS");
    const int64_t n = text ? atoll(text) : 300;
    int64_t sum[4][2] = {{0}}, deaths = 0;
    (void)state;
    static const char *const kind[] = {"parts", "parts", "unknown sizes", "with qtraj stage"};
    for (int64_t i = 0; i < n; i++) {
        run_world(i, sum[i % 4]);
        deaths += w.deaths;
    }
    for (int i = 0; i < 4; i++)
        print_message("%s: a checkpoint is fetched %.2f times on average\n", kind[i],
                      (double)sum[i][0] / (double)max64(sum[i][1], 1));
    print_message("%lld sweeps, %lld processes killed\n", (long long)n, (long long)deaths);
}

/* By one byte it never gets a lease; with as much space as it reads it waits for the files. */
static void a_visit_of_more_than_the_space_never_begins(void **state)
{
    (void)state;
    char why[512];
    json_t *ledger = json_pack("{s:{s:i, s:i}, s:{}, s:{}, s:{}}", "models", "a", 60, "b", 41,
                               "checkpoints", "users", "visits");
    json_t *visit = json_pack("{s:s, s:s, s:s, s:{s:s, s:s}, s:i}", "user", "u", "life", "1",
                              "visit", "v", "reads", "/a", "a", "/b", "b", "space", 100);
    claims_register(ledger, "u", "1", json_object_get(visit, "reads"));
    assert_int_equal(claims_ask(ledger, visit, true, why), CLAIM_NEVER);
    assert_non_null(strstr(why, "more than run.stage_space"));
    json_object_set_new(visit, "space", json_integer(101));
    assert_int_equal(claims_ask(ledger, visit, true, why), CLAIM_WAITS);
    json_decref(visit);
    json_decref(ledger);
}

/* What only a user that is gone needs is removed before what a living one needs. */
static void what_the_living_need_stays(void **state)
{
    (void)state;
    char why[512];
    bool full;
    json_t *ledger = json_pack("{s:{s:i}, s:{}, s:{}, s:{}}", "models", "m", 10, "checkpoints",
                               "users", "visits");
    json_t *gone = json_pack("{s:s}", "/a", "m"),
           *needs = json_pack("{s:s, s:s}", "/b", "m", "/c", "m");
    json_t *items = json_pack("{s:{s:s}}", "/c", "model", "m");
    json_t *visit = json_pack("{s:s, s:s, s:s, s:{s:s}, s:i}", "user", "u", "life", "2", "visit",
                              "v", "reads", "/c", "m", "space", 20);
    claims_register(ledger, "t", "1", gone);
    json_object_del(json_object_get(json_object_get(ledger, "users"), "t"), "life");
    claims_register(ledger, "u", "2", needs);
    claims_set(ledger, "/b", "there", 10);
    claims_set(ledger, "/a", "there", 10);
    assert_int_equal(claims_ask(ledger, visit, false, why), CLAIM_WAITS);
    assert_null(claims_fetch(ledger, "u", items, needs, 20, 0, &full)); /* once it is removed */
    assert_true(claims_is(claims_entry(ledger, "/a"), "removing"));
    assert_true(claims_is(claims_entry(ledger, "/b"), "there"));
    json_decref(gone);
    json_decref(needs);
    json_decref(items);
    json_decref(visit);
    json_decref(ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simulated_sweeps_end_within_the_space),
        cmocka_unit_test(a_visit_of_more_than_the_space_never_begins),
        cmocka_unit_test(what_the_living_need_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
