/* Sequences of several texts that share beginnings: every text has the hidden states that it has
 * alone. */
#include "model/model.h"
#include "model_fixtures.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "blocks.h"

/* A sequence without segments, then one of 1150 tokens: a beginning of 70 tokens; two texts that go
 * on from there, the first with two ends of 5 and of 300 tokens, the second with one of 1; and a
 * text of its own, longer than a tile of keys. */
enum { FIRST = 20, ALONE = 644 };
static struct segment segments[] = {
    {0, 0, -1},   {70, 70, 0},   {100, 100, 1}, {105, 100, 1},
    {405, 70, 0}, {505, 170, 4}, {506, 0, -1},
};
enum { SEGMENTS = sizeof segments / sizeof *segments, TOKENS = 506 + ALONE };

static int64_t segment_end(int64_t k)
{
    return k + 1 < SEGMENTS ? segments[k + 1].row : TOKENS;
}

/* Appends the ids of a segment with its beginning; returns how many there are. */
static int64_t collect(const int32_t *ids, int64_t k, int32_t *out)
{
    int64_t n = segments[k].parent >= 0 ? collect(ids, segments[k].parent, out) : 0;
    assert_int_equal(n, segments[k].pos);
    for (int64_t row = segments[k].row; row < segment_end(k); row++) out[n++] = ids[row];
    return n;
}

static void check_fixture(const char *name)
{
    char dir[512];
    struct err e = {0};
    struct checkpoint *c;
    struct model *m;
    static int32_t ids[FIRST + TOKENS], own[TOKENS];
    int64_t offset[] = {0, FIRST, FIRST + TOKENS}, first[] = {0, 0, SEGMENTS};
    struct sequences s = {
        .n = 2, .offset = offset, .ids = ids, .segments = segments, .first_segment = first};
    snprintf(dir, sizeof dir, FIXTURES "/models/%s", name);
    must(checkpoint_open(dir, &c, &e), &e);
    must(model_open(c, &m, &e), &e);
    const int64_t C = model_shape(m)->hidden;
    for (int64_t i = 0; i < FIRST + TOKENS; i++)
        ids[i] = (int32_t)((i * i * 7 + i * 13) % model_shape(m)->vocab);
    float *x = forward(m, &s, s.offset[s.n]);
    for (int64_t k = 0; k < SEGMENTS; k++) {
        const int64_t n = collect(ids + FIRST, k, own);
        int64_t alone[] = {0, n};
        struct sequences one = {.n = 1, .offset = alone, .ids = own};
        float *y = forward(m, &one, one.offset[one.n]);
        const float *got = x + (FIRST + segments[k].row) * C, *want = y + segments[k].pos * C;
        double scale = 0, worst = 0;
        for (int64_t i = 0; i < (n - segments[k].pos) * C; i++) {
            scale = fmax(scale, fabs((double)want[i]));
            worst = fmax(worst, fabs((double)got[i] - (double)want[i]));
        }
        if (!(worst <= 2e-5 * scale))
            fail_msg("%s: segment %lld differs by %g of %g", name, (long long)k, worst, scale);
        free(y);
    }
    free(x);
    model_close(m);
    checkpoint_close(c);
}

static void as_each_text_alone(void **state)
{
    (void)state;
    for (int i = 0; i < FIXTURES_N; i += FIXTURES_STEP) check_fixture(model_fixtures[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_each_text_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
