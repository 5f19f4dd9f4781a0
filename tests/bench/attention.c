/* Time of attention over a window of W tokens in sequences of T tokens, compared with T/W sequences
 * of W tokens, which is the same mask within each of them, and with full attention over T: in the
 * forward pass, and in the four forms of the derivatives.
 *   bench_attention DIR [LENGTH [ROUNDS]]      default 8192 3
 * DIR: a checkpoint with layers of both types, made for instance by
 *   make_checkpoint.py QTRAJ DIR --family olmo3 --hidden 512 --layers 4 --heads 4 --intermediate 64
 *     --vocab 64 --set sliding_window=512
 * Times are the minimum over the rounds, in which all are interleaved. QTRAJ_BENCH_CPU=1
 * OMP_NUM_THREADS=1 counts processor time, for shared machines. */
#include "bench.h"
#include "model/diff_ops.h"

enum { WINDOW, SHORT, FULL, CASES };
enum { FORMS = 1 + DIFF_FORMS };
static const char *const form_names[FORMS] = {"forward pass", "value", "tangent", "adjoint",
                                              "tangent of the adjoint"};

/* One of the cases: sequences, and buffers filled with noise. */
struct setting {
    int64_t layer, tokens;
    struct sequences s;
    struct acts acts;
    struct diff_work work;
    struct diff_lane lane[DIFF_FORMS];
};

static struct checkpoint *checkpoint;
static struct model *model;
static struct diff_program program;

static int64_t layer_with(bool window)
{
    for (int64_t i = 0; i < model->spec.shape.layers; i++)
        if ((spec_window(&model->spec, i) > 0) == window) return i;
    fprintf(stderr, "bench_attention: no layer %s a window\n", window ? "with" : "without");
    exit(2);
}

static void setting_open(struct setting *o, bool window, int64_t n, int64_t length)
{
    struct err e = {0};
    const struct model_shape *m = &model->spec.shape;
    o->layer = layer_with(window);
    o->tokens = n * length;
    must(sequences_init(&o->s, n, n * length, 0, &e), &e);
    for (int64_t i = 0; i <= n; i++) o->s.offset[i] = i * length;
    must(model_acts_init(model, o->tokens, &o->acts, &e), &e);
    float *x = noise(o->tokens * o->acts.inner_width, 1);
    memcpy(o->acts.inner, x, (size_t)(o->tokens * o->acts.inner_width) * sizeof *x);
    acts_cut(&o->acts, &o->s, 0, n, TOKEN_TILE, false);
    must(diff_work_init(&o->work, model, o->tokens, n, length, PRODUCTS_F32, &e), &e);
    diff_work_cut(&o->work, o->s.offset, n);
    for (int i = 0; i < DIFF_FORMS; i++) {
        struct diff_lane *l = &o->lane[i];
        must(diff_lane_init(l, &program, &program.inside, NULL, o->tokens, m->heads, &e), &e);
        for (int64_t t = 0; t < o->tokens * program.width[DIFF_QKV]; t++)
            l->b[DIFF_QKV][t] = x[t % (o->tokens * o->acts.inner_width)];
        for (int64_t t = 0; t < o->tokens * program.width[DIFF_ATT]; t++)
            l->b[DIFF_ATT][t] = x[t % (o->tokens * o->acts.inner_width)];
    }
    free(x);
}

static void setting_close(struct setting *o)
{
    for (int i = 0; i < DIFF_FORMS; i++) diff_lane_free(&o->lane[i]);
    diff_work_free(&o->work);
    model_acts_free(&o->acts);
    sequences_free(&o->s);
}

static void run(struct setting *o, int form)
{
    struct diff_pass p = {.spec = &model->spec,
                          .program = &program,
                          .layer = o->layer,
                          .work = &o->work,
                          .value = &o->lane[DIFF_VALUE],
                          .tangent = &o->lane[DIFF_TANGENT],
                          .adjoint = &o->lane[DIFF_ADJOINT],
                          .adjoint_tangent = &o->lane[DIFF_ADJOINT_TANGENT]};
    struct diff_op op = {.kind = DIFF_ATTEND, .a = DIFF_QKV, .b = DIFF_QKV, .y = DIFF_ATT};
    if (form == 0)
        attention_forward(model, &(struct block){.layer = o->layer}, &o->acts, false);
    else
        diff_attend((enum diff_form)(form - 1), &op, &p);
}

static void measure(struct setting *o, int rounds, double best[FORMS][CASES])
{
    for (int i = 0; i < FORMS * CASES; i++) best[i / CASES][i % CASES] = INFINITY;
    for (int r = 0; r < rounds; r++)
        for (int form = 0; form < FORMS; form++)
            for (int k = 0; k < CASES; k++) {
                double start = bench_seconds(), took;
                run(&o[k], form);
                took = bench_seconds() - start;
                if (took < best[form][k]) best[form][k] = took;
            }
}

static void print(int64_t length, const double best[FORMS][CASES])
{
    const struct spec *s = &model->spec;
    struct model windows = *model;
    for (int64_t i = 0; i < s->shape.layers; i++) windows.spec.flags[i] |= LAYER_WINDOW;
    const double mib = 0x1p20, n = (double)(length / s->window);
    printf("%lld heads of %lld, %lld tokens, window %lld\n%-24s %10s %10s %10s %12s %12s\n",
           (long long)s->shape.heads, (long long)s->shape.head_dim, (long long)length,
           (long long)s->window, "seconds", "window", "short", "full", "window/short",
           "full/window");
    for (int i = 0; i < FORMS; i++)
        printf("%-24s %10.4f %10.4f %10.4f %12.2f %12.2f\n", form_names[i], best[i][WINDOW],
               best[i][SHORT], best[i][FULL], best[i][WINDOW] / best[i][SHORT],
               best[i][FULL] / best[i][WINDOW]);
    printf("scratch arrays of the derivatives, MiB: windows only %.1f, %.0f short sequences %.1f, "
           "with full attention %.1f\n",
           (double)diff_work_bytes(&windows.spec, length, 1, length, 1, PRODUCTS_F32) / mib, n,
           (double)diff_work_bytes(s, length, (int64_t)n, s->window, 1, PRODUCTS_F32) / mib,
           (double)diff_work_bytes(s, length, 1, length, 1, PRODUCTS_F32) / mib);
}

int main(int argc, char **argv)
{
    struct err e = {0};
    struct setting o[CASES] = {0};
    double best[FORMS][CASES];
    if (argc < 2 || argc > 4) {
        fprintf(stderr, "usage: bench_attention DIR [LENGTH [ROUNDS]]\n");
        return 2;
    }
    int64_t length = argc > 2 ? atoll(argv[2]) : 8192;
    linalg_setup();
    must(isa_setup(&e), &e);
    print_machine();
    must(checkpoint_open(argv[1], &checkpoint, &e), &e);
    must(model_open(checkpoint, &model, &e), &e);
    diff_program(&model->spec, &program);
    int64_t window = spec_window(&model->spec, layer_with(true));
    setting_open(&o[WINDOW], true, 1, length);
    setting_open(&o[SHORT], true, length / window, window);
    setting_open(&o[FULL], false, 1, length);
    measure(o, argc > 3 ? atoi(argv[3]) : 3, best);
    print(length, best);
    for (int i = 0; i < CASES; i++) setting_close(&o[i]);
    model_close(model);
    checkpoint_close(checkpoint);
    return 0;
}
