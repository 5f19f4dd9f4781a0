/* The step: gradients of micro-batches, their sum in order, clipping, the optimizer. */
#include "curvature/vector.h"
#include "model/sizes.h"
#include "train/trainer_internal.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>
#include <omp.h>

/* --- a micro-batch --- */

static void micro_free(struct trainer_micro *m)
{
    sequences_free(&m->s);
    free(m->targets);
    *m = (struct trainer_micro){0};
}

void trainer_forget(struct trainer *t)
{
    hvp_close(t->derivatives);
    t->derivatives = NULL;
    micro_free(&t->micro);
}

static bool begins(const struct train_tokens *x, int64_t sequence, int64_t at)
{
    const int32_t *d = x->document ? x->document + sequence * (x->length + 1) + at : NULL;
    return at == 0 || (d && d[0] != d[-1]);
}

static enum status micro_make(const struct train_tokens *x, int64_t a, int64_t b,
                              struct trainer_micro *m, struct err *e)
{
    int64_t n = 0, row = 0;
    for (int64_t i = a; i < b; i++)
        for (int64_t t = 0; t < x->length; t++) n += begins(x, i, t);
    PASS(sequences_init(&m->s, n, (b - a) * x->length, 0, e));
    PASS(mem_alloc(&m->targets, (b - a) * x->length, sizeof *m->targets, "targets", e));
    n = 0;
    for (int64_t i = a; i < b; i++)
        for (int64_t t = 0; t < x->length; t++, row++) {
            const int32_t *token = x->tokens + i * (x->length + 1) + t;
            if (begins(x, i, t)) m->s.offset[n++] = row;
            m->s.ids[row] = token[0];
            m->targets[row] = token[1];
        }
    m->s.offset[n] = row;
    return OK;
}

/* Whether the activations of all blocks fit, so that none is computed twice. */
static bool fits_kept(const struct trainer *t, const struct sequences *s, int64_t longest)
{
    struct model_sizes sizes;
    struct hvp_bytes bytes;
    model_sizes(t->model, &sizes);
    const struct hvp_extent extent = {.tokens = s->offset[s->n],
                                      .sequences = s->n,
                                      .longest = longest,
                                      .threads = omp_get_max_threads(),
                                      .values = true,
                                      .subset = HVP_ALL,
                                      .products = t->o.products};
    hvp_bytes_of(&sizes.spec, &extent, &bytes);
    return bytes.gradient <= t->o.memory;
}

static bool as_long(const struct sequences *a, const struct sequences *b)
{
    return a->n == b->n &&
           memcmp(a->offset, b->offset, (size_t)(a->n + 1) * sizeof *a->offset) == 0;
}

/* t->micro = sequences [a, b), t->derivatives are of them. */
static enum status micro_take(struct trainer *t, const struct train_tokens *x, int64_t a, int64_t b,
                              struct err *e)
{
    struct trainer_micro m = {0};
    const enum status st = micro_make(x, a, b, &m, e);
    if (st != OK || !t->derivatives || !as_long(&m.s, &t->micro.s)) {
        trainer_forget(t);
        t->micro = m;
        PASS(st);
        PASS(hvp_open(t->model, &t->micro.s, HVP_ALL, &t->derivatives, e));
        hvp_blocks(t->derivatives, t->blocks);
        return hvp_targets(t->derivatives, m.targets, e);
    }
    micro_free(&t->micro);
    t->micro = m;
    return hvp_next(t->derivatives, &t->micro.s, m.targets, e);
}

/* loss, z: this micro-batch's parts of the means over the whole batch; g: NULL: the loss alone. */
static enum status micro_run(struct trainer *t, const struct train_tokens *x, int64_t i, float *g,
                             double loss_z[2], struct err *e)
{
    enum status st = OK;
    const int64_t a = i * t->o.micro, b = min64(a + t->o.micro, x->n);
    TRY(micro_take(t, x, a, b, e));
    struct hvp *h = t->derivatives;
    hvp_total(h, x->n * x->length);
    hvp_z_loss(h, g ? t->o.optimizer.z_loss : 0);
    hvp_keep_values(h, g && fits_kept(t, &t->micro.s, x->length));
    TRY(g ? hvp_gradient(h, g, &loss_z[0], e) : hvp_loss(h, &loss_z[0], e));
    loss_z[1] = hvp_z_part(h);
    loss_z[0] -= loss_z[1];
done:
    if (st != OK) trainer_forget(t);
    return st;
}

/* --- the sum over the micro-batches --- */

/* sum (n) = g for the first micro-batch, else sum + g. */
static void accumulate(float *sum, const float *g, int64_t n, bool first)
{
#pragma omp parallel for simd schedule(static)
    for (int64_t k = 0; k < n; k++) sum[k] = first ? g[k] : sum[k] + g[k];
}

/* Adds the gradients that the ranks have, which are of micro-batches first, first + 1, ..., in this
 * order, to the parts that the ranks hold. Collective. */
