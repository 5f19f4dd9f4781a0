/* Hidden states: where they are stored changes nothing; ranges: views of whole sequences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/visit_internal.h"
#include "math/bf16.h"
#include "scratch.h"
#include "util/rng.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Replaces the C library's function: network file systems cannot reserve space. */
static bool can_reserve = true;
static int reserved_fd; /* of the last file */
int fallocate(int fd, int mode, off_t offset, off_t n)
{
    reserved_fd = fd;
    if (can_reserve) return (int)syscall(SYS_fallocate, fd, mode, offset, n);
    errno = EOPNOTSUPP;
    return -1;
}

enum { TOKENS = 1000, WIDTH = 700 }; /* more than one piece of the file's converter */

static struct states *open_states(const char *scratch, enum dtype type)
{
    const struct states_place place = {scratch, type};
    struct states *s = NULL;
    struct err e = {0};
    if (states_open(&place, TOKENS, WIDTH, "test states", &s, &e) != OK) fail_msg("%s", e.text);
    return s;
}

/* Ranges that do not divide the rows, each changed twice. */
static void work_on(struct states *s, float *buffer)
{
    for (int pass = 0; pass < 2; pass++)
        for (int64_t row = 0; row < TOKENS; row += 130) {
            int64_t n = TOKENS - row < 130 ? TOKENS - row : 130;
            float *x;
            if (pass == 0) {
                x = buffer;
                for (int64_t i = 0; i < n * WIDTH; i++)
                    x[i] = (float)(row * WIDTH + i) * 0.0137f - 4000.0f;
            } else {
                assert_int_equal(states_take(s, row, n, buffer, &x, NULL), OK);
                for (int64_t i = 0; i < n * WIDTH; i++) x[i] = x[i] * 1.7f + 0.1f;
            }
            assert_int_equal(states_put(s, row, n, x, NULL), OK);
        }
}

/* States are taken before anything was put: to provide memory for the embeddings. */
static void taken_at_once(bool reserved)
{
    float *buffer = malloc(sizeof *buffer * TOKENS * WIDTH), *x;
    can_reserve = reserved;
    struct states *s = open_states(scratch_dir(), DTYPE_F32);
    can_reserve = true;
    assert_int_equal(states_take(s, 0, TOKENS, buffer, &x, NULL), OK);
    work_on(s, buffer);
    states_close(s);
    free(buffer);
}

static void room_that_cannot_be_reserved(void **state)
{
    (void)state;
    taken_at_once(true);
    taken_at_once(false);
}

static void same_wherever_they_lie(void **state)
{
    (void)state;
    static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16};
    size_t bytes = sizeof(float) * TOKENS * WIDTH;
    float *buffer = malloc(bytes), *a = malloc(bytes), *b = malloc(bytes);
    for (int t = 0; t < 2; t++) {
        struct states *memory = open_states(NULL, types[t]),
                      *disk = open_states(scratch_dir(), types[t]);
        work_on(memory, buffer);
        work_on(disk, buffer);
        assert_int_equal(states_copy(memory, 0, TOKENS, a, NULL), OK);
        assert_int_equal(states_copy(disk, 0, TOKENS, b, NULL), OK);
        assert_memory_equal(a, b, bytes);
        assert_true(states_in_place(memory) == (types[t] == DTYPE_F32));
        assert_false(states_in_place(disk));
        double first = (-4000.0 * 1.7) + 0.1, far = fabs((double)a[0] - first);
        assert_true(far <= fabs(first) * (types[t] == DTYPE_F32 ? 1e-6 : 0x1p-7));
        states_close(memory);
        states_close(disk);
    }
    free(buffer);
    free(a);
    free(b);
}

/* Pages of the rows that are in the page cache, and those that they have. */
static int64_t pages_cached(int64_t row, int64_t n, size_t size, int64_t *all)
{
    enum { MOST = 1024 };
    unsigned char in[MOST];
    const int64_t page = sysconf(_SC_PAGESIZE), width = WIDTH * (int64_t)size;
    const int64_t first = (row * width + page - 1) / page * page;
    const int64_t bytes = (row + n) * width / page * page - first;
    int64_t cached = 0;
    *all = bytes / page;
    assert_in_range(*all, 1, MOST);
    void *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, reserved_fd, first);
    assert_true(p != MAP_FAILED);
    assert_int_equal(mincore(p, (size_t)bytes, in), 0);
    for (int64_t i = 0; i < *all; i++) cached += in[i] & 1;
    munmap(p, (size_t)bytes);
    return cached;
}

