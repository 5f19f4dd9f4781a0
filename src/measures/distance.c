#include "measures/distance.h"
#include "quant/grids.h"
#include "util/agree.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/rng.h"
#include <omp.h>

/* Elements of a tile of a tensor that is no linear's weight; tiles of those have TILE_ROWS rows. */
enum { CHUNK = 1 << 18 };
/* Between two of so many batches of tiles the ranks agree on whether to go on. */
enum { BATCHES = 64 };

struct tile {
    int64_t tensor, first, n;   /* elements of the tensor from `first` on */
    int64_t weight, end_weight; /* single weights among them, from `weight` on */
};

/* One of a tile's two sums, then one for each bit-width. */
enum { SUM_DISTANCE, SUM_NORM, SUM_STEPS, SUMS = SUM_STEPS + QUANT_BITS_N };

struct work {
    struct distance *d;
    struct tensor_description *other; /* the tensors of `from`, in the same order */
    int64_t n, capacity;
    struct tile *tiles;   // (n)
    double (*sums)[SUMS]; // (n)
    int64_t longest;      /* elements of the largest tile */
    int64_t group;        /* columns of the largest group */
    float *buffers;       // (threads, buffer_of) two tiles and a transposed group
};

void distance_free(struct distance *d)
{
    free(d->tensors);
    free(d->sums);
    free(d->places);
    free(d->weights);
    *d = (struct distance){0};
}

int64_t distance_bytes(const struct quant_options *o, int64_t cols)
{
    const int64_t tile = max64(TILE_ROWS * cols, CHUNK);
    return (2 * tile + TILE_ROWS * grid_group(o, cols)) * (int64_t)sizeof(float);
}

/* --- tiles --- */

static enum status add_tiles(struct work *w, int64_t tensor, struct err *e)
{
    const struct tensor_description *t = &w->d->tensors[tensor];
    const int64_t n = tensor_elements(t), most = t->linear ? TILE_ROWS * t->shape[1] : CHUNK;
    if (t->linear) w->group = max64(w->group, grid_group(&w->d->grid->options, t->shape[1]));
    for (int64_t first = 0; first < n; first += most) {
        const struct tile one = {.tensor = tensor, .first = first, .n = min64(most, n - first)};
        PASS(mem_grow(&w->tiles, w->n, &w->capacity, sizeof *w->tiles, e));
        w->tiles[w->n++] = one;
        w->longest = max64(w->longest, one.n);
    }
    return OK;
}

/* Both checkpoints must have the same tensors; names may be aliases. */
static enum status check_tensors(const struct work *w, int64_t n_other, struct err *e)
{
    const struct distance *d = w->d;
    NEED(n_other == d->n, ERR_SHAPE, "%s has %lld tensors; %s, the checkpoint before, %lld",
         checkpoint_dir(d->to), (long long)d->n, checkpoint_dir(d->from), (long long)n_other);
    for (int64_t i = 0; i < d->n; i++) {
        const struct tensor_description *a = &d->tensors[i], *b = &w->other[i];
        const struct tensor_entry *x = checkpoint_find(d->to, a->name);
        const struct tensor_entry *y = checkpoint_find(d->from, b->name);
        NEED(x && y, ERR_FORMAT, "%s: no tensor %s", checkpoint_dir(x ? d->from : d->to),
             x ? b->name : a->name);
        NEED(x->n_elements == tensor_elements(a) && y->n_elements == x->n_elements, ERR_SHAPE,
             "%s: tensor %s has %lld elements; in %s, the checkpoint before, %lld",
             checkpoint_dir(d->to), a->name, (long long)x->n_elements, checkpoint_dir(d->from),
             (long long)y->n_elements);
    }
    return OK;
}

