/* Evaluation sequences that also calibrate: equal texts however they are cut, and no others. */
#include "eval/overlap.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "util/rng.h"

enum { TEXT = 4000, VOCABULARY = 500 };

/* A text of random tokens, with the same ids for the same stream. */
static void fill(int32_t *ids, int64_t n, uint64_t stream)
{
    for (int64_t t = 0; t < n; t++) ids[t] = (int32_t)(rng_bits(stream, (uint64_t)t) % VOCABULARY);
}

/* n sequences of `length` tokens each, cut one behind the other from ids. */
static struct sequences cut(const int32_t *ids, int64_t n, int64_t length)
{
    struct sequences s;
    assert_int_equal(sequences_init(&s, n, n * length, 0, NULL), OK);
    memcpy(s.ids, ids, (size_t)(n * length) * sizeof *ids);
    for (int64_t i = 0; i <= n; i++) s.offset[i] = i * length;
    return s;
}

static int64_t count(const struct sequences *s, const struct sequences *in)
{
    int64_t found;
    assert_int_equal(overlap_count(s, 0, s->n, in, &found, NULL), OK);
    return found;
}

static int32_t text[TEXT], other[TEXT];

static void equal_and_different_texts(void **state)
{
    (void)state;
    struct sequences a = cut(text, 10, 256), b = cut(other, 10, 256);
    int64_t found;
    assert_int_equal(count(&a, &a), 10);
    assert_int_equal(count(&a, &b), 0);
    assert_int_equal(overlap_count(&a, 3, 7, &a, &found, NULL), OK);
    assert_int_equal(found, 4);
    sequences_free(&a);
    sequences_free(&b);
}

/* Calibration on the first 1024 tokens, evaluation in blocks of other lengths that start elsewhere:
 * a block counts where at least half of it was calibrated on. */
static void cuts_do_not_matter(void **state)
{
    (void)state;
    struct sequences calibration = cut(text, 4, 256), one = cut(text, 1, 1024);
    struct sequences shifted = cut(text + 100, 10, 300), short_ones = cut(text + 7, 20, 64);
    assert_int_equal(count(&shifted, &one), 3); /* 100..1000 */
    assert_int_equal(count(&shifted, &calibration), 3);
    assert_int_equal(count(&short_ones, &one), 16); /* the last one, 967..1031, mostly */
    sequences_free(&calibration);
    sequences_free(&one);
    sequences_free(&shifted);
    sequences_free(&short_ones);
}

/* 100 shared tokens of 256 are less than half, 140 are more. */
static void half_of_the_tokens(void **state)
{
    (void)state;
    int32_t mixed[256];
    struct sequences calibration = cut(text, 4, 256);
    for (int shared = 100; shared <= 140; shared += 40) {
        memcpy(mixed, other, sizeof mixed);
        memcpy(mixed + 50, text + 300, (size_t)shared * sizeof *mixed);
        struct sequences s = cut(mixed, 1, 256);
        assert_int_equal(count(&s, &calibration), shared == 140);
        sequences_free(&s);
    }
    sequences_free(&calibration);
}

/* Spans shorter than OVERLAP_SPAN say nothing: the same tokens in another order. */
static void short_spans_do_not_count(void **state)
{
    (void)state;
    int32_t shuffled[1024];
    enum { PIECE = OVERLAP_SPAN - 1 };
    for (int i = 0; i < 1024; i++) {
        int piece = i / PIECE, n = 1024 / PIECE;
        shuffled[i] = piece < n ? text[(n - 1 - piece) * PIECE + i % PIECE] : other[i];
    }
    struct sequences a = cut(text, 4, 256), b = cut(shuffled, 4, 256);
    assert_int_equal(count(&b, &a), 0);
    sequences_free(&a);
    sequences_free(&b);
}

/* Sequences shorter than a span count if they are equal as a whole; padding is no text. */
static void short_sequences_and_padding(void **state)
{
    (void)state;
    struct sequences a = cut(text, 5, 10), b = cut(text + 20, 5, 10), c = cut(text + 5, 3, 10);
    assert_int_equal(count(&b, &a), 3);
    assert_int_equal(count(&c, &a), 0);
    struct sequences padded = cut(text, 2, 256), plain = cut(text, 2, 256);
    int64_t valid[] = {10, 256};
    for (int i = 10; i < 256; i++) padded.ids[i] = 0;
    padded.valid = valid;
    assert_int_equal(count(&plain, &padded), 1);
    assert_int_equal(count(&a, &padded), 1); /* the ten real tokens of its first sequence */
    padded.valid = NULL;
    sequences_free(&a);
    sequences_free(&b);
    sequences_free(&c);
    sequences_free(&padded);
    sequences_free(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_and_different_texts),   cmocka_unit_test(cuts_do_not_matter),
        cmocka_unit_test(half_of_the_tokens),          cmocka_unit_test(short_spans_do_not_count),
        cmocka_unit_test(short_sequences_and_padding),
    };
    fill(text, TEXT, 1);
    fill(other, TEXT, 2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
