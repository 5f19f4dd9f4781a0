/* A loss with distributed sequences and vectors: gradient, products, eigenvalues, traces and
 * densities are those of a single rank, also with more ranks than layers and than sequences.
 * NP: 1 2 3 5 */
#include "curvature/vector.h"
#include "measures/curvature.h"
#include "util/mem.h"
#include "util/rng.h"
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

static int rank, size;
static struct visit_group everyone, self; /* all ranks, this one alone */
static int64_t asked, stop_at;

static bool should_stop(void *context)
{
    (void)context;
    return ++asked == stop_at;
}

static const struct visit_hooks hooks = {.should_stop = should_stop};

struct opened {
    struct checkpoint *checkpoint;
    struct model *model;
    struct sequences s;
};

/* Sequences of unequal length; of three ranks one has a single short one, of five one has none. */
static void open_folder(struct opened *o, const char *dir)
{
    static const int64_t lengths[] = {20, 7, 31, 2};
    struct err e = {0};
    if (checkpoint_open(dir, &o->checkpoint, &e) != OK ||
        model_open(o->checkpoint, &o->model, &e) != OK)
        fail_msg("%s", e.text);
    assert_int_equal(sequences_init(&o->s, 4, 60, 0, NULL), OK);
    for (int i = 0; i < 4; i++) o->s.offset[i + 1] = o->s.offset[i] + lengths[i];
    for (int i = 0; i < 60; i++) o->s.ids[i] = (int32_t)(rng_bits(3, (uint64_t)i) % 32);
}

static void open_model(struct opened *o, const char *name)
{
    char dir[512];
    snprintf(dir, sizeof dir, FIXTURES "/models/%s", name);
    open_folder(o, dir);
}

static void close_model(struct opened *o)
{
    sequences_free(&o->s);
    model_close(o->model);
    checkpoint_close(o->checkpoint);
}

static void measure(const struct opened *o, const struct visit_group *group, enum hvp_subset subset,
                    struct measurement *m)
{
    struct err e = {0};
    *m = (struct measurement){
        .model = o->model, .sequences = &o->s, .group = group, .hooks = &hooks};
    if (measurement_open(m, subset, &e) != OK) fail_msg("%s", e.text);
}

static float *floats(int64_t n)
{
    float *x;
    assert_int_equal(mem_zero(&x, n, sizeof *x, "a test", NULL), OK);
    return x;
}

static void close_to(double x, double y, double relative)
{
    if (!(fabs(x - y) <= relative * fabs(y))) fail_msg("%.9g and %.9g", x, y);
}

