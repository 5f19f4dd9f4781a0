/* Assignment of work: every part once, longest first, jobs cut only if groups would wait, costs
 * corrected by measured times, files preferred where they were read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sched/queue.h"
#include "sched/run_forecast.h"
#include "util/rng.h"
#include <math.h>
#include <stdlib.h>

enum { MOST_JOBS = 64, MOST_PARTS = 8 };

static char no_text[] = "";
static double parts[MOST_JOBS][MOST_PARTS];
static struct sched_job jobs[MOST_JOBS];

static double uniform(uint64_t stream, uint64_t i)
{
    return (double)(rng_bits(stream, i) >> 11) * 0x1p-53;
}

/* n jobs of the same cost: `shared` and n_parts parts of `part` each. */
static void fill(int64_t n, double shared, int64_t n_parts, double part)
{
    for (int64_t i = 0; i < n; i++) {
        jobs[i] = (struct sched_job){
            .text = no_text, .cost = shared, .n_parts = n_parts, .parts = parts[i], .files = 1 + i};
        for (int64_t j = 0; j < n_parts; j++) parts[i][j] = part;
    }
}

static struct sched_outcome outcome_of(const struct queue *q)
{
    struct sched_outcome o = {0};
    queue_outcome(q, &o);
    return o;
}

static struct queue *open(int64_t n, int64_t groups, const int64_t *node)
{
    struct err e = {0};
    struct queue *q;
    assert_int_equal(queue_open(jobs, n, groups, node, &q, &e), OK);
    return q;
}

static struct queue_batch take(struct queue *q, int64_t group, double now)
{
    struct queue_batch batch;
    assert_true(queue_take(q, group, now, &batch));
    return batch;
}

static struct sched_simulation simulate(int64_t n, int64_t groups)
{
    struct err e = {0};
    struct sched_simulation s;
    assert_int_equal(sched_simulate(jobs, n, groups, &s, &e), OK);
    return s;
}

/* Random jobs and numbers of groups that finish at random times. */
static void every_part_is_handed_out_once(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        uint64_t counter = 0;
        int64_t n = 1 + (int64_t)(MOST_JOBS * uniform(seed, counter++)), out = 0, total = 0;
        int64_t groups = 1 + (int64_t)(12 * uniform(seed, counter++));
        int seen[MOST_JOBS][MOST_PARTS] = {{0}};
        for (int64_t i = 0; i < n; i++) {
            int64_t p = (int64_t)(MOST_PARTS * uniform(seed, counter++));
            jobs[i] = (struct sched_job){.text = no_text,
                                         .cost = 10 * uniform(seed, counter++),
                                         .n_parts = p,
                                         .parts = parts[i],
                                         .kind = i % 3,
                                         .files = i % 4};
            for (int64_t j = 0; j < p; j++) parts[i][j] = 10 * uniform(seed, counter++);
            total += p ? p : 1;
        }
        struct queue *q = open(n, groups, NULL);
        struct queue_batch batch;
        double now = 0;
        for (int64_t g = 0;; g = (int64_t)((double)groups * uniform(seed, counter++))) {
            now += uniform(seed, counter++);
            queue_finish(q, g, now, false);
            if (!queue_take(q, g, now, &batch)) break;
            if (batch.n_parts == 0) out += ++seen[batch.job][0];
            for (int64_t j = 0; j < batch.n_parts; j++) {
                assert_true(j == 0 || batch.parts[j] > batch.parts[j - 1]);
                out += ++seen[batch.job][batch.parts[j]];
            }
        }
        for (int64_t g = 0; g < groups; g++) queue_finish(q, g, now + 1, false);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < (jobs[i].n_parts ? jobs[i].n_parts : 1); j++)
                assert_int_equal(seen[i][j], 1);
        assert_int_equal(out, total);
        assert_int_equal(outcome_of(q).finished, n);
        queue_close(q);
    }
}

static void the_longest_comes_first(void **state)
{
    (void)state;
    fill(40, 0, 0, 0);
    for (int64_t i = 0; i < 40; i++) jobs[i].cost = (double)(i * 7 % 40);
    struct queue *q = open(40, 1, NULL);
    for (int64_t i = 0; i < 40; i++) {
        struct queue_batch batch = take(q, 0, 0);
        assert_true(jobs[batch.job].cost == (double)(39 - i));
        queue_finish(q, 0, 0, false);
    }
    queue_close(q);
}

