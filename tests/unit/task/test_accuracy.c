/* Accuracies from given log-likelihoods: ties, lengths, items without a right answer, subjects. */
#include "eval/metric.h"
#include "task/accuracy.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PIQA_ITEMS = 4, ANATOMY = 2, VIROLOGY = 3, ITEMS = PIQA_ITEMS + ANATOMY + VIROLOGY };

/* Two choices for every item: minus their log-likelihoods, their lengths, the right one. */
static const struct {
    double nll[2];
    int64_t chars[2], gold;
} cases[ITEMS] = {
    {{4, 5}, {1, 1}, 0},         /* right */
    {{4, 5}, {1, 2}, 0},         /* right; by character the other one */
    {{3, 3}, {1, 1}, 1},         /* equal: the first counts, wrong */
    {{1, 2}, {0, 1}, GOLD_NONE}, /* no right answer; a choice without characters */
    {{1, 2}, {1, 1}, 0},         {{2, 1}, {1, 1}, 0}, {{1, 2}, {1, 1}, 0},
    {{1, 2}, {1, 1}, 0},         {{2, 1}, {1, 1}, 0},
};

static double number(const json_t *record, const char *task, const char *field)
{
    return json_number_get(json_object_get(json_object_get(record, task), field));
}

static bool close_to(double a, double b)
{
    return fabs(a - b) < 1e-12;
}

/* Requests, and what a model gives to them. The caller frees sum. */
struct tested {
    struct requests requests;
    double *sum;
};

static struct tested tested_make(void)
{
    static char names[][16] = {"piqa", "mmlu_anatomy", "mmlu_virology"};
    static struct request_task tasks[4];
    static struct request_item items[ITEMS + 1];
    static struct request list[2 * ITEMS];
    const struct task *piqa, *mmlu;
    const char *subject;
    struct tested t = {.sum = calloc((size_t)(2 * ITEMS * metrics_sums()), sizeof(double))};
    assert_int_equal(task_find("piqa", &piqa, &subject, NULL), OK);
    assert_int_equal(task_find("mmlu_anatomy", &mmlu, &subject, NULL), OK);
    assert_string_equal(subject, "anatomy");
    tasks[0] = (struct request_task){names[0], piqa, 0};
    tasks[1] = (struct request_task){names[1], mmlu, PIQA_ITEMS};
    tasks[2] = (struct request_task){names[2], mmlu, PIQA_ITEMS + ANATOMY};
    tasks[3] = (struct request_task){.first = ITEMS};
    for (int i = 0; i <= ITEMS; i++) {
        items[i] = (struct request_item){.gold = i < ITEMS ? cases[i].gold : 0, .first = 2 * i};
        for (int c = 0; c < 2 && i < ITEMS; c++) {
            list[2 * i + c] =
                (struct request){.chars = cases[i].chars[c], .tokens = 1, .scored = 2 * i + c};
            t.sum[(2 * i + c) * metrics_sums()] = cases[i].nll[c];
        }
    }
    t.requests = (struct requests){.n_tasks = 3,
                                   .n_items = ITEMS,
                                   .n = 2 * ITEMS,
                                   .tasks = tasks,
                                   .items = items,
                                   .list = list};
    return t;
}

