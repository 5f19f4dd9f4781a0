/* The two merge algorithms against the definition, and words of a million characters. */
#include "tokenizer/bpe.h"
#include "tokenizer/tokenizer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

struct model {
    json_t *root;
    struct vocab vocab;
    struct bpe bpe;
};

static void model_open(struct model *m, const char *path, bool byte_level)
{
    struct err e = {0};
    *m = (struct model){0};
    assert_int_equal(json_read_file(path, 0, &m->root, &e), OK);
    const json_t *model = json_object_get(m->root, "model");
    assert_int_equal(vocab_read(&m->vocab, json_object_get(model, "vocab"), -1, &e), OK);
    assert_int_equal(bpe_read(&m->bpe, model, &m->vocab, byte_level, &e), OK);
}

static void model_close(struct model *m)
{
    bpe_free(&m->bpe);
    vocab_free(&m->vocab);
    json_decref(m->root);
}

static int32_t rank_by_search(const struct bpe *b, int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    for (uint64_t i = 0; i <= b->mask; i++)
        if (b->merge[i].pair == pair) return b->merge[i].rank;
    return INT32_MAX;
}

/* The definition: repeatedly merge the leftmost pair of lowest rank. */
static int64_t merge_by_definition(const struct bpe *b, int32_t *s, int64_t n)
{
    for (;;) {
        int32_t best_rank = INT32_MAX;
        int64_t best = 0;
        for (int64_t i = 0; i + 1 < n; i++) {
            int32_t rank = rank_by_search(b, s[i], s[i + 1]);
            if (rank < best_rank) {
                best_rank = rank;
                best = i;
            }
        }
        if (best_rank == INT32_MAX) return n;
        s[best] = b->merged[best_rank];
        memmove(s + best + 1, s + best + 2, (size_t)(n - best - 2) * sizeof *s);
        n--;
    }
}

static void merges_are_those_of_a_plain_search(void **state)
{
    (void)state;
    enum { MOST = 90 };
    static const char letters[] = "   etaoinshrdl--.\n";
    struct err e = {0};
    struct model m;
    struct bpe_run run;
    uint64_t x = 7;
    model_open(&m, FIXTURES "/tokenizers/gpt2/tokenizer.json", true);
    assert_int_equal(bpe_run_init(&run, 0, &e), OK);
    for (int round = 0; round < 150; round++) {
        int32_t first[MOST], want[MOST], got[MOST];
        int64_t n = round % MOST;
        for (int64_t i = 0; i < n; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            first[i] = m.bpe.symbol[(unsigned char)letters[(x >> 33) % (sizeof letters - 1)]];
        }
        memcpy(want, first, sizeof want);
        int64_t n_want = merge_by_definition(&m.bpe, want, n), n_got = n;
        memcpy(got, first, sizeof got);
        assert_int_equal(bpe_merge(&m.bpe, &run, got, &n_got, &e), OK);
        assert_int_equal(n_got, n_want);
        assert_memory_equal(got, want, (size_t)n_want * sizeof *want);
    }
    bpe_run_free(&run);
    model_close(&m);
}

/* Words of a text without pre-tokenizer are cut before marks (▁); the ids must be those of the
 * uncut word. */
static void test_cuts_at_marks(void **state)
{
    (void)state;
    static const char text[] = "\xE2\x96\x81the\xE2\x96\x81"
                               "ferry\xE2\x96\x81\xE2\x96\x81\xE2\x98\x83-left\xE2\x96\x81";
    struct err e = {0};
    struct model m;
    struct ids ids[2] = {{0}, {0}};
    model_open(&m, FIXTURES "/tokenizers/llama2/tokenizer.json", false);
    assert_true(m.bpe.cuts_at_mark);
    for (int i = 0; i < 2; i++) {
        struct bpe_run run;
        assert_int_equal(bpe_run_init(&run, 0, &e), OK);
        m.bpe.cuts_at_mark = i == 0;
        assert_int_equal(bpe_encode(&m.bpe, &run, text, sizeof text - 1, &ids[i], &e), OK);
        bpe_run_free(&run);
    }
    assert_int_equal(ids[0].n, ids[1].n);
    assert_memory_equal(ids[0].id, ids[1].id, (size_t)ids[0].n * sizeof *ids[0].id);
    free(ids[0].id);
    free(ids[1].id);
    model_close(&m);
}