/* The k-th weight is drawn from the k-th of n_weights equal parts of all weights of linears. */
static enum status draw_weights(struct distance *d, struct err *e)
{
    int64_t all = 0, tensor = -1, end = 0; /* of the tensors until `tensor` */
    for (int64_t i = 0; i < d->n; i++)
        if (d->tensors[i].linear) all += tensor_elements(&d->tensors[i]);
    d->n_weights = min64(d->n_weights, all);
    PASS(mem_zero(&d->places, d->n_weights, sizeof *d->places, "single weights", e));
    PASS(mem_zero(&d->weights, d->n_weights, sizeof *d->weights, "single weights", e));
    for (int64_t k = 0; k < d->n_weights; k++) {
        const int64_t first = all * k / d->n_weights, part = all * (k + 1) / d->n_weights - first;
        const int64_t at = first + (int64_t)(rng_bits(0, (uint64_t)k) % (uint64_t)part);
        while (end <= at)
            if (d->tensors[++tensor].linear) end += tensor_elements(&d->tensors[tensor]);
        d->places[k] =
            (struct weight_place){tensor, at - end + tensor_elements(&d->tensors[tensor])};
    }
    return OK;
}

/* Single weights lie in the order of the tiles. */
static void divide_weights(struct work *w)
{
    int64_t k = 0;
    for (int64_t i = 0; i < w->n; i++) {
        struct tile *p = &w->tiles[i];
        p->weight = k;
        for (; k < w->d->n_weights; k++) {
            const struct weight_place *x = &w->d->places[k];
            if (x->tensor != p->tensor || x->element >= p->first + p->n) break;
        }
        p->end_weight = k;
    }
}

static int64_t buffer_of(const struct work *w)
{
    return 2 * w->longest + TILE_ROWS * w->group;
}

static enum status open_work(struct work *w, struct err *e)
{
    struct distance *d = w->d;
    int64_t n_other;
    PASS(model_parameters(d->to, &d->tensors, &d->n, e));
    PASS(model_parameters(d->from, &w->other, &n_other, e));
    PASS(check_tensors(w, n_other, e));
    for (int64_t i = 0; i < d->n; i++) PASS(add_tiles(w, i, e));
    PASS(draw_weights(d, e));
    divide_weights(w);
    PASS(mem_zero(&d->sums, d->n, sizeof *d->sums, "sums of tensors", e));
    PASS(mem_zero(&w->sums, w->n, sizeof *w->sums, "sums of tiles", e));
    return mem_alloc(&w->buffers, omp_get_max_threads() * buffer_of(w), sizeof *w->buffers,
                     "tiles of weights", e);
}

/* --- sums --- */

/* Of the squared steps of a group of n columns, in the transposed tile t (n, TILE_ROWS); a row of
 * zeros has no step. */
static double squared_steps(const struct grid *g, const float *t, int64_t n, int64_t rows)
{
    double sum = 0;
    for (int64_t r = 0; r < rows; r++) {
        bool zero = true;
        for (int64_t j = 0; j < n && zero; j++) zero = t[j * TILE_ROWS + r] == 0;
        const double step = zero ? 0 : (double)g->stored[r];
        sum += (double)n * step * step;
    }
    return sum;
}

/* Rounds the single weights of columns [first, first + n), which are t, at the k-th width. */
static void round_weights(const struct distance *d, const struct tile *p, int64_t cols,
                          int64_t first, int64_t n, const float *t, const struct grid *g, int64_t k)
{
    float q[TILE_ROWS];
    for (int64_t i = p->weight; i < p->end_weight; i++) {
        const int64_t at = d->places[i].element - p->first, c = at % cols;
        if (c < first || c >= first + n) continue;
        grid_round_stored(q, t + (c - first) * TILE_ROWS, g, d->grid->bits[k]);
        d->weights[i][WEIGHT_ROUNDED + k] = (double)q[at / cols];
    }
}

/* Adds the steps of the tile's rows x (rows, cols); t: scratch of a transposed group. */
static void add_steps(const struct distance *d, const struct tile *p, const float *x, int64_t cols,
                      float *t, double *sums)
{
    const struct method_entry *m = d->grid;
    const int64_t group = grid_group(&m->options, cols), rows = p->n / cols;
    struct grid g;
    for (int64_t a = 0; a < cols; a += group) {
        const int64_t n = min64(group, cols - a);
        tile_load(t, TILE_ROWS, x, rows, cols, 0, a, n, NULL);
        for (int64_t k = 0; k < m->n_bits; k++) {
            grid_fit(&g, t, n, grid_kind_of(m->bits[k], &m->options));
            sums[k] += squared_steps(&g, t, n, rows);
            round_weights(d, p, cols, a, n, t, &g, k);
        }
    }
}

