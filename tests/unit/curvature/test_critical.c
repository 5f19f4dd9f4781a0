/* critical: the step at which a known function starts to rise; the loss of a model along a line. */
#include "curvature/critical.h"
#include "curvature/hvp.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct parabola {
    double slope, curvature, wall; /* not finite beyond the wall */
    int64_t calls;
};

static enum status parabola(void *context, double step, double *loss, struct err *e)
{
    struct parabola *p = context;
    (void)e;
    p->calls++;
    *loss = 5 + p->slope * step + p->curvature * step * step / 2;
    if (step > p->wall) *loss = NAN;
    return OK;
}

static struct critical search(struct parabola *p)
{
    struct critical out;
    struct err e = {0};
    const struct critical_line line = {parabola, p};
    p->calls = 0;
    assert_int_equal(critical_search(&line, 5, &out, &e), OK);
    assert_int_equal(out.passes, p->calls);
    return out;
}

static void brackets_the_step_of_parabolas(void **state)
{
    (void)state;
    for (double exact = 1.5 / 1024; exact < 600; exact *= 1.37) {
        struct parabola p = {.slope = -exact / 2, .curvature = 1, .wall = INFINITY};
        struct critical c = search(&p);
        assert_true(c.low <= exact && exact <= c.high && c.low >= c.high * 15 / 16);
        assert_true(fabs(c.sharpness * exact / 2 - 1) < 0.035);
        assert_true(c.passes <= 15);
    }
    struct parabola near = {.slope = -0.8, .curvature = 1, .wall = INFINITY};
    assert_true(search(&near).passes <= 6);
}

static void uphill_is_infinite_and_downhill_zero(void **state)
{
    (void)state;
    struct parabola uphill = {.slope = 1, .curvature = 1, .wall = INFINITY};
    struct critical c = search(&uphill);
    assert_true(isinf(c.sharpness) && c.low == 0 && c.high == 1.0 / 1024);
    struct parabola down = {.slope = -1, .curvature = 0, .wall = INFINITY};
    c = search(&down);
    assert_true(c.sharpness == 0 && c.low == 1024 && isinf(c.high));
    struct parabola wall = {.slope = -1, .curvature = 0, .wall = 7};
    c = search(&wall);
    assert_true(c.low <= 7 && 7 < c.high && c.low >= c.high * 15 / 16);
}

/* If the weights at the other end are not finite, the result is an error, not a loss that rises at
 * once. */
static void weights_that_are_no_numbers_are_an_error(void **state)
{
    (void)state;
    struct parabola nowhere = {.slope = -1, .curvature = 1, .wall = 0};
    const struct critical_line line = {parabola, &nowhere};
    struct critical c;
    struct err e = {0};
    assert_int_equal(critical_search(&line, 5, &c, &e), ERR_NUMERIC);
    assert_non_null(strstr(e.text, "damaged"));
}

static enum status loss_of(void *context, enum status st, struct checkpoint *c, double *loss,
                           struct err *e)
{
    struct model *m = NULL;
    struct hvp *h = NULL;
    if (st == OK) st = model_open(c, &m, e);
    if (st == OK) st = hvp_open(m, context, HVP_QUANTIZED, &h, e);
    if (st == OK) st = hvp_loss(h, loss, e);
    hvp_close(h);
    model_close(m);
    return st;
}

/* From the last checkpoint of the quickstart back to the first the loss rises; losses of the
 * combined weights bracket the step at which it does, and a step of 1 is the other checkpoint. */
static void brackets_between_two_checkpoints(void **state)
{
    (void)state;
    struct checkpoint *a = NULL, *b = NULL;
    struct sequences s = {0};
    struct err e = {0};
    struct critical c;
    double start;
    assert_int_equal(checkpoint_open(CONFIGS "/quickstart/trajectory/step000500", &a, &e), OK);
    assert_int_equal(checkpoint_open(CONFIGS "/quickstart/trajectory/step001200", &b, &e), OK);
    assert_int_equal(sequences_init(&s, 1, 40, 0, &e), OK);
    s.offset[1] = 40;
    for (int i = 0; i < 40; i++) s.ids[i] = (7 * i * i + 3 * i) % 2000;
    const struct critical_loss loss = {loss_of, &s};
    assert_int_equal(loss_of(&s, OK, a, &start, &e), OK);
    for (int sign = -1; sign <= 1; sign += 2) {
        assert_int_equal(critical_between(a, b, sign, &loss, start, &c, &e), OK);
        assert_true(c.passes > 1 && c.passes <= 16 && c.sharpness >= 0);
        assert_true(c.low < c.high);
    }
    checkpoint_close(a);
    checkpoint_close(b);
    sequences_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(brackets_the_step_of_parabolas),
        cmocka_unit_test(weights_that_are_no_numbers_are_an_error),
        cmocka_unit_test(uphill_is_infinite_and_downhill_zero),
        cmocka_unit_test(brackets_between_two_checkpoints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