/* A whole number of jobs per group: no shared part is repeated. */
static void jobs_stay_whole_while_all_groups_work(void **state)
{
    (void)state;
    fill(12, 0.5, 4, 0.5);
    struct sched_simulation s = simulate(12, 4);
    assert_int_equal(s.batches, 12);
    assert_float_equal(s.makespan, 3 * 2.5, 1e-9);
    assert_float_equal(s.work, s.least, 1e-9);
    assert_float_equal(s.idle, 0, 1e-9);
}

static void the_tail_is_cut(void **state)
{
    (void)state;
    fill(13, 0.1, 4, 0.9);
    struct sched_simulation s = simulate(13, 4); /* whole: 4 x 3.7 */
    assert_float_equal(s.makespan, 3 * 3.7 + 1.0, 1e-9);
    assert_int_equal(s.batches, 16);
    /* Fewer jobs than groups: 2 jobs on 8 groups, each of which gets one part. */
    s = simulate(2, 8);
    assert_float_equal(s.makespan, 1.0, 1e-9);
    assert_int_equal(s.batches, 8);
    assert_float_equal(s.idle, 0, 1e-9);
    assert_float_equal(s.work - s.least, 6 * 0.1, 1e-9);
}

static void a_cut_that_saves_little_is_not_made(void **state)
{
    (void)state;
    fill(1, 10, 2, 0.4);
    struct sched_simulation s = simulate(1, 4);
    assert_int_equal(s.batches, 1);
    /* Jobs without parts are not cut. */
    fill(1, 10, 0, 0);
    s = simulate(1, 4);
    assert_int_equal(s.batches, 1);
    assert_float_equal(s.idle, 0.75, 1e-9);
}

/* Never worse than without cuts, much better in total, never better than possible. */
static void cuts_help(void **state)
{
    (void)state;
    double cut_sum = 0, whole_sum = 0;
    for (int64_t groups = 1; groups <= 40; groups++) {
        fill(23, 0.3, 6, 0.5);
        struct sched_simulation cut = simulate(23, groups);
        fill(23, 3.3, 0, 0);
        struct sched_simulation whole = simulate(23, groups);
        double least = whole.least / (double)groups;
        assert_true(cut.makespan <= whole.makespan + 1e-9);
        assert_true(cut.makespan >= least - 1e-9);
        cut_sum += cut.makespan / least / 40;
        whole_sum += whole.makespan / least / 40;
    }
    assert_true(cut_sum < 1.17);
    assert_true(whole_sum > 1.3);
}

static void times_correct_costs(void **state)
{
    (void)state;
    fill(3, 0, 0, 0);
    jobs[0] = (struct sched_job){.text = no_text, .cost = 10, .kind = 0};
    jobs[1] = (struct sched_job){.text = no_text, .cost = 5, .kind = 0};
    jobs[2] = (struct sched_job){.text = no_text, .cost = 4, .kind = 1};
    struct queue *q = open(3, 2, NULL);
    assert_int_equal(take(q, 0, 0).job, 0);
    queue_finish(q, 0, 5, false); /* half as long as planned */
    struct queue_batch batch = take(q, 0, 5);
    assert_int_equal(batch.job, 1);
    assert_float_equal(batch.expected, 2.5, 1e-9);
    batch = take(q, 1, 5); /* no measured time of this kind yet: the others' tells most of it */
    assert_float_equal(batch.expected, 4 * pow(0.5, 10.0 / (10 + 4.0 / 4)), 1e-9);
    queue_close(q);
}

static void files_stay_on_their_node(void **state)
{
    (void)state;
    static const int64_t node[] = {0, 0, 5};
    fill(6, 1, 0, 0);
    for (int64_t i = 0; i < 6; i++) jobs[i].files = 1 + i / 2; /* two jobs read the same */
    struct queue *q = open(6, 3, node);
    assert_int_equal(take(q, 0, 0).job, 0);
    int64_t files = jobs[take(q, 2, 0).job].files;
    assert_int_not_equal(files, 1); /* 1 reads what node 0 has read */
    assert_int_equal(take(q, 1, 0).job, 1);
    queue_finish(q, 2, 1, false);
    assert_int_equal(jobs[take(q, 2, 1).job].files, files);
    queue_finish(q, 2, 2, false);
    /* But a job that is clearly longer goes first. */
    queue_close(q);
    fill(3, 1, 0, 0);
    jobs[1].cost = 2;
    jobs[0].files = jobs[2].files = 1;
    q = open(3, 3, node);
    assert_int_equal(take(q, 0, 0).job, 1);
    assert_int_equal(take(q, 1, 0).job, 0);
    queue_close(q);
}