static void same_everywhere(double x)
{
    double ends[2] = {x, -x};
    MPI_Allreduce(MPI_IN_PLACE, ends, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    assert_true(ends[0] == x && -ends[1] == x);
}

/* --- vectors --- */

static void expect_part(const struct space *s, const float *mine, const float *whole,
                        const char *what)
{
    const struct space alone = space_alone(s->total);
    double scale = vector_norm(&alone, whole);
    for (int64_t i = 0; i < s->n; i++)
        if (!(fabs((double)mine[i] - whole[s->first + i]) <= 1e-5 * scale))
            fail_msg("%s, number %lld: %g, alone %g", what, (long long)(s->first + i), mine[i],
                     whole[s->first + i]);
}

static void check_vectors(const char *name, enum hvp_subset subset)
{
    struct opened o;
    struct measurement alone, group;
    double loss, of_group;
    open_model(&o, name);
    asked = stop_at = 0;
    measure(&o, &self, subset, &alone);
    measure(&o, &everyone, subset, &group);
    const struct space *all = hvp_space(alone.h), *s = hvp_space(group.h);
    float *v = floats(all->n), *hv = floats(all->n), *mine = floats(s->n), *part = floats(s->n);
    assert_true(s->total == all->n && s->n <= (all->n + size - 1) / size);
    assert_int_equal(hvp_gradient(alone.h, hv, &loss, NULL), OK);
    assert_int_equal(measurement_end(&group, hvp_gradient(group.h, part, &of_group, NULL), NULL),
                     OK);
    expect_part(s, part, hv, "gradient");
    close_to(of_group, loss, 1e-6);
    same_everywhere(of_group);
    vector_signs(8, all, v);
    vector_signs(8, s, mine);
    assert_int_equal(hvp_apply(alone.h, 1, (const float *const[]){v}, &hv, NULL), OK);
    assert_int_equal(hvp_apply(group.h, 1, (const float *const[]){mine}, &part, NULL), OK);
    expect_part(s, part, hv, "product");
    assert_int_equal(hvp_weights(alone.h, v, NULL), OK);
    assert_int_equal(hvp_weights(group.h, mine, NULL), OK);
    assert_memory_equal(mine, v + s->first, (size_t)s->n * sizeof *v);
    free(v);
    free(hv);
    free(mine);
    free(part);
    measurement_close(&alone);
    measurement_close(&group);
    close_model(&o);
}

static void vectors_are_those_of_one_rank(void **state)
{
    (void)state;
    static const char *const names[] = {"tiny_llama", "tiny_gpt_neox", "smollm3", "olmo2"};
    for (int i = 0; i < 4; i++) {
        check_vectors(names[i], HVP_ALL);
        check_vectors(names[i], HVP_BLOCKS2D);
    }
}

/* -1: no limit. */
static void limit_files(int64_t bytes)
{
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < 0 ? limit.rlim_max : (rlim_t)bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void vector_files(void **state)
{
    (void)state;
    struct opened o;
    struct measurement m;
    char dir[] = "/tmp/qtraj-test-XXXXXX", path[64];
    if (rank == 0) assert_non_null(mkdtemp(dir));
    MPI_Bcast(dir, sizeof dir, MPI_CHAR, 0, MPI_COMM_WORLD);
    snprintf(path, sizeof path, "%s/made/vector", dir);
    open_model(&o, "tiny_llama");
    measure(&o, &everyone, HVP_ALL, &m);
    const struct space *s = hvp_space(m.h);
    float *given = floats(s->n), *found = floats(s->n);
    vector_normals(5, s, given);
    assert_false(measurement_vector_read(&m, path, found));
    assert_int_equal(measurement_vector_write(&m, path, given, NULL), OK);
    assert_true(measurement_vector_read(&m, path, found));
    assert_memory_equal(given, found, (size_t)s->n * sizeof *given);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) assert_int_equal(truncate(path, 8), 0);
    assert_false(measurement_vector_read(&m, path, found));
    assert_int_not_equal(measurement_vector_write(&m, "/dev/null/vector", given, NULL), OK);
    /* The user's quota is exhausted: treated as a full disk, and no partial file is left in the
     * folder. */
    if (rank == 0) limit_files(s->total * 2);
    struct err e = {0};
    assert_int_equal(measurement_vector_write(&m, path, given, &e), ERR_FULL);
    assert_non_null(strstr(e.text, strerror(EFBIG)));
    if (rank == 0) {
        limit_files(-1);
        assert_int_equal(unlink(path), 0);
        *strrchr(path, '/') = '\0';
        assert_int_equal(rmdir(path), 0);
        assert_int_equal(rmdir(dir), 0);
    }
    free(given);
    free(found);
    measurement_close(&m);
    close_model(&o);
}

/* --- estimates --- */

static enum status run(const struct opened *o, const struct visit_group *group,
                       enum hvp_subset subset, bool hutchpp, struct curvature *out)
{
    struct err e = {0};
    struct measurement m;
    struct curvature_request request = {.seed = 5};
    options_default(&curvature_table, &request.options);
    request.options.sharpness = SHARPNESS_LANCZOS;
    request.options.tolerance = 1e-4;
    request.options.trace = 6;
    request.options.hutchpp = hutchpp;
    request.options.density = 6;
    measure(o, group, subset, &m);
    assert_int_equal(m.tokens, 56);
    enum status st = measurement_run(&m, &request, out, &e);
    measurement_close(&m);
    return st;
}

static void check_estimates(const char *name, enum hvp_subset subset, bool hutchpp)
{
    struct opened o;
    struct curvature alone, together;
    open_model(&o, name);
    asked = stop_at = 0;
    assert_int_equal(run(&o, &self, subset, hutchpp, &alone), OK);
    assert_int_equal(run(&o, &everyone, subset, hutchpp, &together), OK);
    assert_int_equal(together.parameters, alone.parameters);
    assert_int_equal(together.n_tensors, alone.n_tensors);
    close_to(together.loss, alone.loss, 1e-6);
    close_to(together.gradient_norm, alone.gradient_norm, 1e-5);
    close_to(together.sharpness.value, alone.sharpness.value, 1e-5);
    close_to(together.trace.mean, alone.trace.mean, 1e-4);
    for (int64_t t = 0; t < alone.n_tensors; t++) {
        close_to(together.gradient_norms[t], alone.gradient_norms[t], 1e-4);
        double error = together.trace.part[t] - alone.trace.part[t];
        assert_true(fabs(error) <= 1e-4 * fabs(alone.trace.mean));
        same_everywhere(together.trace.part[t]);
    }
    assert_int_equal(together.split.n, alone.split.n);
    assert_int_equal(together.density.count[0], alone.density.count[0]);
    double most = fabs(alone.sharpness.value);
    for (int64_t i = 0; i < alone.density.count[0]; i++)
        assert_true(fabs(together.density.node[i] - alone.density.node[i]) <= 1e-4 * most);
    same_everywhere(together.trace.mean);
    same_everywhere(together.sharpness.value);
    same_everywhere(together.gradient_norm);
    curvature_free(&alone);
    curvature_free(&together);
    close_model(&o);
}

static void estimates_are_those_of_one_rank(void **state)
{
    (void)state;
    check_estimates("tiny_llama", HVP_ALL, false);
    check_estimates("tiny_llama", HVP_BLOCKS2D, true);
    check_estimates("tiny_gpt_neox", HVP_ALL, true);
}

/* --- reading --- */

/* Bytes that this process has read from files. */
static int64_t bytes_read(void)
{
    long long n = 0;
    FILE *f = fopen("/proc/self/io", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "rchar: %lld", &n), 1);
    fclose(f);
    return n;
}