static enum status add_ranks(struct trainer *t, int64_t first, int64_t count, struct err *e)
{
    AUTO_FREE float *part = NULL;
    AUTO_FREE int *n = NULL, *at = NULL;
    enum status st = mem_alloc(&part, t->held, sizeof *part, "a part of a gradient", e);
    if (st == OK) st = mem_alloc(&n, t->size, sizeof *n, "parts", e);
    if (st == OK) st = mem_alloc(&at, t->size, sizeof *at, "parts", e);
    PASS(trainer_agree(t, st, e));
    for (int r = 0; r < t->size; r++) {
        int64_t begin, held;
        trainer_part(t, r, &begin, &held);
        n[r] = (int)held;
        at[r] = (int)begin;
    }
    for (int root = 0; root < t->size && first + root < count; root++) {
        MPI_Scatterv(t->g, n, at, MPI_FLOAT, part, (int)t->held, MPI_FLOAT, root, t->o.ranks);
        accumulate(t->sum, part, t->held, first + root == 0);
    }
    return OK;
}

/* t->sum = the gradient of the batch; loss_z (2 count): of the micro-batches, on all ranks. */
static enum status gradients(struct trainer *t, const struct train_tokens *x, int64_t count,
                             double *loss_z, struct err *e)
{
    for (int64_t first = 0; first < count; first += t->size) {
        enum status st = OK;
        const int64_t i = first + t->rank;
        const bool alone = t->size == 1;
        if (!alone || i > 0) st = trainer_gradient_room(t, e);
        if (st == OK && i < count)
            st = micro_run(t, x, i, alone && i == 0 ? t->sum : t->g, loss_z + 2 * i, e);
        PASS(trainer_agree(t, st, e));
        if (!alone)
            PASS(add_ranks(t, first, count, e));
        else if (i > 0)
            accumulate(t->sum, t->g, t->n, false);
    }
    MPI_Allreduce(MPI_IN_PLACE, loss_z, (int)(2 * count), MPI_DOUBLE, MPI_SUM, t->o.ranks);
    return OK;
}

/* *norm = the 2-norm of the sum: squares in blocks, which are added in order. Ranks add zeros to
 * the blocks of others. Collective. */
static enum status norm_of(const struct trainer *t, double *norm, struct err *e)
{
    AUTO_FREE double *squares = NULL;
    double total = 0;
    const int64_t blocks = (t->n + TRAINER_BLOCK - 1) / TRAINER_BLOCK;
    enum status st = mem_zero(&squares, blocks, sizeof *squares, "sums of squares", e);
    PASS(trainer_agree(t, st, e));
#pragma omp parallel for schedule(static)
    for (int64_t a = 0; a < t->held; a += TRAINER_BLOCK) {
        const struct space block = space_alone(min64(TRAINER_BLOCK, t->held - a));
        squares[(t->first + a) / TRAINER_BLOCK] = vector_dot(&block, t->sum + a, t->sum + a);
    }
    MPI_Allreduce(MPI_IN_PLACE, squares, (int)blocks, MPI_DOUBLE, MPI_SUM, t->o.ranks);
    for (int64_t i = 0; i < blocks; i++) total += squares[i];
    *norm = sqrt(total);
    return OK;
}

/* --- the update --- */

static bool turns(const struct trainer *t, int64_t tensor)
{
    return optimizers[t->o.optimizer.kind]->matrix && t->tensors[tensor].matrix;
}

static struct optimizer_step step_of(const struct trainer *t, int64_t k, double rate, double clip,
                                     int64_t tensor)
{
    return (struct optimizer_step){.options = &t->o.optimizer,
                                   .k = k,
                                   .rate = rate,
                                   .clip = clip,
                                   .decay = t->tensors[tensor].decay,
                                   .matrix = t->tensors[tensor].matrix};
}

/* The new weights of this rank's numbers, in t->g if there are other ranks; of matrices that turn,
 * directions, there or in t->sum. */
static void update_part(struct trainer *t, int64_t k, double rate, double clip)
{
#pragma omp parallel for schedule(static)
    for (int64_t a = 0; a < t->held; a += TRAINER_BLOCK) {
        const int64_t end = min64(a + TRAINER_BLOCK, t->held);
        for (int64_t b = a, n; b < end; b += n) {
            int64_t i, at;
            n = trainer_run(t, t->first + b, end - b, &i, &at);
            const struct optimizer_step s = step_of(t, k, rate, clip, i);
            float *w = t->tensors[i].w + at;
            optimizers[t->o.optimizer.kind]->step(&s, n, w, t->sum + b, t->m + b,
                                                  t->v ? t->v + b : NULL,
                                                  t->size > 1   ? t->g + t->first + b
                                                  : turns(t, i) ? t->sum + b
                                                                : w);
        }
    }
}