/* Before longer jobs and those whose files the node has read, but after an earlier turn. */
static void saved_states_go_first(void **state)
{
    (void)state;
    fill(5, 1, 0, 0);
    jobs[1].cost = 3;
    jobs[2].saved = 0.5;
    for (int64_t i = 0; i < 5; i++) jobs[i].files = i == 2 ? 2 : 1;
    struct queue *q = open(5, 2, NULL);
    assert_int_equal(take(q, 0, 0).job, 2);
    assert_int_equal(take(q, 1, 0).job, 1);
    queue_close(q);
    for (int64_t i = 0; i < 5; i++) jobs[i].turn = 5 - i;
    q = open(5, 1, NULL);
    assert_int_equal(take(q, 0, 0).job, 4);
    queue_close(q);
}

/* Eight parts of 1 s on four groups: batches cannot use the state of the whole. */
static void a_saved_state_is_not_cut(void **state)
{
    (void)state;
    for (int saved = 0; saved <= 7; saved += 7) {
        fill(1, 0, 8, 1);
        jobs[0].saved = saved;
        struct queue *q = open(1, 4, NULL);
        assert_int_equal(take(q, 0, 0).n_parts, saved ? 8 : 2);
        queue_close(q);
    }
    fill(1, 0, 8, 1);
    jobs[0].saved = 1; /* to do it again in batches is quicker */
    struct queue *q = open(1, 4, NULL);
    assert_int_equal(take(q, 0, 0).n_parts, 2);
    queue_close(q);
}

static void dropped_jobs_are_not_finished(void **state)
{
    (void)state;
    fill(2, 1, 0, 0);
    struct queue *q = open(2, 1, NULL);
    take(q, 0, 0);
    queue_finish(q, 0, 1, true);
    take(q, 0, 1);
    queue_finish(q, 0, 2, false);
    assert_int_equal(outcome_of(q).finished, 1);
    queue_close(q);
}

/* Of a lost batch, the parts that are left go to the next group; a job that nothing is left of is
 * finished. */
static void lost_batches_come_back(void **state)
{
    (void)state;
    int64_t n;
    fill(2, 1, 3, 1);
    struct queue *q = open(2, 1, NULL);
    struct queue_batch batch = take(q, 0, 0);
    assert_int_equal(batch.n_parts, 3);
    assert_int_equal(queue_parts(q, 0, &n)[2], 2);
    assert_int_equal(n, 3);
    const int64_t left[] = {0, 2};
    queue_return(q, 0, left, 2, true);
    assert_false(queue_empty(q));
    assert_int_equal(take(q, 0, 1).job, 1 - batch.job); /* which is longer now */
    queue_finish(q, 0, 2, false);
    assert_int_equal(outcome_of(q).finished, 1);
    batch = take(q, 0, 2);
    assert_int_equal(batch.n_parts, 2);
    assert_int_equal(batch.parts[0], 0);
    assert_int_equal(batch.parts[1], 2);
    queue_return(q, 0, NULL, 0, false);
    assert_true(queue_empty(q));
    assert_int_equal(outcome_of(q).finished, 2);
    queue_close(q);
}

/* --- looking ahead --- */

/* A run in simulated time. Jobs of kind k really take ratio[k] times what was planned; a batch
 * reports what is true of it, at each look. */
struct world {
    const double *ratio;
    int64_t groups;
    double end[8], total[8]; /* of the groups' batches */
    struct queue *q;
};

static void give(struct world *w, int64_t group, double now)
{
    struct queue_batch batch;
    w->end[group] = INFINITY;
    if (!queue_take(w->q, group, now, &batch)) return;
    const struct sched_job *t = &jobs[batch.job];
    double planned = t->cost;
    for (int64_t i = 0; i < batch.n_parts; i++) planned += t->parts[batch.parts[i]];
    w->total[group] = planned * w->ratio[t->kind];
    w->end[group] = now + w->total[group];
}

