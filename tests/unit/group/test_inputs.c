/* Token sequences cached between visits: each visit gets its own inputs, whatever earlier visits
 * requested, and they stay valid during the visit. */
#include "group/inputs.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char ids[] = FIXTURES "/models/llama/reference.safetensors:input_ids"; /* two rows */

#define OK_OR_FAIL(call)                                                                           \
    do {                                                                                           \
        struct err err_ = {0}, *e = &err_;                                                         \
        if ((call) != OK) fail_msg("%s", err_.text);                                               \
    } while (0)

/* One row of the file, or both; under a new name each time, so that the cache holds many. */
static struct data_options rows(char *name, int64_t skip, int64_t samples)
{
    return (struct data_options){.name = name, .ids = ids, .skip = skip, .samples = samples};
}

static const struct sequences *both(struct visit_cache *cache)
{
    static char path[] = FIXTURES "/models/llama", name[] = "both";
    const struct visit v = {.weights = {.path = path}};
    const struct data_options data = rows(name, 0, 0);
    const struct sequences *s;
    OK_OR_FAIL(visit_sequences_get(cache, &v, &data, &s, e));
    assert_int_equal(s->n, 2);
    return s;
}

static void is_row(const struct sequences *s, const struct sequences *all, int row)
{
    size_t bytes = (size_t)(all->offset[row + 1] - all->offset[row]) * sizeof *s->ids;
    assert_int_equal(s->n, 1);
    assert_memory_equal(s->ids, all->ids + all->offset[row], bytes);
}

/* Visit i: calibrates on the first row, evaluates on the second; curvature requests its data in
 * between. */
static void one_visit(struct visit_cache *cache, int i, const struct sequences *all)
{
    static char path[] = FIXTURES "/models/llama";
    char name[3][16];
    for (int k = 0; k < 3; k++) snprintf(name[k], sizeof name[k], "%c%d", "ced"[k], i);
    struct data_options evaluation = rows(name[1], 1, 1), data = rows(name[2], 1, 0);
    const struct visit v = {.weights = {.path = path},
                            .calibration = rows(name[0], 0, 1),
                            .n_evaluations = 1,
                            .evaluations = &evaluation};
    const struct sequences *more;
    struct visit_inputs got;
    visit_inputs_trim(cache);
    OK_OR_FAIL(visit_inputs_get(cache, &v, &got, e));
    for (int turn = 0; turn < 2; turn++) {
        is_row(got.calibration, all, 0);
        is_row(got.evaluation, all, 1);
        assert_int_equal(got.first[1], 1);
        OK_OR_FAIL(visit_sequences_get(cache, &v, &data, &more, e));
        is_row(more, all, 1);
    }
}

static void each_visit_has_its_own(void **state)
{
    (void)state;
    struct visit_cache cache = {0}, own = {0};
    const struct sequences *all = both(&own);
    /* New ones each time, then earlier ones at every distance. */
    for (int i = 0; i < 6; i++)
        for (int back = 0; back <= i; back++) one_visit(&cache, i - back, all);
    visit_inputs_forget(&cache);
    visit_inputs_forget(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_visit_has_its_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
