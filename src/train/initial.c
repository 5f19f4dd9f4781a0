/* Initial weights (docs/math/training.md; sources in its table). */
#include "train/initial.h"
#include "checkpoint/folder_write.h"
#include "model/describe.h"
#include "model/sizes.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/rng.h"
#include "util/words.h"
#include <math.h>

enum { PIECE = 1 << 16, REDRAWS = 64 };

struct initial {
    enum initial_scheme scheme;
    uint64_t seed;
    double std, hidden, layers;
    int64_t pad; /* row of the embedding that is zero; -1: none */
};

static double deviation(const struct initial *x, bool out)
{
    switch (x->scheme) {
    case INITIAL_PYTHIA:
        return out ? 2 / (x->layers * sqrt(x->hidden)) : sqrt(2 / (5 * x->hidden));
    case INITIAL_PLAINLM:
        return out ? x->std / sqrt(2 * x->layers) : x->std;
    case INITIAL_SCALED:
        return 1 / sqrt(out ? 2 * x->layers * x->hidden : x->hidden);
    default:
        return x->std;
    }
}

/* w (n) = numbers first, ... of any tensor. */
static void fill(const struct initial *x, const struct tensor_description *t, int64_t first,
                 int64_t n, float *w)
{
    static const struct {
        const char *name;
        double value;
    } constants[] = {{".bias", 0},      {".alpha_p", 0.8}, /* as log(e^a - 1), of transformers'
                                                              XIELUActivation */
                     {".alpha_n", 0.3}, {".beta", 0.5},    {".eps", -1e-6}, {"", 1}};
    const bool out = t->linear && (t->stage == STAGE_O || t->stage == STAGE_DOWN);
    if (t->n_dims == 2) {
        /* w (n) = numbers first, ... of a matrix. Number i comes from try 0 of its stream or,
         * beyond three deviations where that is not wanted, from the next try. */
        const uint64_t name = hash_u64(t->name, strlen(t->name));
        const float s = (float)deviation(x, out);
        rng_normals(rng_bits(rng_stream(x->seed, 0), name), first, n, w);
        for (int64_t i = 0; i < n; i++) {
            for (uint64_t again = 1;
                 x->scheme == INITIAL_OLMO2 && fabsf(w[i]) > 3 && again < REDRAWS; again++)
                rng_normals(rng_bits(rng_stream(x->seed, again), name), first + i, 1, w + i);
            w[i] *= s;
        }
        for (int64_t i = 0; x->pad >= 0 && t->layer < 0 && strstr(t->name, "embed") && i < n; i++)
            if ((first + i) / t->shape[1] == x->pad) w[i] = 0;
        return;
    }
    for (size_t k = 0; k < sizeof constants / sizeof *constants; k++) {
        if (!words_end(t->name, constants[k].name)) continue;
        const double c = constants[k].value;
        const bool alpha = strncmp(constants[k].name, ".alpha", 6) == 0;
        for (int64_t i = 0; i < n; i++) w[i] = (float)(alpha ? log(expm1(c)) : c);
        return;
    }
}

/* The tensors of a model, and their shapes in a file. */
struct tensors {
    int64_t n, capacity;
    struct tensor_description *all; // (n)
    struct tensor_shape *shapes;    // (n)
};

static enum status list(const json_t *config, int64_t layers, struct tensors *x, struct err *e)
{
    struct tensor_description some[DESCRIBE_MAX];
    int n;
    for (int64_t l = -1; l < layers; l++) {
        PASS(model_describe(config, "config.json", l, some, &n, e));
        for (int i = 0; i < n; i++) {
            PASS(mem_grow(&x->all, x->n, &x->capacity, sizeof *x->all, e));
            x->all[x->n++] = some[i];
        }
    }
    PASS(mem_zero(&x->shapes, x->n, sizeof *x->shapes, "tensors", e));
    for (int64_t i = 0; i < x->n; i++) {
        const struct tensor_description *t = &x->all[i];
        const bool alpha = t->n_dims == 0 && strstr(t->name, ".alpha_"); /* of shape [1] */
        x->shapes[i] = (struct tensor_shape){.name = t->name,
                                             .dtype = DTYPE_F32,
                                             .n_dims = alpha ? 1 : t->n_dims,
                                             .shape = {alpha ? 1 : t->shape[0], t->shape[1]}};
    }
    return OK;
}

static enum status append(const struct initial *x, const struct tensors *all,
                          struct folder_out *folder, struct err *e)
{
    AUTO_FREE float *w = NULL;
    const int64_t most = 64 * PIECE;
    PASS(mem_alloc(&w, most, sizeof *w, "initial weights", e));
    for (int64_t i = 0; i < all->n; i++) {
        const struct tensor_description *t = &all->all[i];
        const int64_t elements = tensor_elements(t);
        for (int64_t a = 0, n; a < elements; a += n) {
            n = min64(most, elements - a);
#pragma omp parallel for schedule(static)
            for (int64_t b = 0; b < n; b += PIECE) fill(x, t, a + b, min64(PIECE, n - b), w + b);
            PASS(folder_append(folder, t->name, w, n, e));
        }
    }
    return OK;
}

enum status initial_write(const json_t *config, enum initial_scheme scheme, uint64_t seed,
                          const char *tokenizer, const char *path, struct err *e)
{
    enum status st = OK;
    struct model_sizes sizes;
    struct tensors all = {0};
    struct folder_out *folder = NULL;
    TRY(model_sizes_read(config, "config.json", &sizes, e));
    const double std = json_number_get(json_object_get(config, "initializer_range"));
    const json_t *pad = json_object_get(config, "pad_token_id");
    const bool padded = scheme == INITIAL_HUGGINGFACE && json_is_integer(pad);
    const struct initial x = {.scheme = scheme,
                              .seed = seed,
                              .std = isfinite(std) ? std : 0.02,
                              .hidden = (double)sizes.shape.hidden,
                              .layers = (double)sizes.shape.layers,
                              .pad = padded ? json_integer_value(pad) : -1};
    TRY(list(config, sizes.shape.layers, &all, e));
    const struct folder_plan plan = {
        .config = config, .n = all.n, .tensors = all.shapes, .tokenizer = tokenizer};
    TRY(folder_create(path, &plan, &folder, e));
    TRY(append(&x, &all, folder, e));
    TRY(folder_commit(folder, NULL, e));
done:
    folder_close(folder);
    free(all.all);
    free(all.shapes);
    return st;
}
