/* Products use the threads that OpenMP is told to use and no others: neither oneDNN nor OpenBLAS
 * starts threads or wakes those that it has. Counts the threads of this process whose processor
 * time grows. */
#include "math/bf16.h"
#include "math/linalg.h"
#include "math/products.h"
#include "util/mem.h"
#include <dirent.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { THREADS_MAX = 256 };

struct spent {
    int n;
    int id[THREADS_MAX];
    int64_t ns[THREADS_MAX];
};

/* The clock of a thread by its id, as the kernel numbers clocks (clock_getcpuclockid(3) has only
 * those of processes). */
static clockid_t clock_of(int thread)
{
    enum { OF_THREAD = 4, SCHEDULED = 2, SHIFT = 3 };
    return (clockid_t)(~(unsigned)thread << SHIFT | OF_THREAD | SCHEDULED);
}

/* Processor time of all threads of this process, in nanoseconds. */
static void look(struct spent *s)
{
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;
    assert_non_null(dir);
    s->n = 0;
    while ((entry = readdir(dir)) != NULL) {
        const int id = atoi(entry->d_name);
        struct timespec t;
        if (id == 0) continue;
        assert_true(s->n < THREADS_MAX);
        assert_int_equal(clock_gettime(clock_of(id), &t), 0);
        s->id[s->n] = id;
        s->ns[s->n++] = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    }
    closedir(dir);
}

/* Threads that have run between the two; fails if one was started. */
static int active(const struct spent *before, const struct spent *after)
{
    int n = 0;
    for (int i = 0; i < after->n; i++) {
        int k = 0;
        while (k < before->n && before->id[k] != after->id[i]) k++;
        if (k == before->n) fail_msg("a thread was started");
        n += after->ns[i] > before->ns[k];
    }
    return n;
}

/* Whether a thread sleeps: one that spins may wait long for a processor, and use none. */
static bool sleeps(int thread)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    FILE *f = fopen(path, "r");
    if (!f) return false;
    const bool got = fgets(text, sizeof text, f) != NULL;
    fclose(f);
    const char *end = strrchr(text, ')');
    return got && end && end[1] == ' ' && end[2] == 'S';
}

static bool others_sleep(const struct spent *s)
{
    int n = 0;
    for (int i = 0; i < s->n; i++) n += sleeps(s->id[i]);
    return n == s->n - 1;
}

/* Waits until no thread but this one runs: OpenBLAS's and OpenMP's spin for a while before they
 * sleep. */
static void settle(struct spent *now)
{
    enum { TRIES = 3000 };
    const struct timespec pause = {.tv_nsec = 20000000};
    for (int i = 0; i < TRIES; i++) {
        struct spent before;
        look(&before);
        nanosleep(&pause, NULL);
        look(now);
        if (active(&before, now) <= 1 && others_sleep(now)) return;
    }
    fail_msg("a thread that has no work runs on and on");
}

/* Weights and activations of a layer, and tokens of one sequence: so large that oneDNN and OpenBLAS
 * would divide a product over threads. */
enum { TOKENS = 512, COLS = 512, ROWS = 1024, PIECE = 512 };

static float *noise(int64_t n)
{
    float *x;
    assert_int_equal(mem_alloc(&x, n, sizeof *x, "noise", NULL), OK);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(i % 1009) / 1009 - 0.5f;
    return x;
}

/* Prepares the weights, multiplies pieces beside each other and one outside of a parallel region,
 * and sums a Gram matrix. */
static void multiply(enum products kind, const float *x, const float *w, float *y, uint16_t *terms,
                     double *h)
{
    struct err e = {0};
    struct product_weights *p = NULL;
    const int64_t offset[] = {0, TOKENS}, stride = TOKENS * COLS;
    assert_int_equal(gram_add(h, x, COLS, offset, 1, NULL, kind, &e), OK);
    if (kind == PRODUCTS_F32) {
        mat_gemm(MAT_NT, y, ROWS, x, COLS, w, COLS, TOKENS, ROWS, COLS, 0);
        return;
    }
    bf16_split(terms, stride, products_terms(kind), x, stride);
    assert_int_equal(product_weights_make(kind, w, ROWS, COLS, PIECE, &p, &e), OK);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ROWS / PIECE; i++)
        product_nt(kind, y + i * PIECE, ROWS, terms, stride, p, i, TOKENS);
    product_nt(kind, y, ROWS, terms, stride, p, 0, TOKENS);
    product_weights_free(p);
}

static void no_more_than_asked_for(void **state)
{
    (void)state;
    float *x = noise(TOKENS * COLS), *w = noise(ROWS * COLS), *y = noise(TOKENS * ROWS);
    uint16_t *terms;
    double *h;
    assert_int_equal(mem_alloc(&terms, BF16_TERMS * TOKENS * COLS, sizeof *terms, "", NULL), OK);
    assert_int_equal(mem_zero(&h, COLS * COLS, sizeof *h, "", NULL), OK);
    const int most = omp_get_max_threads();
    omp_set_max_active_levels(2); /* as OMP_NESTED=true: a product could start threads of its own */
    for (int threads = 1; threads <= 3; threads++)
        for (enum products kind = PRODUCTS_F32; kind < PRODUCTS_AUTO; kind++) {
            struct spent before, after;
            omp_set_num_threads(threads);
            assert_int_equal(linalg_reserve(threads, NULL), OK);
#pragma omp parallel
            (void)omp_get_thread_num();
            settle(&before);
            multiply(kind, x, w, y, terms, h);
            look(&after);
            const int n = active(&before, &after);
            print_message("%s, %d threads asked for: %d of %d run\n", products_words[kind], threads,
                          n, after.n);
            assert_in_range(n, 1, threads);
        }
    omp_set_num_threads(most);
    free(x), free(w), free(y), free(terms), free(h);
}

int main(void)
{
    linalg_setup();
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_more_than_asked_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