/* The word's ids with this model. */
static void expect_ids(const char *model, const char *word, int64_t n, const int32_t *want)
{
    struct err e = {0};
    struct model m = {0};
    struct bpe_run run;
    struct ids ids = {0};
    assert_int_equal(json_read_text("model", model, strlen(model), &m.root, &e), OK);
    assert_int_equal(vocab_read(&m.vocab, json_object_get(m.root, "vocab"), -1, &e), OK);
    assert_int_equal(bpe_read(&m.bpe, m.root, &m.vocab, false, &e), OK);
    assert_int_equal(bpe_run_init(&run, 0, &e), OK);
    assert_int_equal(bpe_encode(&m.bpe, &run, word, strlen(word), &ids, &e), OK);
    assert_int_equal(ids.n, n);
    for (int64_t i = 0; i < n; i++) assert_int_equal(ids.id[i], want[i]);
    free(ids.id);
    bpe_run_free(&run);
    model_close(&m);
}

/* A vocabulary with a token that has a mark after another character forbids these cuts. */
static void a_mark_inside_a_token_forbids_cuts(void **state)
{
    (void)state;
    expect_ids("{\"vocab\":{\"a\":0,\"\xE2\x96\x81\":1,\"a\xE2\x96\x81\":2},"
               "\"merges\":[\"a \xE2\x96\x81\"]}",
               "a\xE2\x96\x81", 1, (const int32_t[]){2});
    expect_ids("{\"vocab\":{\"abc\":0,\"\xE2\x96\x81\":1,\"abc\xE2\x96\x81\":2,\"a\":3,\"b\":4,"
               "\"c\":5,\"ab\":6},\"merges\":[\"a b\",\"ab c\",\"abc \xE2\x96\x81\"]}",
               "abc\xE2\x96\x81", 1, (const int32_t[]){2});
}

/* As in the library tokenizers, where a later one replaces it. */
static void of_a_merge_given_twice_the_last_rank_counts(void **state)
{
    (void)state;
    expect_ids("{\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"bc\":4},"
               "\"merges\":[\"a b\",\"b c\",\"a b\"]}",
               "abc", 2, (const int32_t[]){0, 4});
}

/* n log n: a quadratic merge would take hours here. Decoding must give back the text. */
static void long_words_take_n_log_n(void **state)
{
    (void)state;
    enum { N = 1000000 };
    static const char *const names[] = {"gpt2", "llama3", "neox", "llama2_metaspace"};
    char *text = malloc(N);
    assert_non_null(text);
    for (size_t k = 0; k < 8; k++) {
        struct err e = {0};
        struct tokenizer *t = NULL;
        char path[200], *back;
        int32_t *ids;
        int64_t n_ids;
        size_t n;
        uint64_t x = 1;
        snprintf(path, sizeof path, FIXTURES "/tokenizers/%s/tokenizer.json", names[k / 2]);
        for (int i = 0; i < N; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            text[i] = k % 2 ? ' ' : (char)('a' + (x >> 33) % 26);
        }
        text[0] = 'b';
        assert_int_equal(tokenizer_open(path, &t, &e), OK);
        assert_int_equal(tokenizer_encode(t, text, N, false, &ids, &n_ids, &e), OK);
        assert_int_equal(tokenizer_decode(t, ids, n_ids, &back, &n, &e), OK);
        assert_int_equal(n, N);
        assert_memory_equal(back, text, N);
        free(back);
        free(ids);
        tokenizer_close(t);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_are_those_of_a_plain_search),
        cmocka_unit_test(test_cuts_at_marks),
        cmocka_unit_test(a_mark_inside_a_token_forbids_cuts),
        cmocka_unit_test(of_a_merge_given_twice_the_last_rank_counts),
        cmocka_unit_test(long_words_take_n_log_n),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
