/* Token sequences cached between visits: each visit gets its own inputs, whatever earlier visits
 * requested, and they stay valid during the visit. What is read is what was planned. */
#include "engine/inputs.h"
#include "eval/dataset.h"
#include "scratch.h"
#include "tokenizer/eos.h"
#include "util/fsx.h"
#include "util/lru.h"

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
    lru_trim(&cache.inputs, 0);
    lru_trim(&own.inputs, 0);
}

/* --- planned digests --- */

static void copy(const char *from, const char *to)
{
    char *data;
    size_t n;
    OK_OR_FAIL(fsx_read(from, 0, &data, &n, e));
    OK_OR_FAIL(fsx_write_file(to, data, n, e));
    free(data);
}

static void put(const char *path, const char *text)
{
    OK_OR_FAIL(fsx_write_file(path, text, strlen(text), e));
}

/* A folder with one file of each kind that a visit reads. */
enum { TEXT, IDS, TOKENIZER, SPECIAL, TASK, KINDS };
struct kinds {
    char path[KINDS][300];
    char ids[320];
    struct data_options evaluations[2];
    struct visit visit;
};

static void make_kinds(struct kinds *k, const char *folder)
{
    static const char *const names[KINDS] = {"a.txt", "ids.safetensors", "tokenizer.json",
                                             "tokenizer_config.json", "piqa.jsonl"};
    static char text[] = "text", stored[] = "stored", eos[] = "eos", piqa[] = "piqa";
    for (int i = 0; i < KINDS; i++)
        snprintf(k->path[i], sizeof k->path[i], "%s/%s", folder, names[i]);
    snprintf(k->path[TEXT], sizeof k->path[TEXT], "tokenizer"); /* a path like any other */
    snprintf(k->ids, sizeof k->ids, "%s:input_ids", k->path[IDS]);
    put(k->path[TEXT], "one text, and then some more of it to have enough of tokens\n");
    copy(FIXTURES "/models/llama/reference.safetensors", k->path[IDS]);
    copy(FIXTURES "/tokenizers/gpt2/tokenizer.json", k->path[TOKENIZER]);
    put(k->path[SPECIAL], "{\"eos_token\": \"<|endoftext|>\"}");
    put(k->path[TASK], "{\"goal\": \"g\", \"sol1\": \"a\", \"sol2\": \"b\", \"label\": 0}\n");
    k->evaluations[0] =
        (struct data_options){.name = text, .text = k->path[TEXT], .length = 4, .separator = eos};
    k->evaluations[1] = (struct data_options){.name = stored, .ids = k->ids};
    static char model[] = FIXTURES "/models/llama";
    k->visit = (struct visit){.weights = {.path = model},
                              .tokenizer = k->path[TOKENIZER],
                              .requests = {.tasks = piqa, .folder = (char *)(uintptr_t)folder},
                              .n_evaluations = 2,
                              .evaluations = k->evaluations};
}

/* The digests as a plan makes them. */
static json_t *plan(const struct kinds *k)
{
    char hash[HASH_HEX];
    json_t *inputs = json_object();
    for (int i = 0; i < 2; i++) {
        const struct data_options *d = &k->evaluations[i];
        OK_OR_FAIL(dataset_hash(d, hash, e));
        json_object_set_new(inputs, d->text ? d->text : d->ids, json_string(hash));
    }
    OK_OR_FAIL(hash_file(k->path[TOKENIZER], hash, e));
    json_object_set_new(inputs, INPUT_TOKENIZER, json_string(hash));
    OK_OR_FAIL(hash_file(k->path[TASK], hash, e));
    json_object_set_new(inputs, k->path[TASK], json_string(hash));
    struct special x = {0};
    OK_OR_FAIL(special_read(k->path[TOKENIZER], &x, e));
    json_object_set_new(inputs, INPUT_SPECIAL, json_string(x.hash));
    special_free(&x);
    return inputs;
}

/* Adds a byte that changes no structure; the token that is named as the end, for SPECIAL. */
static void change(const struct kinds *k, int kind)
{
    if (kind == SPECIAL) {
        put(k->path[kind], "{\"eos_token\": \"!\"}");
        return;
    }
    char *data;
    size_t n;
    OK_OR_FAIL(fsx_read(k->path[kind], 0, &data, &n, e));
    if (kind == IDS) /* the lowest byte of the last id */
        data[n - 8] ^= 1;
    else
        data[n] = '\n'; /* in place of the NUL behind the text */
    OK_OR_FAIL(fsx_write_file(k->path[kind], data, n + (kind != IDS), e));
    free(data);
}

static enum status get(struct visit_cache *cache, const struct visit *v, struct err *e)
{
    struct visit_inputs in;
    *e = (struct err){0};
    return visit_inputs_get(cache, v, &in, e);
}

/* One changed file fails; so does a planned one of another digest behind a cached one; equal bytes
 * under another inode do not. */
static void what_is_read_is_what_was_planned(void **state)
{
    (void)state;
    char other[600];
    struct kinds k;
    struct visit_cache cache = {0};
    struct err e;
    assert_int_equal(chdir(scratch_dir()), 0);
    make_kinds(&k, scratch_dir());
    json_t *planned = plan(&k);
    k.visit.inputs = planned;
    if (get(&cache, &k.visit, &e) != OK) fail_msg("%s", e.text);
    for (int kind = 0; kind < KINDS; kind++) {
        snprintf(other, sizeof other, "%s.other", k.path[kind]);
        copy(k.path[kind], other);
        lru_trim(&cache.inputs, 0);
        change(&k, kind);
        assert_int_equal(get(&cache, &k.visit, &e), ERR_CHANGED);
        if (!strstr(e.text, k.path[kind == SPECIAL ? TOKENIZER : kind]) ||
            !strstr(e.text, "`qtraj run` again plans anew"))
            fail_msg("%s", e.text);
        k.visit.inputs = plan(&k); /* anew: the changed file is right now, the old one is wrong */
        if (get(&cache, &k.visit, &e) != OK) fail_msg("%s", e.text);
        assert_int_equal(rename(other, k.path[kind]), 0);
        if (get(&cache, &k.visit, &e) != OK) fail_msg("%s", e.text); /* cached: what was planned */
        json_decref(k.visit.inputs);
        k.visit.inputs = planned;
        if (get(&cache, &k.visit, &e) != OK) fail_msg("%s", e.text);
    }
    put(k.path[SPECIAL], "{\"eos_token\": \"<|endo"); /* half written */
    lru_trim(&cache.inputs, 0);
    assert_int_equal(get(&cache, &k.visit, &e), ERR_CHANGED);
    if (!strstr(e.text, "changed since the run was planned, and cannot be read"))
        fail_msg("%s", e.text);
    put(k.path[SPECIAL], "{\"eos_token\": \"<|endoftext|>\"}");
    json_object_del(planned, k.path[TEXT]);
    assert_int_equal(get(&cache, &k.visit, &e), ERR_CHANGED);
    assert_non_null(strstr(e.text, "was not there when the run was planned"));
    json_decref(planned);
    lru_trim(&cache.inputs, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_visit_has_its_own),
                                       cmocka_unit_test(what_is_read_is_what_was_planned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
