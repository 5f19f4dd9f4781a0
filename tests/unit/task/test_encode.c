/* Tokens of contexts and continuations, where the two meet. The expected ids are those of
 * lm_eval 0.4.13's rule applied by hand to ids of the tokenizers library: what is encoded together,
 * behind as many tokens as the context alone has. */
#include "task/encode.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct text text_of(const char *s)
{
    return (struct text){s, strlen(s)};
}

/* A tokenizer and what it makes of texts. */
struct fixture {
    struct tokenizer *t;
    struct encoder x;
};

static void open_fixture(struct fixture *f, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, FIXTURES "/tokenizers/%s/tokenizer.json", name);
    assert_int_equal(tokenizer_open(path, &f->t, NULL), OK);
    assert_int_equal(encoder_init(&f->x, f->t, NULL), OK);
}

static int32_t *plain(const struct fixture *f, const char *s, int64_t *n)
{
    int32_t *ids;
    assert_int_equal(tokenizer_encode(f->t, s, strlen(s), false, &ids, n, NULL), OK);
    return ids;
}

/* Whether the pair has the tokens of `before`, after bos (-1: none), and of `whole` from its token
 * `from` on. */
static void check(const struct fixture *f, const char *context, const char *continuation,
                  int32_t bos, const char *before, const char *whole, int64_t from)
{
    int32_t *c, *k;
    int64_t n_c, n_k, n_before, n_whole;
    int32_t *want_c = plain(f, before, &n_before), *want_k = plain(f, whole, &n_whole);
    const int64_t extra = bos >= 0;
    assert_int_equal(encode_context(&f->x, text_of(context), &c, &n_c, NULL), OK);
    assert_int_equal(
        encode_continuation(&f->x, text_of(context), n_c, text_of(continuation), &k, &n_k, NULL),
        OK);
    assert_int_equal(n_c, n_before + extra);
    if (extra) assert_int_equal(c[0], bos);
    assert_memory_equal(c + extra, want_c, (size_t)n_before * sizeof *c);
    assert_int_equal(n_k, n_whole - from);
    assert_memory_equal(k, want_k + from, (size_t)n_k * sizeof *k);
    free(c);
    free(k);
    free(want_c);
    free(want_k);
}

static int64_t count(const struct fixture *f, const char *s)
{
    int64_t n;
    free(plain(f, s, &n));
    return n;
}

static void blanks_at_a_border_go_to_the_continuation(void **state)
{
    struct fixture f;
    (void)state;
    open_fixture(&f, "gpt2");
    check(&f, "The cat", " sat", -1, "The cat", "The cat sat", count(&f, "The cat"));
    /* white space at the end of the context is the continuation's */
    check(&f, "The cat ", "sat", -1, "The cat", "The cat sat", count(&f, "The cat"));
    check(&f, "The cat\u00a0\n", " sat", -1, "The cat", "The cat\u00a0\n sat",
          count(&f, "The cat"));
    /* tokens across the border: those behind the context's count */
    check(&f, "walk", "ing", -1, "walk", "walking", count(&f, "walk"));
    check(&f, "...", "...", -1, "...", "......", count(&f, "..."));
    tokenizer_close(f.t);
}

static void special_tokens_begin_a_text(void **state)
{
    struct fixture f;
    int32_t *ids;
    int64_t n;
    const int32_t *before, *behind;
    int64_t n_before, n_behind;
    (void)state;
    open_fixture(&f, "llama3"); /* its post-processor puts one token before a text */
    tokenizer_special(f.t, &before, &n_before, &behind, &n_behind);
    assert_int_equal(n_before, 1);
    check(&f, "The cat", " sat", before[0], "The cat", "The cat sat", count(&f, "The cat"));
    /* a text that begins with it gets no second one */
    check(&f, "<|begin_of_text|>The cat", " sat", -1, "<|begin_of_text|>The cat",
          "<|begin_of_text|>The cat sat", count(&f, "<|begin_of_text|>The cat"));
    /* it stands for an empty context */
    check(&f, "", " sat", before[0], "", " sat", 0);
    check(&f, "", "<|begin_of_text|> sat", before[0], "", "<|begin_of_text|> sat", 1);
    assert_int_equal(encode_context(&f.x, text_of(" \n"), &ids, &n, NULL), OK);
    assert_int_equal(n, 1);
    free(ids);
    tokenizer_close(f.t);
}

static void what_cannot_be_encoded_is_refused(void **state)
{
    struct fixture f;
    int32_t *ids;
    int64_t n;
    struct err e = {0};
    (void)state;
    open_fixture(&f, "gpt2");
    assert_int_equal(encode_context(&f.x, text_of(" \n"), &ids, &n, &e), OK);
    free(ids);
    assert_int_equal(encode_continuation(&f.x, text_of(" \n"), n, text_of("x"), &ids, &n, &e),
                     ERR_FORMAT);
    assert_non_null(strstr(e.text, "only white space"));
    assert_null(ids);
    err_clear(&e);
    assert_int_equal(encode_continuation(&f.x, text_of("a"), 1, text_of(""), &ids, &n, &e),
                     ERR_FORMAT);
    assert_non_null(strstr(e.text, "adds no token"));
    assert_null(ids);
    tokenizer_close(f.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blanks_at_a_border_go_to_the_continuation),
                                       cmocka_unit_test(special_tokens_begin_a_text),
                                       cmocka_unit_test(what_cannot_be_encoded_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
