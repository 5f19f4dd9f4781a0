/* derived: weighted sums, overlays and random directions against sums computed here. */
#include "checkpoint/derived.h"
#include "scratch.h"
#include <math.h>
#include <stdbool.h>

static const char *const folders[] = {CONFIGS "/quickstart/trajectory/step000500",
                                      CONFIGS "/quickstart/trajectory/step000900",
                                      CONFIGS "/quickstart/trajectory/step001200"};
static const char matrix[] = "model.layers.1.mlp.down_proj.weight";
static const char norm[] = "model.norm.weight";

static struct checkpoint *open_ok(const char *dir)
{
    struct checkpoint *c = NULL;
    struct err e = {0};
    if (checkpoint_open(dir, &c, &e) != OK) fail_msg("%s", e.text);
    return c;
}

static float *read_ok(const struct checkpoint *c, const char *name, int64_t *n)
{
    struct err e = {0};
    const struct tensor_entry *t = checkpoint_find(c, name);
    assert_non_null(t);
    float *data = malloc((size_t)t->n_elements * sizeof *data);
    assert_non_null(data);
    if (checkpoint_read_f32(c, name, t->n_dims, t->shape, data, &e) != OK) fail_msg("%s", e.text);
    *n = t->n_elements;
    return data;
}

static bool same(const float *a, const float *b, int64_t n)
{
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

struct three {
    struct checkpoint *c[3];
    struct checkpoint_part parts[3];
};

static void open_three(struct three *t, double a, double b, double c)
{
    const double coefficients[] = {a, b, c};
    for (int i = 0; i < 3; i++) {
        t->c[i] = open_ok(folders[i]);
        t->parts[i] = (struct checkpoint_part){coefficients[i], t->c[i]};
    }
}

static void close_three(struct three *t)
{
    for (int i = 0; i < 3; i++) checkpoint_close(t->c[i]);
}

static void test_corners_are_copies(void **state)
{
    (void)state;
    for (int corner = 0; corner < 3; corner++) {
        struct three t;
        struct checkpoint *sum = NULL;
        struct err e = {0};
        int64_t n;
        open_three(&t, corner == 0, corner == 1, corner == 2);
        assert_int_equal(checkpoint_combine(t.parts, 3, &sum, &e), OK);
        for (int64_t i = 0; i < checkpoint_n_tensors(sum); i++) {
            const char *name = checkpoint_tensor(sum, i)->name;
            float *a = read_ok(sum, name, &n), *b = read_ok(t.c[corner], name, &n);
            assert_true(same(a, b, n));
            free(a);
            free(b);
        }
        checkpoint_close(sum);
        close_three(&t);
    }
}

static void test_sum_is_rounded_once(void **state)
{
    (void)state;
    struct three t;
    struct checkpoint *sum = NULL;
    struct err e = {0};
    int64_t n;
    open_three(&t, 1 - 0.3 - 0.45, 0.3, 0.45);
    assert_int_equal(checkpoint_combine(t.parts, 3, &sum, &e), OK);
    float *x = read_ok(sum, matrix, &n), *w[3];
    for (int i = 0; i < 3; i++) w[i] = read_ok(t.c[i], matrix, &n);
    for (int64_t k = 0; k < n; k++) {
        double want = 0;
        for (int i = 0; i < 3; i++) want += t.parts[i].coefficient * (double)w[i][k];
        assert_true(x[k] == (float)want);
    }
    for (int i = 0; i < 3; i++) free(w[i]);
    free(x);
    checkpoint_close(sum);
    close_three(&t);
}

/* A range equals the same part of the whole, wherever chunks end. */
static void check_range(const struct checkpoint *c)
{
    struct err e = {0};
    int64_t n;
    float part[1000], *all = read_ok(c, matrix, &n);
    const struct tensor_entry *t = checkpoint_find(c, matrix);
    for (int64_t first = 0; first < n; first += n / 7) {
        int64_t m = n - first < 1000 ? n - first : 1000;
        assert_int_equal(checkpoint_read_range(c, t, first, m, part, &e), OK);
        assert_true(same(part, all + first, m));
    }
    free(all);
}

static void ranges_are_parts_of_the_whole(void **state)
{
    (void)state;
    struct three t;
    struct checkpoint *sum = NULL, *random = NULL;
    struct err e = {0};
    open_three(&t, 0.5, 0.25, 0.25);
    assert_int_equal(checkpoint_combine(t.parts, 3, &sum, &e), OK);
    assert_int_equal(checkpoint_random(sum, 7, &random, &e), OK);
    check_range(t.c[0]);
    check_range(sum);
    check_range(random);
    checkpoint_close(random);
    checkpoint_close(sum);
    close_three(&t);
}

static void test_random_has_the_rows_norms(void **state)
{
    (void)state;
    struct checkpoint *base = open_ok(folders[0]), *random[2] = {NULL};
    struct err e = {0};
    int64_t n;
    for (uint64_t i = 0; i < 2; i++)
        assert_int_equal(checkpoint_random(base, i, &random[i], &e), OK);
    float *w = read_ok(base, matrix, &n), *d[2];
    for (int i = 0; i < 2; i++) d[i] = read_ok(random[i], matrix, &n);
    int64_t cols = checkpoint_find(base, matrix)->shape[1];
    for (int64_t r = 0; r * cols < n; r++) {
        double ww = 0, dd = 0, wd = 0, cross = 0;
        for (int64_t k = r * cols; k < (r + 1) * cols; k++) {
            ww += (double)w[k] * (double)w[k];
            dd += (double)d[0][k] * (double)d[0][k];
            wd += (double)w[k] * (double)d[0][k];
            cross += (double)d[1][k] * (double)d[0][k];
        }
        assert_true(fabs(dd / ww - 1) < 1e-6);
        /* Cosines of independent directions: within six standard deviations, 1/sqrt(cols). */
        assert_true(fabs(wd) < 6 * ww / sqrt((double)cols));
        assert_true(fabs(cross) < 6 * ww / sqrt((double)cols));
    }
    float *flat = read_ok(random[0], norm, &n);
    for (int64_t k = 0; k < n; k++) assert_true(flat[k] == 0);
    free(flat);
    for (int i = 0; i < 2; i++) free(d[i]);
    free(w);
    for (int i = 0; i < 2; i++) checkpoint_close(random[i]);
    checkpoint_close(base);
}

static void write_one(const char *path, const char *name, int64_t rows, int64_t cols, float value)
{
    struct err e = {0};
    struct safetensors_out *out = NULL;
    const struct tensor_shape shape = {name, DTYPE_F32, 2, {rows, cols}};
    float *data = malloc((size_t)(rows * cols) * sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < rows * cols; i++) data[i] = value + (float)i;
    assert_int_equal(safetensors_create(path, &shape, 1, &out, &e), OK);
    assert_int_equal(safetensors_append(out, data, rows * cols, &e), OK);
    assert_int_equal(safetensors_commit(out, &e), OK);
    safetensors_out_close(out);
    free(data);
}

static void an_overlay_replaces_its_tensors(void **state)
{
    (void)state;
    struct checkpoint *base = open_ok(folders[0]), *over = NULL;
    struct err e = {0};
    int64_t n;
    const struct tensor_entry *t = checkpoint_find(base, matrix);
    const char *path = scratch_path("over.safetensors");
    write_one(path, matrix, t->shape[0], t->shape[1], 3);
    assert_int_equal(checkpoint_overlay(base, path, &over, &e), OK);
    assert_int_equal(unlink(path), 0); /* stays open */
    float *x = read_ok(over, matrix, &n);
    for (int64_t k = 0; k < n; k++) assert_true(x[k] == 3 + (float)k);
    check_range(over);
    free(x);
    float *a = read_ok(over, norm, &n), *b = read_ok(base, norm, &n);
    assert_true(same(a, b, n));
    assert_string_not_equal(checkpoint_hash(over), checkpoint_hash(base));
    free(a);
    free(b);
    checkpoint_close(over);
    checkpoint_close(base);
}

static void refuse_overlay(const char *name, int64_t rows, const char *part, enum status want)
{
    struct checkpoint *base = open_ok(folders[0]), *over = NULL;
    struct err e = {0};
    const char *path = scratch_path("bad.safetensors");
    write_one(path, name, rows, 2, 0);
    assert_int_equal(checkpoint_overlay(base, path, &over, &e), want);
    if (!strstr(e.text, part)) fail_msg("\"%s\" lacks \"%s\"", e.text, part);
    checkpoint_close(base);
}

static void other_shapes_are_refused(void **state)
{
    (void)state;
    struct checkpoint *sum = NULL, *other = open_ok(FIXTURES "/checkpoints/tiny_llama");
    struct three t;
    struct err e = {0};
    float x[4];
    refuse_overlay("stranger", 2, "no tensor stranger", ERR_FORMAT);
    refuse_overlay(matrix, 2, "has shape", ERR_SHAPE);
    open_three(&t, 0.5, 0.5, 0);
    t.parts[1].checkpoint = other;
    assert_int_equal(checkpoint_combine(t.parts, 3, &sum, &e), OK);
    assert_int_not_equal(checkpoint_read_range(sum, checkpoint_find(sum, norm), 0, 4, x, &e), OK);
    assert_non_null(strstr(e.text, norm));
    checkpoint_close(sum);
    close_three(&t);
    checkpoint_close(other);
}

/* Bytes that this process has read so far, whatever they came from. */
static int64_t bytes_read(void)
{
    long long n = 0;
    FILE *f = fopen("/proc/self/io", "r");
    if (!f) skip();
    assert_int_equal(fscanf(f, "rchar: %lld", &n), 1);
    fclose(f);
    return n;
}

/* Reading all of an average reads each tensor of each part once. */
static void test_average_reads_each_part_once(void **state)
{
    (void)state;
    struct three t;
    struct checkpoint *mean = NULL;
    struct err e = {0};
    int64_t n, stored = 0;
    open_three(&t, 1, 1, 1);
    assert_int_equal(checkpoint_average(t.parts, 3, false, &mean, &e), OK);
    const int64_t opened = bytes_read(), reading = bytes_read() - opened;
    const int64_t before = bytes_read();
    for (int64_t i = 0; i < checkpoint_n_tensors(mean); i++) {
        const struct tensor_entry *of = checkpoint_tensor(mean, i);
        stored += of->n_bytes;
        free(read_ok(mean, of->name, &n));
    }
    assert_int_equal(bytes_read() - before - reading, 3 * stored);
    checkpoint_close(mean);
    close_three(&t);
}

/* The mean of values v of several parts is v, also of -0; its type is the parts'. */
static void test_average_of_equal_parts(void **state)
{
    (void)state;
    static const float special[] = {-0.0f, 0.0f, 1.5f, -0x1p-126f, 3e38f};
    struct checkpoint *c, *mean = NULL;
    struct err e = {0};
    struct tensor_shape shape = {"x", DTYPE_F32, 1, {5}};
    struct safetensors_out *out;
    char config[512];
    float got[5];
    snprintf(config, sizeof config, "%s", scratch_put("config.json", "{}", 2));
    assert_int_equal(safetensors_create(scratch_path("model.safetensors"), &shape, 1, &out, &e),
                     OK);
    assert_int_equal(safetensors_append(out, special, 5, &e), OK);
    assert_int_equal(safetensors_commit(out, &e), OK);
    safetensors_out_close(out);
    c = open_ok(scratch_dir());
    const struct checkpoint_part parts[] = {{0.3, c}, {1.1, c}, {1, c}};
    assert_int_equal(checkpoint_average(parts, 3, false, &mean, &e), OK);
    assert_int_equal(checkpoint_tensor(mean, 0)->dtype, DTYPE_F32);
    assert_int_equal(checkpoint_read_range(mean, checkpoint_tensor(mean, 0), 0, 5, got, &e), OK);
    assert_memory_equal(got, special, sizeof got);
    checkpoint_close(mean);
    checkpoint_close(c);
    unlink(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_corners_are_copies),
        cmocka_unit_test(test_sum_is_rounded_once),
        cmocka_unit_test(ranges_are_parts_of_the_whole),
        cmocka_unit_test(test_random_has_the_rows_norms),
        cmocka_unit_test(an_overlay_replaces_its_tensors),
        cmocka_unit_test(test_average_reads_each_part_once),
        cmocka_unit_test(test_average_of_equal_parts),
        cmocka_unit_test(other_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
