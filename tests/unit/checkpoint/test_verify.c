/* Digests of what is read, and whether the files of a checkpoint stay as they are. */
#include "checkpoint/checkpoint.h"
#include "checkpoint/derived.h"
#include "scratch.h"
#include "util/hash.h"

/* A shell command in which %s is the folder of a copy of the checkpoint. */
static void shell(const char *format, const char *dir)
{
    char command[1600];
    int n = 0;
    for (const char *p = format; *p && n < 1500; p++) {
        if (p[0] == '%' && p[1] == 's') {
            n += snprintf(command + n, sizeof command - (size_t)n, "%s", dir);
            p++;
        } else
            command[n++] = *p;
    }
    command[n] = '\0';
    assert_int_equal(system(command), 0);
}

static struct checkpoint *open_copy(const char *of, const char *name)
{
    struct checkpoint *c = NULL;
    struct err e = {0};
    char command[1200];
    const char *dir = scratch_path(name);
    snprintf(command, sizeof command, "rm -rf %s && cp -r %s %s", dir, of, dir);
    assert_int_equal(system(command), 0);
    if (checkpoint_open(dir, &c, &e) != OK) fail_msg("%s", e.text);
    return c;
}

static const char quickstart[] = CONFIGS "/quickstart/trajectory/step001200";

/* Reads all of it for its digests. */
static enum status read_all(const struct checkpoint *c, struct err *e)
{
    bool wanted[100];
    const int64_t n = digests_n(checkpoint_digests(c));
    assert_in_range(n, 1, 100);
    memset(wanted, true, sizeof wanted);
    return checkpoint_read_slices(c, wanted, e);
}

static void whole_of(struct checkpoint *c, char hash[HASH_HEX])
{
    struct err e = {0};
    if (read_all(c, &e) != OK) fail_msg("%s", e.text);
    checkpoint_whole(c, hash);
}

static void flip(const char *dir, long at)
{
    char path[700];
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, at, SEEK_SET);
    const int byte = fgetc(f) ^ 1;
    fseek(f, at, SEEK_SET);
    fputc(byte, f);
    fclose(f);
}

static long bytes_of(const char *dir)
{
    char path[700];
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    const long n = ftell(f);
    fclose(f);
    return n;
}

/* What checkpoint_hash does not see, the whole digest does. */
static void one_bit_anywhere_is_seen(void **state)
{
    char first[HASH_HEX], whole[HASH_HEX], sampled[HASH_HEX];
    int unseen = 0;
    struct checkpoint *c = open_copy(quickstart, "bits");
    const char *dir = checkpoint_dir(c);
    char place[600];
    (void)state;
    snprintf(place, sizeof place, "%s", dir);
    const long n = bytes_of(place);
    whole_of(c, first);
    memcpy(sampled, checkpoint_hash(c), HASH_HEX);
    checkpoint_close(c);
    srand(1);
    for (int i = 0; i < 40; i++) {
        const long at = n - 1 - (long)(rand() % 2000000);
        flip(place, at);
        struct err e = {0};
        if (checkpoint_open(place, &c, &e) != OK) fail_msg("%s", e.text);
        whole_of(c, whole);
        unseen += strcmp(checkpoint_hash(c), sampled) == 0;
        assert_string_not_equal(whole, first);
        checkpoint_close(c);
        flip(place, at);
    }
    assert_true(unseen > 20);
    c = open_copy(place, "bits2"); /* another place, inode and time */
    whole_of(c, whole);
    assert_string_equal(whole, first);
    checkpoint_close(c);
}

/* Ranges that begin and end anywhere, as ranks and threads read them. */
static void digests_do_not_depend_on_who_reads_what(void **state)
{
    char first[HASH_HEX], whole[HASH_HEX];
    struct err e = {0};
    struct checkpoint *c = open_copy(quickstart, "parts");
    float *some = malloc(sizeof(float) << 20), *all = malloc(sizeof(float) << 20);
    (void)state;
    whole_of(c, first);
    checkpoint_close(c);
    c = open_copy(quickstart, "parts");
    srand(2);
    for (int64_t i = 0; i < checkpoint_n_tensors(c); i++) {
        const struct tensor_entry *t = checkpoint_tensor(c, i);
        assert_int_equal(checkpoint_read_range(c, t, 0, t->n_elements, all, &e), OK);
        for (int64_t at = 0, n; at < t->n_elements; at += n) {
            n = 1 + rand() % 100000;
            if (n > t->n_elements - at) n = t->n_elements - at;
            assert_int_equal(checkpoint_read_range(c, t, at, n, some, &e), OK);
            assert_memory_equal(some, all + at, (size_t)n * sizeof *some);
        }
    }
    checkpoint_whole(c, whole);
    assert_string_equal(whole, first);
    checkpoint_close(c);
    free(some);
    free(all);
}

static void expect(struct checkpoint *c, enum status want, const char *part)
{
    struct err e = {0};
    assert_int_equal(checkpoint_verify(c, &e), want);
    if (want != OK && !strstr(e.text, part)) fail_msg("\"%s\" lacks \"%s\"", e.text, part);
}