/* Rows that are announced come into the page cache without being taken, and only those. */
static void rows_that_are_expected(void **state)
{
    (void)state;
    static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16};
    float *buffer = malloc(sizeof *buffer * TOKENS * WIDTH);
    int64_t all;
    bool dropped = false;
    states_expect(NULL, 0, TOKENS);
    for (int t = 0; t < 2; t++) {
        struct states *s = open_states(scratch_dir(), types[t]);
        const size_t size = dtype_size(types[t]);
        work_on(s, buffer);
        assert_int_equal(fsync(reserved_fd), 0);
        assert_int_equal(posix_fadvise(reserved_fd, 0, 0, POSIX_FADV_DONTNEED), 0);
        dropped = pages_cached(0, TOKENS, size, &all) == 0;
        states_expect(s, 260, 130);
        for (int i = 0; i < 1000 && pages_cached(260, 130, size, &all) < all; i++)
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        assert_int_equal(pages_cached(260, 130, size, &all), all);
        if (dropped) assert_int_equal(pages_cached(780, 130, size, &all), 0);
        states_close(s);
    }
    free(buffer);
    if (!dropped) skip(); /* a folder in memory: there is nothing to read */
}

static void scratch_that_cannot_be(void **state)
{
    (void)state;
    const struct states_place nowhere = {scratch_path("absent"), DTYPE_F32};
    struct states *s = NULL;
    struct err e = {0};
    char *folder;
    int64_t room;
    assert_int_equal(states_open(&nowhere, TOKENS, WIDTH, "test states", &s, &e), ERR_IO);
    assert_non_null(strstr(e.text, nowhere.scratch));
    assert_null(s);
    err_clear(&e);
    assert_int_equal(scratch_find(nowhere.scratch, 1, &folder, &room, &e), ERR_IO);
    assert_non_null(strstr(e.text, "run.scratch"));
    assert_int_equal(scratch_find("off", 1, &folder, &room, NULL), OK);
    assert_null(folder);
    assert_int_equal(scratch_find(scratch_dir(), 1, &folder, &room, NULL), OK);
    assert_string_equal(folder, scratch_dir());
    assert_true(room > 0);
    free(folder);
}

/* A full disk is detected when space is reserved. */
static void full_scratch(void **state)
{
    (void)state;
    const struct states_place place = {scratch_dir(), DTYPE_F32};
    struct states *s = NULL;
    struct err e = {0};
    enum status st = states_open(&place, (int64_t)1 << 40, 1 << 10, "test states", &s, &e);
    assert_true(st == ERR_FULL || st == ERR_IO); /* EFBIG if files cannot be that long */
    assert_non_null(strstr(e.text, scratch_dir()));
    assert_null(s);
}

static void rounding_to_bf16(void **state)
{
    (void)state;
    const struct {
        float from;
        uint16_t to;
    } cases[] = {{1.0f, 0x3f80},          {0x1.01p0f, 0x3f80},  {0x1.03p0f, 0x3f82},
                 {0x1.010002p0f, 0x3f81}, {-0x1.03p0f, 0xbf82}, {0x1.fffffep127f, 0x7f80},
                 {INFINITY, 0x7f80},      {-INFINITY, 0xff80},  {0x1p-149f, 0x0000},
                 {-0.0f, 0x8000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint16_t h;
        bf16_split(&h, 1, 1, &cases[i].from, 1);
        assert_int_equal(h, cases[i].to);
    }
    const uint32_t quiet = 0x7f800001u; /* a NaN whose mantissa is only in the lost bits */
    float nan_bits, back;
    uint16_t h;
    memcpy(&nan_bits, &quiet, sizeof nan_bits);
    bf16_split(&h, 1, 1, &nan_bits, 1);
    dtype_widen(&back, &h, DTYPE_BF16, 1);
    assert_true(isnan(back));
}

static void ranges_of_sequences(void **state)
{
    (void)state;
    int64_t offset[] = {0, 5, 5, 30, 37, 40, 141, 150}, valid[] = {5, 1, 20, 7, 3, 101, 9};
    int32_t ids[150];
    for (int32_t i = 0; i < 150; i++) ids[i] = i;
    const struct sequences s = {.n = 7, .offset = offset, .ids = ids, .valid = valid};
    assert_int_equal(sequences_longest(&s), 101);
    for (int64_t tokens = 1; tokens < 200; tokens += 13) {
        struct ranges r;
        int64_t sequence = 0, row = 0;
        assert_int_equal(ranges_cut(&s, tokens, &r, NULL), OK);
        for (int64_t k = 0; k < r.n; k++) {
            const struct range *at = &r.range[k];
            assert_int_equal(at->first, sequence);
            assert_int_equal(at->row, row);
            assert_true(at->view.n == 1 || at->tokens <= tokens);
            assert_true(at->tokens <= r.tokens);
            for (int64_t i = 0; i <= at->view.n; i++)
                assert_int_equal(at->view.offset[i] + row, offset[sequence + i]);
            assert_int_equal(at->view.valid[0], valid[sequence]);
            if (at->tokens) assert_int_equal(at->view.ids[0], row);
            sequence += at->view.n;
            row += at->tokens;
        }
        assert_int_equal(sequence, 7);
        assert_int_equal(row, 150);
        ranges_free(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(room_that_cannot_be_reserved),
        cmocka_unit_test(same_wherever_they_lie),
        cmocka_unit_test(rows_that_are_expected),
        cmocka_unit_test(scratch_that_cannot_be),
        cmocka_unit_test(full_scratch),
        cmocka_unit_test(rounding_to_bf16),
        cmocka_unit_test(ranges_of_sequences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