/* Seconds that are left, as they are expected to be. */
static double look_ahead(struct world *w, double now)
{
    double until[8], left = 0;
    for (int64_t g = 0; g < w->groups; g++) {
        until[g] = now;
        if (isinf(w->end[g])) continue;
        const double rest = w->end[g] - now;
        if (rest < 0.99 * w->total[g]) queue_report(w->q, g, now, rest, 0);
    }
    assert_int_equal(sched_forecast(w->q, w->groups, now, until, NULL), OK);
    for (int64_t g = 0; g < w->groups; g++) left = fmax(left, until[g] - now);
    return left;
}

/* Runs all jobs, looking ahead at look[0..n) (ascending): left[i] = what was expected then.
 * Returns how long it took. */
static double run_and_look(int64_t n_jobs, int64_t groups, const double *ratio, const double *look,
                           int n, double *left)
{
    struct world w = {.ratio = ratio, .groups = groups, .q = open(n_jobs, groups, NULL)};
    double now = 0;
    for (int64_t g = 0; g < groups; g++) give(&w, g, 0);
    for (int i = 0;;) {
        int64_t next = 0;
        for (int64_t g = 1; g < groups; g++)
            if (w.end[g] < w.end[next]) next = g;
        for (; i < n && look[i] < w.end[next] && !isinf(w.end[next]); i++)
            left[i] = look_ahead(&w, look[i]);
        if (isinf(w.end[next])) break;
        now = w.end[next];
        queue_finish(w.q, next, now, false);
        give(&w, next, now);
    }
    queue_close(w.q);
    return now;
}

static void expect_true_times(int64_t n_jobs, int64_t groups, const double *ratio)
{
    static const double shares[] = {0.1, 0.25, 0.5, 0.75};
    double look[4], left[4];
    const double end = run_and_look(n_jobs, groups, ratio, NULL, 0, NULL);
    for (int i = 0; i < 4; i++) look[i] = shares[i] * end;
    assert_float_equal(run_and_look(n_jobs, groups, ratio, look, 4, left), end, 1e-9 * end);
    for (int i = 0; i < 4; i++) {
        const double truth = end - look[i];
        print_message("%lld jobs on %lld groups, at %2.0f %%: %.3g of %.3g\n", (long long)n_jobs,
                      (long long)groups, 100 * shares[i], left[i], truth);
        assert_true(fabs(left[i] - truth) <= 0.3 * truth);
    }
}

static void the_end_is_forecast(void **state)
{
    (void)state;
    static const double exact[] = {1, 1}, slow[] = {3, 3}, unlike[] = {0.4, 0.5};
    fill(1, 10, 0, 0); /* one long visit */
    expect_true_times(1, 1, slow);
    fill(3, 10, 0, 0); /* list scheduling: two groups take 20, not 15 */
    expect_true_times(3, 2, slow);
    expect_true_times(3, 2, exact);
    fill(11, 1, 8, 1);
    expect_true_times(11, 2, slow);
    expect_true_times(11, 8, slow);
    fill(40, 1, 4, 0.5); /* two models of unlike size */
    for (int64_t i = 0; i < 20; i++) {
        jobs[i].kind = 1;
        jobs[i].cost = 0.1;
        for (int64_t j = 0; j < 4; j++) parts[i][j] = 0.02;
    }
    expect_true_times(40, 3, unlike);
}

/* The queue is not moved by it, and time that only the first batch takes counts once. */
static void looking_ahead_changes_nothing(void **state)
{
    (void)state;
    double until[2] = {10, 10};
    fill(4, 10, 0, 0);
    struct queue *q = open(4, 2, NULL);
    take(q, 0, 0);
    queue_report(q, 0, 10, 5, 5); /* 15 seconds, of which 5 only for the first: as planned */
    assert_float_equal(queue_left(q, 0, 10), 5, 1e-9);
    assert_float_equal(queue_left(q, 0, 12), 3, 1e-9);
    assert_float_equal(queue_left(q, 0, 20), 0, 1e-9);
    assert_true(queue_left(q, 1, 10) == 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sched_forecast(q, 2, 10, until, NULL), OK);
        assert_float_equal(until[0], 25, 1e-9);
        assert_float_equal(until[1], 30, 1e-9);
        until[0] = until[1] = 10;
    }
    assert_int_equal(outcome_of(q).batches, 1);
    queue_finish(q, 0, 15, false);
    assert_float_equal(take(q, 0, 15).expected, 10, 1e-9);
    queue_close(q);
}