/* Local. sums is zero. */
static enum status add_tile(const struct work *w, const struct tile *p, float *buffer, double *sums,
                            struct err *e)
{
    const struct distance *d = w->d;
    const struct tensor_description *t = &d->tensors[p->tensor];
    float *to = buffer, *from = buffer + w->longest;
    PASS(checkpoint_read_range(d->to, checkpoint_find(d->to, t->name), p->first, p->n, to, e));
    PASS(checkpoint_read_range(d->from, checkpoint_find(d->from, w->other[p->tensor].name),
                               p->first, p->n, from, e));
    for (int64_t i = 0; i < p->n; i++) {
        const double x = (double)to[i], change = x - (double)from[i];
        sums[SUM_DISTANCE] += change * change;
        sums[SUM_NORM] += x * x;
    }
    if (!t->linear) return OK;
    add_steps(d, p, to, t->shape[1], buffer + 2 * w->longest, sums + SUM_STEPS);
    for (int64_t i = p->weight; i < p->end_weight; i++) {
        const int64_t at = d->places[i].element - p->first;
        d->weights[i][WEIGHT_BEFORE] = (double)from[at];
        d->weights[i][WEIGHT_NOW] = (double)to[at];
    }
    return OK;
}

/* Tiles first to end - 1. Local. */
static enum status add_tiles_of_rank(const struct work *w, int64_t first, int64_t end,
                                     struct err *e)
{
    struct err bad = {0};
    int64_t failed = end; /* the first tile that failed */
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = first; i < end; i++) {
        struct err own = {0};
        float *buffer = w->buffers + omp_get_thread_num() * buffer_of(w);
        if (add_tile(w, &w->tiles[i], buffer, w->sums[i], &own) != OK)
            err_first(&bad, &failed, i, &own);
    }
    NEED(failed == end, bad.code, "%s", bad.text);
    return OK;
}

/* The sums and single weights of the ranks' tiles, which are zero elsewhere, then the sums of the
 * tensors, in order. */
static enum status add_up(const struct work *w, MPI_Comm comm, struct err *e)
{
    const int n = (int)(w->n * SUMS);
    NEED(MPI_Allreduce(MPI_IN_PLACE, w->sums, n, MPI_DOUBLE, MPI_SUM, comm) == MPI_SUCCESS, ERR_MPI,
         "cannot add the sums of %lld tiles", (long long)w->n);
    NEED(MPI_Allreduce(MPI_IN_PLACE, w->d->weights, (int)(w->d->n_weights * WEIGHT_N), MPI_DOUBLE,
                       MPI_SUM, comm) == MPI_SUCCESS,
         ERR_MPI, "cannot gather %lld weights", (long long)w->d->n_weights);
    for (int64_t i = 0; i < w->n; i++) {
        struct tensor_distance *to = &w->d->sums[w->tiles[i].tensor];
        to->distance += w->sums[i][SUM_DISTANCE];
        to->norm += w->sums[i][SUM_NORM];
        for (int k = 0; k < QUANT_BITS_N; k++) to->steps[k] += w->sums[i][SUM_STEPS + k];
    }
    return OK;
}

enum status distance_measure(struct distance *d, MPI_Comm comm, bool (*stop)(void *), void *context,
                             struct pace *pace, struct err *e)
{
    enum status st = OK;
    struct work w = {.d = d};
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    TRY(err_agree(comm, open_work(&w, e), e));
    for (int64_t k = 0; k < BATCHES; k++) {
        const int64_t first = w.n * k / BATCHES, n = w.n * (k + 1) / BATCHES - first;
        if (n == 0) continue;
        st = add_tiles_of_rank(&w, first + n * rank / size, first + n * (rank + 1) / size, e);
        TRY(err_agree(comm, st, e));
        ENSURE(!stop || !stop(context), ERR_STOPPED, "stopped");
        pace_step(pace, (double)n / (double)w.n);
    }
    TRY(add_up(&w, comm, e));
done:
    free(w.other);
    free(w.tiles);
    free(w.sums);
    free(w.buffers);
    return st;
}