static void by_hand(void **state)
{
    (void)state;
    struct tested t = tested_make();
    const struct requests r = t.requests;
    double *sum = t.sum;
    const struct answers a = answers_of(sum);
    json_t *record = accuracy_record(&r, &a);
    assert_int_equal(json_object_size(record), 4);
    assert_true(close_to(number(record, "piqa", "accuracy"), 0.5));
    assert_true(close_to(number(record, "piqa", "accuracy_stderr"), sqrt(1.0 / 3 / 4)));
    assert_true(close_to(number(record, "piqa", "accuracy_norm"), 0.25));
    assert_true(close_to(number(record, "piqa", "accuracy_norm_stderr"), sqrt(0.75 / 3 / 4)));
    assert_true(close_to(number(record, "mmlu_anatomy", "accuracy"), 0.5));
    assert_true(close_to(number(record, "mmlu_virology", "accuracy"), 2.0 / 3));
    assert_true(json_is_null(json_object_get(json_object_get(record, "mmlu"), "accuracy_norm")));
    assert_true(close_to(number(record, "mmlu", "accuracy"), 0.6));
    /* squared standard errors of the subjects: 1/4 and 1/9 */
    assert_true(close_to(number(record, "mmlu", "accuracy_stderr"),
                         sqrt((1 * 2 * 0.25 + 2 * 3 * (1.0 / 9)) / 3 / 5)));
    assert_true(close_to(number(record, "mmlu", "items"), 5));
    json_decref(record);
    free(sum);
}

/* Against another model, which answers two more items of anatomy's and virology's differently. */
static void changes_are_counted_item_by_item(void **state)
{
    (void)state;
    struct tested full = tested_make(), other = tested_make();
    const struct answers a = answers_of(full.sum), b = answers_of(other.sum);
    const int64_t flipped[] = {PIQA_ITEMS, PIQA_ITEMS + 1, PIQA_ITEMS + 2};
    struct accuracy_change c = accuracy_compare(&full.requests, &a, &b, "mmlu");
    assert_true(c.change == 0 && c.degradation == 0 && !signbit(c.degradation) && c.error == 0);
    assert_true(c.lost == 0 && c.gained == 0 && c.p == 1);
    for (int i = 0; i < 3; i++) { /* right, wrong, right become wrong, right, wrong */
        double *one = other.sum + 2 * flipped[i] * metrics_sums();
        const double nll = one[0];
        one[0] = one[metrics_sums()];
        one[metrics_sums()] = nll;
    }
    c = accuracy_compare(&full.requests, &a, &b, "mmlu");
    assert_true(c.lost == 2 && c.gained == 1 && c.p == 1);
    assert_true(close_to(c.change, -0.2) && close_to(c.degradation, 0.2 / 0.4));
    /* differences -1, 1 with mean 0 in anatomy, and -1, 0, 0 with mean -1/3 in virology */
    assert_true(close_to(c.error, sqrt((2 + 2.0 / 3) / (5 - 2) / 5)));
    c = accuracy_compare(&full.requests, &a, &b, "mmlu_virology");
    assert_true(c.lost == 1 && c.gained == 0 && close_to(c.change, -1.0 / 3));
    c = accuracy_compare(&full.requests, &a, &b, "piqa");
    assert_true(c.lost == 0 && c.gained == 0);
    json_t *table = answers_table(&full.requests, &a, "mmlu");
    assert_int_equal(json_array_size(json_object_get(table, "choice")), 10);
    assert_string_equal(json_string_value(json_array_get(json_object_get(table, "subject"), 4)),
                        "mmlu_virology");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(table, "item"), 9)), 2);
    assert_true(json_number_get(json_array_get(json_object_get(table, "log_likelihood"), 3)) == -1);
    json_decref(table);
    free(full.sum);
    free(other.sum);
}

/* scipy.stats.binomtest(lost, lost + gained).pvalue */
static void mcnemar(void **state)
{
    (void)state;
    static const struct {
        int64_t lost, gained;
        double p;
    } known[] = {{0, 0, 1},
                 {1, 0, 1},
                 {0, 5, 0.0625},
                 {10, 2, 79 / 2048.0},
                 {7, 7, 1},
                 {300, 250, 0.03657874554910267},
                 {2800, 3000, 0.008969436001193404},
                 {20000, 15000, 7.940646722921095e-158}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const double p = mcnemar_exact(known[i].lost, known[i].gained);
        assert_true(fabs(p - known[i].p) <= 1e-9 * known[i].p);
        assert_true(p == mcnemar_exact(known[i].gained, known[i].lost));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand),
                                       cmocka_unit_test(changes_are_counted_item_by_item),
                                       cmocka_unit_test(mcnemar)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
