/* Every combination of family, method, options of its grids, bits and format either exports a
 * folder that reads back with the loss that was measured, or is refused before any work with a
 * message that says why. Families, methods and formats come from their tables; each model also in a
 * shape whose columns fill no whole words. QTRAJ_TEST_EXPORTS: one of so many combinations (1: all
 * of them; tests/README.md). */
#include "checkpoint/folder_write.h"
#include "cli/single.h"
#include "export/export_folder.h"
#include "model/model.h"
#include "quant/quant.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/temporary.h"
#include <dirent.h>
#include <math.h>
#include <mpi.h>

#include "scratch.h"

/* Values of the options that a grid, its storage or its export depends on. */
static const struct {
    const char *key, *flags[5];
} axes[] = {
    {"group_size", {"--group-size=4", "--group-size=-1", "--group-size=32", ""}},
    {"symmetric", {"", "--asymmetric"}},
    {"order", {"", "--order=activation", "--order=group"}},
    {"static_groups", {"", "--static-groups"}},
    {"scale_dtype", {"--scale-dtype=f16", "", "--scale-dtype=f16-packed"}},
    {"mixing", {"", "--mixing=hadamard"}},
    {"scaled", {"", "--scaled=none", "--scaled=free"}},
    {"zero_point", {"", "--no-zero-point"}},
    {"symmetric_grid", {"", "--symmetric-grid=gptaq"}},
};
enum { AXES = sizeof axes / sizeof *axes, CUT = 20 }; /* CUT: columns of a model that is cut */

static struct {
    int64_t seen, stride, exported, packed, cut, method, form, size;
} count;

/* One combination, on the way out and back. */
struct export
{
    struct single single; /* first member: its address is the hooks' context */
    struct export_folder *out;
    struct export_form form;
};

/* --- models --- */

/* Copies a folder's weights with CUT channels inside the MLP. */
static void write_cut(const char *from, const char *to)
{
    struct checkpoint *c;
    struct folder_out *o;
    struct err e = {0};
    if (checkpoint_open(from, &c, &e) != OK) fail_msg("%s", e.text);
    json_t *config = json_deep_copy(checkpoint_config(c));
    const int64_t whole = json_integer_value(json_object_get(config, "intermediate_size"));
    int64_t n = 0; /* tensors but masks */
    struct tensor_shape *shapes = calloc((size_t)checkpoint_n_tensors(c), sizeof *shapes);
    json_object_set_new(config, "intermediate_size", json_integer(CUT));
    for (int64_t i = 0; i < checkpoint_n_tensors(c); i++) {
        const struct tensor_entry *t = checkpoint_tensor(c, i);
        if (!dtype_is_float(t->dtype)) continue;
        shapes[n] = (struct tensor_shape){.name = t->name, .dtype = DTYPE_F32, .n_dims = t->n_dims};
        for (int d = 0; d < t->n_dims; d++)
            shapes[n].shape[d] =
                t->shape[d] == whole && strstr(t->name, ".mlp.") ? CUT : t->shape[d];
        n++;
    }
    const struct folder_plan plan = {.config = config, .n = n, .tensors = shapes};
    if (folder_create(to, &plan, &o, &e) != OK) fail_msg("%s", e.text);
    for (int64_t i = 0; i < n; i++) {
        const struct tensor_entry *t = checkpoint_find(c, shapes[i].name);
        const int64_t *s = shapes[i].shape, cols = t->n_dims > 1 ? t->shape[1] : 1;
        float *data = malloc((size_t)t->n_elements * sizeof *data);
        if (checkpoint_read_range(c, t, 0, t->n_elements, data, &e) != OK) fail_msg("%s", e.text);
        for (int64_t r = 0; r < (t->n_dims > 0 ? s[0] : 1); r++)
            assert_int_equal(
                folder_append(o, t->name, data + r * cols, t->n_dims > 1 ? s[1] : 1, &e), OK);
        free(data);
    }
    if (folder_commit(o, NULL, &e) != OK) fail_msg("%s", e.text);
    folder_close(o);
    json_decref(config);
    free(shapes);
    checkpoint_close(c);
}

/* --- out and back --- */

static enum status write_linear(void *context, const struct variant *v, const struct linear *l,
                                const float *q, const struct quant_grids *grids, struct err *e)
{
    struct export *x = context;
    (void)v;
    return export_folder_linear(x->out, l, q, grids, e);
}