/* Jobs of 40, 20, 10 and 5 s; a tenth of the time that is left is kept for doubt. */
static void limited_time_takes_what_fits(void **state)
{
    (void)state;
    struct queue_batch batch;
    fill(4, 0, 0, 0);
    for (int64_t i = 0; i < 4; i++) jobs[i].cost = 40 / (double)(1 << i);
    struct queue *q = open(4, 1, NULL);
    queue_limit(q, 30);
    assert_float_equal(outcome_of(q).shortest, 5, 1e-9);
    assert_int_equal(take(q, 0, 0).job, 1); /* 20 s of 30 */
    queue_finish(q, 0, 20, false);
    assert_int_equal(take(q, 0, 20).job, 3); /* 10 s of 10 leave no room */
    queue_finish(q, 0, 25, false);
    assert_false(queue_take(q, 0, 25, &batch));
    assert_false(queue_empty(q));
    assert_int_equal(outcome_of(q).finished, 2);
    assert_float_equal(outcome_of(q).shortest, 10, 1e-9);
    struct queue *ahead;
    assert_int_equal(queue_clone(q, &ahead, NULL), OK); /* looks beyond the end */
    assert_int_equal(take(ahead, 0, 25).job, 0);
    queue_close(ahead);
    queue_limit(q, INFINITY);
    assert_int_equal(take(q, 0, 25).job, 0);
    queue_close(q);
}

/* What can be resumed is begun if its state will be saved in time. */
static void limited_time_begins_what_resumes(void **state)
{
    (void)state;
    struct queue_batch batch;
    fill(2, 1000, 0, 0);
    jobs[0].saved_after = 0;
    jobs[1].saved_after = 10;
    struct queue *q = open(2, 2, NULL);
    queue_limit(q, 21);
    assert_int_equal(take(q, 0, 0).job, 1);
    assert_false(queue_take(q, 1, 0, &batch));
    queue_close(q);
    q = open(2, 2, NULL);
    queue_limit(q, 19);
    assert_false(queue_take(q, 0, 0, &batch));
    queue_close(q);
}

/* A job of 10 s and parts of 30, 20, 5 and 5 s. */
static void limited_time_takes_parts(void **state)
{
    (void)state;
    struct queue_batch batch;
    fill(1, 10, 4, 5);
    parts[0][0] = 30;
    parts[0][1] = 20;
    struct queue *q = open(1, 1, NULL);
    queue_limit(q, 40);
    batch = take(q, 0, 0);
    assert_int_equal(batch.n_parts, 2); /* 10 + 20 + 5 s within 36.4 */
    assert_int_equal(batch.parts[0], 1);
    assert_int_equal(batch.parts[1], 2);
    queue_finish(q, 0, 35, false);
    assert_false(queue_take(q, 0, 35, &batch));
    queue_limit(q, 52);
    batch = take(q, 0, 35); /* 10 + 5 s within 15.5 */
    assert_int_equal(batch.n_parts, 1);
    assert_int_equal(batch.parts[0], 3);
    queue_close(q);
}

static void costs_must_be_numbers(void **state)
{
    (void)state;
    struct err e = {0};
    struct queue *q;
    fill(1, NAN, 0, 0);
    assert_int_equal(queue_open(jobs, 1, 1, NULL, &q, &e), ERR_USAGE);
    fill(1, 0, 2, INFINITY);
    assert_int_equal(queue_open(jobs, 1, 1, NULL, &q, &e), ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests_[] = {
        cmocka_unit_test(every_part_is_handed_out_once),
        cmocka_unit_test(the_longest_comes_first),
        cmocka_unit_test(jobs_stay_whole_while_all_groups_work),
        cmocka_unit_test(the_tail_is_cut),
        cmocka_unit_test(a_cut_that_saves_little_is_not_made),
        cmocka_unit_test(cuts_help),
        cmocka_unit_test(times_correct_costs),
        cmocka_unit_test(files_stay_on_their_node),
        cmocka_unit_test(saved_states_go_first),
        cmocka_unit_test(a_saved_state_is_not_cut),
        cmocka_unit_test(dropped_jobs_are_not_finished),
        cmocka_unit_test(lost_batches_come_back),
        cmocka_unit_test(the_end_is_forecast),
        cmocka_unit_test(looking_ahead_changes_nothing),
        cmocka_unit_test(limited_time_takes_what_fits),
        cmocka_unit_test(limited_time_begins_what_resumes),
        cmocka_unit_test(limited_time_takes_parts),
        cmocka_unit_test(costs_must_be_numbers),
    };
    return cmocka_run_group_tests(tests_, NULL, NULL);
}
