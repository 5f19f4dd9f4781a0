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

static void by_hand(void **state)
{
    (void)state;
    const struct task *piqa, *mmlu;
    const char *subject;
    assert_int_equal(task_find("piqa", &piqa, &subject, NULL), OK);
    assert_int_equal(task_find("mmlu_anatomy", &mmlu, &subject, NULL), OK);
    assert_string_equal(subject, "anatomy");
    char names[][16] = {"piqa", "mmlu_anatomy", "mmlu_virology"};
    struct request_task tasks[] = {{names[0], piqa, 0},
                                   {names[1], mmlu, PIQA_ITEMS},
                                   {names[2], mmlu, PIQA_ITEMS + ANATOMY},
                                   {.first = ITEMS}};
    struct request_item items[ITEMS + 1];
    struct request list[2 * ITEMS];
    double *sum = calloc((size_t)(2 * ITEMS * metrics_sums()), sizeof *sum);
    for (int i = 0; i <= ITEMS; i++) {
        items[i] = (struct request_item){.gold = i < ITEMS ? cases[i].gold : 0, .first = 2 * i};
        for (int c = 0; c < 2 && i < ITEMS; c++) {
            list[2 * i + c] = (struct request){.chars = cases[i].chars[c], .tokens = 1};
            sum[(2 * i + c) * metrics_sums()] = cases[i].nll[c];
        }
    }
    const struct requests r = {.n_tasks = 3,
                               .n_items = ITEMS,
                               .n = 2 * ITEMS,
                               .tasks = tasks,
                               .items = items,
                               .list = list};
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