/* Bytes that the ranks of a group read together in a product. */
static int64_t read_in_product(const struct opened *o, const struct visit_group *g)
{
    struct measurement m;
    measure(o, g, HVP_ALL, &m);
    const struct space *s = hvp_space(m.h);
    float *v = floats(s->n), *hv = floats(s->n);
    vector_signs(8, s, v);
    const int64_t before = bytes_read();
    enum status st = hvp_apply(m.h, 1, (const float *const[]){v}, &hv, NULL);
    int64_t n = bytes_read() - before;
    assert_int_equal(measurement_end(&m, st, NULL), OK);
    MPI_Allreduce(MPI_IN_PLACE, &n, 1, MPI_INT64_T, MPI_SUM, g->comm);
    free(v);
    free(hv);
    measurement_close(&m);
    return n;
}

/* The ranks of a node together read every block forward and backward, the last one once: not more
 * than one rank alone, which reads all twice. What is read beside them are some numbers in /proc.
 */
static void reads_once(void **state)
{
    (void)state;
    struct opened o;
    open_model(&o, "llama");
    asked = stop_at = 0;
    const int64_t beside = 4096 * (int64_t)size, alone = read_in_product(&o, &self);
    const int64_t together = read_in_product(&o, &everyone), layers = model_shape(o.model)->layers;
    const int64_t passes = size > 1 ? 2 * layers - 1 : 2 * layers;
    assert_true(alone > 20 * beside);
    const int64_t expected = alone / (2 * layers) * passes;
    if (llabs(together - expected) > beside)
        fail_msg("%d ranks read %lld bytes, one %lld, expected %lld", size, (long long)together,
                 (long long)alone, (long long)expected);
    close_model(&o);
}

/* --- failures --- */