/* Every rank gets the weights that the others have updated. Collective. */
static void share_weights(struct trainer *t)
{
    for (int r = 0; r < t->size; r++) {
        int64_t first, n;
        trainer_part(t, r, &first, &n);
        MPI_Bcast(t->g + first, (int)n, MPI_FLOAT, r, t->o.ranks);
    }
    for (int64_t i = 0; i < t->n_tensors; i++) {
        const struct hvp_tensor *x = hvp_tensor(t->table, i);
        if (!turns(t, i))
            memcpy(t->tensors[i].w, t->g + x->offset, (size_t)x->elements * sizeof(float));
    }
}

/* Changes matrices along the directions that update_part has left, each by one rank, which sends it
 * to the others. Collective. */
static enum status update_matrices(struct trainer *t, int64_t k, double rate, double clip,
                                   struct err *e)
{
    float *room = NULL;
    int64_t most = 0;
    int owner = 0;
    for (int64_t i = 0; i < t->n_tensors; i++) {
        const int64_t *shape = hvp_tensor(t->table, i)->shape;
        if (turns(t, i)) most = max64(most, optimizer_room(shape[0], shape[1]));
    }
    PASS(trainer_agree(t, mem_alloc(&room, most, sizeof *room, "an update of matrices", e), e));
    for (int64_t i = 0; i < t->n_tensors; i++) {
        const struct hvp_tensor *x = hvp_tensor(t->table, i);
        if (!turns(t, i)) continue;
        const struct optimizer_step s = step_of(t, k, rate, clip, i);
        float *direction = (t->size > 1 ? t->g : t->sum) + x->offset;
        if (owner == t->rank)
            optimizers[t->o.optimizer.kind]->matrix(&s, x->shape[0], x->shape[1], t->tensors[i].w,
                                                    direction, room);
        owner = (owner + 1) % t->size;
    }
    free(room);
    owner = 0;
    for (int64_t i = 0; t->size > 1 && i < t->n_tensors; i++) {
        if (!turns(t, i)) continue;
        MPI_Bcast(t->tensors[i].w, (int)hvp_tensor(t->table, i)->elements, MPI_FLOAT, owner,
                  t->o.ranks);
        owner = (owner + 1) % t->size;
    }
    return OK;
}

static int64_t micro_batches(const struct trainer *t, const struct train_tokens *x)
{
    return (x->n + t->o.micro - 1) / t->o.micro;
}

static void sums(const double *loss_z, int64_t count, double *loss, double *z)
{
    *loss = *z = 0;
    for (int64_t i = 0; i < count; i++) {
        *loss += loss_z[2 * i];
        *z += loss_z[2 * i + 1];
    }
}

enum status trainer_step(struct trainer *t, int64_t k, double rate,
                         const struct train_tokens *batch, struct train_result *out, struct err *e)
{
    AUTO_FREE double *loss_z = NULL;
    const int64_t count = micro_batches(t, batch);
    *out = (struct train_result){.clip = 1};
    NEED(t->n <= INT32_MAX || t->size == 1, ERR_USAGE,
         "more than 2^31 parameters are trained by one rank only");
    enum status st = mem_zero(&loss_z, 2 * count, sizeof *loss_z, "losses", e);
    PASS(trainer_agree(t, st, e));
    PASS(gradients(t, batch, count, loss_z, e));
    sums(loss_z, count, &out->loss, &out->z);
    PASS(norm_of(t, &out->norm, e));
    NEED(isfinite(out->loss) && isfinite(out->norm), ERR_NUMERIC,
         "step %lld: the loss is %g, the norm of the gradient %g", (long long)k, out->loss,
         out->norm);
    if (t->o.optimizer.clip > 0) out->clip = fmin(1, t->o.optimizer.clip / (out->norm + 1e-6));
    update_part(t, k, rate, out->clip);
    if (t->size > 1) share_weights(t);
    if (optimizers[t->o.optimizer.kind]->matrix) PASS(update_matrices(t, k, rate, out->clip, e));
    for (int64_t l = 0; l < model_shape(t->model)->layers; l++) model_block_complete(&t->blocks[l]);
    return OK;
}

enum status trainer_loss(struct trainer *t, const struct train_tokens *s, double *loss,
                         struct err *e)
{
    AUTO_FREE double *loss_z = NULL;
    double z;
    const int64_t count = micro_batches(t, s);
    enum status st = mem_zero(&loss_z, 2 * count, sizeof *loss_z, "losses", e);
    for (int64_t i = t->rank; st == OK && i < count; i += t->size)
        st = micro_run(t, s, i, NULL, loss_z + 2 * i, e);
    PASS(trainer_agree(t, st, e));
    MPI_Allreduce(MPI_IN_PLACE, loss_z, (int)(2 * count), MPI_DOUBLE, MPI_SUM, t->o.ranks);
    sums(loss_z, count, loss, &z);
    return OK;
}