/* One of the two sequences. */
static void set_ids(struct data_options *d, const char *ids, int64_t row)
{
    options_default(&data_table, d);
    d->length = 0;
    d->skip = row;
    d->samples = 1;
    assert_int_equal(mem_string(&d->ids, ids, NULL), OK);
    assert_int_equal(mem_string(&d->name, "evaluation", NULL), OK);
}

static double loss_of(struct single *s, const char *dir, const char *ids, const char *what)
{
    struct data_options data;
    struct err e = {0};
    set_ids(&data, ids, 1);
    if (single_add_evaluation(s, &data, "", &e) != OK || single_run(s, dir, NULL, &e) != OK)
        fail_msg("%s: %s", what, e.text);
    json_t *loss = single_number(s->cell ? s->cell : s->checkpoint, "loss");
    const double value = json_real_value(loss);
    json_decref(loss);
    return value;
}

static void describe_variant(struct visit *v, const char *method, int64_t bits,
                             const struct quant_options *options, const char *ids)
{
    assert_int_equal(mem_zero(&v->variants, 1, sizeof *v->variants, "", NULL), OK);
    v->n_variants = 1;
    v->variants[0].bits = bits;
    v->variants[0].method.options = *options;
    assert_int_equal(mem_string(&v->variants[0].key, "", NULL), OK);
    assert_int_equal(mem_string(&v->variants[0].method.name, method, NULL), OK);
    assert_int_equal(mem_string(&v->variants[0].method.method, method, NULL), OK);
    set_ids(&v->calibration, ids, 0);
}

static bool refused(enum status st, const struct err *e, const char *what, int64_t *counter)
{
    if (st == OK) return false;
    if (st != ERR_USAGE || !strstr(e->text, "cannot hold")) fail_msg("%s: %s", what, e->text);
    ++*counter;
    return true;
}

static void export(const char *dir, const char *ids, const struct quant_method *method,
                   int64_t bits, const struct quant_options *options, const char *format,
                   const char *what)
{
    struct export x = {0};
    struct checkpoint *c = NULL;
    struct err e = {0};
    const char *out = scratch_path("out");
    enum status st = export_form_choose(format, method, options, bits, &x.form, &e);
    if (refused(st, &e, what, &count.form)) return;
    assert_int_equal(checkpoint_open(dir, &c, &e), OK);
    st = export_folder_create(c, NULL, out, &x.form, &x.out, &e);
    checkpoint_close(c);
    if (refused(st, &e, what, &count.size)) {
        export_folder_close(x.out);
        return;
    }
    x.single.hooks.weights = write_linear;
    x.single.hooks.grids = x.form.layout.format != PACKED_NONE;
    describe_variant(&x.single.visit, method->name, bits, options, ids);
    const double reported = loss_of(&x.single, dir, ids, what);
    if (!export_folder_whole(x.out)) fail_msg("%s: not all linears came", what);
    if (export_folder_commit(x.out, NULL, &e) != OK) fail_msg("%s: %s", what, e.text);
    export_folder_close(x.out);
    struct single back = {0};
    const double read = loss_of(&back, out, ids, what);
    /* AWQ's factors are absorbed by norms, rows and biases, which rounds once more. */
    const double allowed = x.form.folds ? 2e-6 : 0;
    if (!(fabs(read - reported) <= allowed) || !(reported > 0))
        fail_msg("%s: loss %.17g of the folder, %.17g reported", what, read, reported);
    count.exported++;
    count.packed += x.form.layout.format != PACKED_NONE;
    count.cut += strstr(dir, "/cut-") != NULL;
    single_free(&back);
    single_free(&x.single);
    temporary_remove(out);
}

/* --- the loops --- */

static int64_t values_of(const struct quant_method *m, int axis)
{
    int64_t n = 0;
    while (axes[axis].flags[n]) n++;
    return quant_concerns(m, axes[axis].key) ? n : 1;
}

/* Sets the options of combination k; false: the method refuses them itself. */
static bool set_options(struct quant_options *o, const struct quant_method *m, int64_t bits,
                        int64_t k, char *text, size_t size)
{
    struct err e = {0};
    size_t n = 0;
    options_default(&quant_table, o);
    text[0] = '\0';
    for (int a = 0; a < AXES; k /= values_of(m, a++)) {
        char *flag = (char *)(uintptr_t)axes[a].flags[k % values_of(m, a)];
        int used;
        if (!*flag || values_of(m, a) == 1) continue;
        assert_int_equal(options_flag(&quant_table, "", o, 1, &flag, &used, &e), OK);
        assert_int_equal(used, 1);
        n += (size_t)snprintf(text + n, size - n, " %s", flag);
    }
    return quant_check(m->name, o, &bits, 1, &e) == OK;
}