static void stops_together(void **state)
{
    (void)state;
    struct opened o;
    struct curvature c;
    open_model(&o, "tiny_llama");
    asked = 0;
    stop_at = 4;
    assert_int_equal(run(&o, &everyone, HVP_ALL, false, &c), ERR_STOPPED);
    assert_int_equal(asked, 4);
    curvature_free(&c);
    close_model(&o);
}

/* One rank fails before its k-th product; the others detect it wherever they are. */
struct faulty {
    const struct operator* inner;
    int64_t products, fail_at;
};

static enum status faulty_apply(void *context, int64_t k, const float *const *x, float *const *y,
                                struct err *e)
{
    enum status st = OK;
    struct faulty *f = context;
    if (++f->products == f->fail_at && rank == size - 1) FAIL(ERR_NOMEM, "no room here");
    TRY(f->inner->apply(f->inner->context, k, x, y, e));
done:
    return st;
}

static void one_fails(void **state)
{
    (void)state;
    struct opened o;
    open_model(&o, "tiny_llama");
    asked = stop_at = 0;
    for (int64_t at = 1; at <= 13; at += 3) {
        struct measurement m;
        struct curvature c;
        struct err e = {0};
        struct curvature_request request = {.seed = 5};
        options_default(&curvature_table, &request.options);
        request.options.sharpness = SHARPNESS_LANCZOS;
        request.options.products = 5;
        request.options.tolerance = 1e-9;
        request.options.trace = 12;
        request.options.hutchpp = at % 2 == 0;
        request.options.density = 9;
        measure(&o, &everyone, HVP_ALL, &m);
        const struct operator inner = m.subject.hessian;
        struct faulty f = {&inner, 0, at};
        m.subject.hessian.apply = faulty_apply;
        m.subject.hessian.context = &f;
        assert_int_equal(measurement_run(&m, &request, &c, &e), ERR_NOMEM);
        assert_non_null(strstr(e.text, "no room here"));
        curvature_free(&c);
        measurement_close(&m);
    }
    close_model(&o);
}

/* One rank cannot read the middle of the model after it was opened; the others are in the middle of
 * a product at that time. */
static void one_cannot_read(void **state)
{
    (void)state;
    struct opened o;
    struct measurement m;
    struct curvature c;
    struct err e = {0};
    char dir[] = "/tmp/qtraj-test-XXXXXX", command[600], path[100];
    struct curvature_request request = {.seed = 5};
    const bool broken = rank == size - 1;
    asked = stop_at = 0;
    options_default(&curvature_table, &request.options);
    if (broken) {
        assert_non_null(mkdtemp(dir));
        snprintf(command, sizeof command, "cp '%s'/models/olmo2/[cm]* %s", FIXTURES, dir);
        assert_int_equal(system(command), 0);
        open_folder(&o, dir);
        snprintf(path, sizeof path, "%s/model-00004-of-00006.safetensors", dir);
        assert_int_equal(truncate(path, 2000), 0);
    } else {
        open_model(&o, "olmo2");
    }
    measure(&o, &everyone, HVP_ALL, &m);
    assert_int_equal(measurement_run(&m, &request, &c, &e), ERR_IO);
    assert_non_null(strstr(e.text, "model-00004-of-00006.safetensors"));
    curvature_free(&c);
    measurement_close(&m);
    close_model(&o);
    if (broken) {
        snprintf(command, sizeof command, "rm -r %s", dir);
        assert_int_equal(system(command), 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_are_those_of_one_rank),
        cmocka_unit_test(vector_files),
        cmocka_unit_test(estimates_are_those_of_one_rank),
        cmocka_unit_test(reads_once),
        cmocka_unit_test(stops_together),
        cmocka_unit_test(one_fails),
        cmocka_unit_test(one_cannot_read),
    };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (group_open(MPI_COMM_WORLD, &everyone, NULL) != OK ||
        group_open(MPI_COMM_SELF, &self, NULL) != OK)
        return 1;
    int failed = cmocka_run_group_tests_name("measurement", tests, NULL, NULL);
    group_close(&everyone);
    group_close(&self);
    MPI_Finalize();
    return failed;
}