static void equal_bytes_are_no_change(void **state)
{
    static const char *const harmless[] = {
        "touch %s/*", "cp %s/model.safetensors %s/x && mv %s/x %s/model.safetensors",
        "cp %s/config.json %s/x && mv %s/x %s/config.json",
        "chmod 600 %s/* && ln %s/model.safetensors %s/y && rm %s/y", "rm %s/*"};
    struct checkpoint *c = open_copy(quickstart, "same");
    char whole[HASH_HEX], dir[600];
    (void)state;
    snprintf(dir, sizeof dir, "%s", checkpoint_dir(c));
    whole_of(c, whole);
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        shell(harmless[i], dir);
        expect(c, OK, "");
        expect(c, OK, "");
    }
    checkpoint_close(c);
}

/* Each with what the message names. */
static void other_bytes_are_a_change(void **state)
{
    static const char *const harmful[][2] = {
        {"printf x | dd of=%s/model.safetensors bs=1 seek=1000000 conv=notrunc 2>/dev/null",
         "model.safetensors: was changed while it was read: tensor "},
        {"truncate -s 1000000 %s/model.safetensors", "model.safetensors: was changed while"},
        {"cp " CONFIGS "/quickstart/trajectory/step001100/model.safetensors %s/x && "
         "mv %s/x %s/model.safetensors",
         "model.safetensors: changed since the visit began (digest "},
        {"sed -i s/1e-05/1e-06/ %s/config.json && echo >>%s/config.json",
         "config.json: changed since the visit began (digest "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof harmful / sizeof *harmful; i++) {
        struct checkpoint *c = open_copy(quickstart, "other"), *average;
        struct checkpoint_part part = {1, c};
        struct err e = {0};
        char whole[HASH_HEX], dir[600];
        snprintf(dir, sizeof dir, "%s", checkpoint_dir(c));
        whole_of(c, whole);
        assert_int_equal(checkpoint_average(&part, 1, false, &average, &e), OK);
        expect(average, OK, "");
        shell(harmful[i][0], dir);
        expect(average, ERR_CHANGED, harmful[i][1]);
        checkpoint_close(average);
        checkpoint_close(c);
    }
}

/* Even if sizes and times are put back. */
static void what_is_read_again_is_compared(void **state)
{
    struct err e = {0};
    char whole[HASH_HEX];
    struct checkpoint *c = open_copy(quickstart, "again");
    (void)state;
    whole_of(c, whole);
    shell("touch -r %s/model.safetensors %s/t; printf x | dd of=%s/model.safetensors bs=1 "
          "seek=1000000 conv=notrunc 2>/dev/null; touch -r %s/t %s/model.safetensors",
          checkpoint_dir(c));
    assert_int_equal(read_all(c, &e), ERR_CHANGED);
    expect(c, ERR_CHANGED, "model.safetensors: was changed while it was read: tensor ");
    checkpoint_close(c);
}

/* Bytes that this process has read so far. */
static long long bytes_read(void)
{
    long long n = 0;
    FILE *f = fopen("/proc/self/io", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "rchar: %lld", &n), 1);
    fclose(f);
    return n;
}

/* Several that compare a changed file read it once, and one of them finds what is different. */
static void a_changed_file_is_read_once(void **state)
{
    enum { OF = 3 };
    struct err e = {0};
    char whole[HASH_HEX], dir[600];
    struct checkpoint *c = open_copy(quickstart, "shares");
    bool changed = true;
    int found = 0;
    (void)state;
    snprintf(dir, sizeof dir, "%s", checkpoint_dir(c));
    const long size = bytes_of(dir);
    assert_int_equal(checkpoint_n_files(c), 1);
    whole_of(c, whole);
    const long long none = bytes_read();
    assert_int_equal(checkpoint_look(c, &changed, &e), OK);
    assert_false(changed);
    assert_in_range(bytes_read() - none, 0, size / 10);
    shell("touch %s/*", dir);
    assert_int_equal(checkpoint_look(c, &changed, &e), OK);
    assert_true(changed);
    const long long before = bytes_read();
    for (int i = 0; i < OF; i++) assert_int_equal(checkpoint_compare(c, &changed, i, OF, &e), OK);
    assert_in_range(bytes_read() - before, size / 2, size + size / 10);
    flip(dir, size - 1000000);
    for (int i = 0; i < OF; i++) found += checkpoint_compare(c, &changed, i, OF, &e) == ERR_CHANGED;
    assert_int_equal(found, 1);
    checkpoint_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_bit_anywhere_is_seen),
        cmocka_unit_test(digests_do_not_depend_on_who_reads_what),
        cmocka_unit_test(equal_bytes_are_no_change),
        cmocka_unit_test(other_bytes_are_a_change),
        cmocka_unit_test(what_is_read_again_is_compared),
        cmocka_unit_test(a_changed_file_is_read_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