static void export_all(const char *dir, const char *ids, const struct quant_method *m, int64_t bits)
{
    int64_t combinations = 1;
    for (int a = 0; a < AXES; a++) combinations *= values_of(m, a);
    for (int64_t k = 0; k < combinations; k++)
        for (const char *const *f = export_formats(); *f; f++) {
            struct quant_options options;
            char text[256], what[512];
            if (count.seen++ % count.stride != 0) continue;
            if (!set_options(&options, m, bits, k, text, sizeof text)) {
                count.method++;
                continue;
            }
            snprintf(what, sizeof what, "%s: %s at %d bits%s as %s", strrchr(dir, '/') + 1, m->name,
                     (int)bits, text, *f);
            export(dir, ids, m, bits, &options, *f, what);
        }
}

static void export_model(const char *name)
{
    char whole[512], cut[512], ids[600];
    struct err e = {0};
    snprintf(whole, sizeof whole, FIXTURES "/models/%s", name);
    snprintf(ids, sizeof ids, "%s/reference.safetensors:input_ids", whole);
    snprintf(cut, sizeof cut, "%s/cut-%s", scratch_dir(), name);
    write_cut(whole, cut);
    for (const char *const *method = quant_names(); *method; method++) {
        const struct quant_method *m = quant_find(*method);
        if (quant_check_weights(m, "--out", &e) != OK) continue; /* it quantizes activations too */
        for (int64_t bits = m->bits_min; bits <= m->bits_max; bits++) {
            export_all(whole, ids, m, bits);
            export_all(cut, ids, m, bits);
        }
    }
}

/* No other weights can be written in place of ternary ones. */
static void refuse_ternary(const char *name)
{
    const struct quant_method *m = quant_find("rtn");
    struct export x = {0};
    struct checkpoint *c = NULL;
    struct quant_options options;
    char dir[512];
    struct err e = {0};
    options_default(&quant_table, &options);
    snprintf(dir, sizeof dir, FIXTURES "/models/%s", name);
    assert_int_equal(export_form_choose("dequantized", m, &options, 4, &x.form, &e), OK);
    assert_int_equal(checkpoint_open(dir, &c, &e), OK);
    assert_int_equal(export_folder_create(c, NULL, scratch_path("out"), &x.form, &x.out, &e),
                     ERR_USAGE);
    assert_non_null(strstr(e.text, "its linears are ternary"));
    checkpoint_close(c);
}

/* The fixtures of a family; fails where it has none. */
static void export_family(const struct arch *a)
{
    int found = 0;
    DIR *models = opendir(FIXTURES "/models");
    assert_non_null(models);
    for (struct dirent *d; (d = readdir(models)) != NULL;) {
        char path[1024];
        json_t *config;
        struct err e = {0};
        snprintf(path, sizeof path, FIXTURES "/models/%s/config.json", d->d_name);
        if (d->d_name[0] == '.' || json_read_file(path, 0, &config, &e) != OK) continue;
        const bool own = arch_find(json_text(config, "model_type", "")) == a;
        const bool ternary = json_object_get(config, "quantization_config") != NULL;
        json_decref(config);
        /* The others of a family differ in what no export depends on. */
        if (!own || strncmp(d->d_name, "tiny_", 5) == 0 || strstr(d->d_name, "_rope_") ||
            strstr(d->d_name, "_yarn"))
            continue;
        if (ternary)
            refuse_ternary(d->d_name);
        else
            export_model(d->d_name);
        found++;
    }
    closedir(models);
    if (!found) fail_msg("no fixture of family %s", arch_name(a));
}

static void every_combination_reads_back(void **state)
{
    const char *given = getenv("QTRAJ_TEST_EXPORTS");
    const struct arch *a;
    (void)state;
    count.stride = given ? atoll(given) : 3989;
    assert_true(count.stride > 0);
    for (int i = 0; (a = arch_at(i)) != NULL; i++) export_family(a);
    print_message("%lld combinations, one of %lld tried: %lld read back (%lld packed, %lld with "
                  "columns that fill no words), refused: %lld by the method, %lld by the "
                  "format, %lld by the size of a linear\n",
                  (long long)count.seen, (long long)count.stride, (long long)count.exported,
                  (long long)count.packed, (long long)count.cut, (long long)count.method,
                  (long long)count.form, (long long)count.size);
    assert_true(count.exported > 0 && count.packed > 0 && count.cut > 0 && count.form > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_combination_reads_back)};
    MPI_Init(&argc, &argv);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
