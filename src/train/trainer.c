/* Opens a model for training: its weights stay in memory, where the optimizer changes them. */
#include "model/sizes.h"
#include "train/trainer_internal.h"
#include "util/agree.h"
#include "util/mem.h"
#include "util/num.h"

void trainer_part(const struct trainer *t, int rank, int64_t *first, int64_t *n)
{
    const int64_t blocks = (t->n + TRAINER_BLOCK - 1) / TRAINER_BLOCK;
    const struct space cut = space_cut(blocks, rank, t->size);
    *first = min64(cut.first * TRAINER_BLOCK, t->n);
    *n = min64((cut.first + cut.n) * TRAINER_BLOCK, t->n) - *first;
}

int64_t trainer_run(const struct trainer *t, int64_t first, int64_t n, int64_t *i, int64_t *at)
{
    int64_t low = 0, high = t->n_tensors - 1;
    while (low < high) { /* the last tensor that begins at `first` or before */
        const int64_t middle = (low + high + 1) / 2;
        if (hvp_tensor(t->table, middle)->offset <= first)
            low = middle;
        else
            high = middle - 1;
    }
    const struct hvp_tensor *found = hvp_tensor(t->table, low);
    *i = low;
    *at = first - found->offset;
    return min64(n, found->elements - *at);
}

static double decay_of(const struct trainer *t, const struct hvp_tensor *x)
{
    struct model_sizes sizes;
    model_sizes(t->model, &sizes);
    const char *table = sizes.spec.arch->embed;
    const size_t n = strlen(table);
    const bool embedding = x->layer < 0 && strncmp(x->name, table, n) == 0 && x->name[n] == '.';
    const bool matrix = x->n_dims == 2;
    switch ((enum decay_on)t->o.optimizer.decay_on) {
    case DECAY_MATRICES:
        return matrix ? t->o.optimizer.weight_decay : 0;
    case DECAY_NO_EMBEDDINGS:
        return matrix && !embedding ? t->o.optimizer.weight_decay : 0;
    case DECAY_OLMO2:
        return embedding ? 0 : t->o.optimizer.weight_decay;
    default:
        return t->o.optimizer.weight_decay;
    }
}

enum status trainer_gradient_room(struct trainer *t, struct err *e)
{
    return t->g ? OK : mem_alloc(&t->g, t->n, sizeof(float), "a gradient", e);
}

enum status trainer_open(const char *folder, const struct trainer_options *o, struct trainer **out,
                         struct err *e)
{
    CLEANUP(trainer_close_at) struct trainer *t = NULL;
    PASS(mem_zero(&t, 1, sizeof *t, "a trainer", e));
    t->o = *o;
    MPI_Comm_rank(o->ranks, &t->rank);
    MPI_Comm_size(o->ranks, &t->size);
    PASS(checkpoint_open(folder, &t->checkpoint, e));
    PASS(model_open(t->checkpoint, &t->model, e));
    model_set_products(t->model, t->o.products);
    model_straight_through(t->model);
    const int64_t L = model_shape(t->model)->layers;
    PASS(mem_zero(&t->blocks, L, sizeof *t->blocks, "blocks", e));
    for (int64_t l = 0; l < L; l++) PASS(model_block_load(t->model, l, &t->blocks[l], e));
    PASS(sequences_init(&t->none, 1, 2, 0, e));
    t->none.offset[1] = 2;
    PASS(hvp_open(t->model, &t->none, HVP_ALL, &t->table, e));
    hvp_blocks(t->table, t->blocks);
    t->n = hvp_n(t->table);
    t->n_tensors = hvp_n_tensors(t->table);
    PASS(mem_zero(&t->tensors, t->n_tensors, sizeof *t->tensors, "tensors", e));
    for (int64_t i = 0; i < t->n_tensors; i++) {
        t->tensors[i].w = hvp_place(t->table, i);
        const struct hvp_tensor *x = hvp_tensor(t->table, i);
        t->tensors[i].decay = decay_of(t, x);
        t->tensors[i].matrix = x->layer >= 0 && x->n_dims == 2;
    }
    trainer_part(t, t->rank, &t->first, &t->held);
    PASS(mem_zero(&t->sum, t->held, sizeof(float), "the sum of gradients", e));
    PASS(mem_zero(&t->m, t->held, sizeof(float), "first moments", e));
    if (optimizers[t->o.optimizer.kind]->moments > 1)
        PASS(mem_zero(&t->v, t->held, sizeof(float), "second moments", e));
    *out = TAKE(t);
    return OK;
}

void trainer_close(struct trainer *t)
{
    if (!t) return;
    trainer_forget(t);
    hvp_close(t->table);
    sequences_free(&t->none);
    const int64_t L = t->blocks ? model_shape(t->model)->layers : 0;
    for (int64_t l = 0; l < L; l++) model_block_free(&t->blocks[l]);
    free(t->blocks);
    model_close(t->model);
    checkpoint_close(t->checkpoint);
    free(t->tensors);
    free(t->sum);
    free(t->m);
    free(t->v);
    free(t->g);
    free(t);
}

enum status trainer_agree(const struct trainer *t, enum status st, struct err *e)
{
    int failed = st != OK;
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, t->o.ranks);
    return failed ? err_agree(t->o.ranks, st, e) : OK;
}

const struct model *trainer_model(const struct trainer *t)
{
    return t->model;
}

const struct checkpoint *trainer_checkpoint(const struct trainer *t)
{
    return t->checkpoint;
}

int64_t trainer_n(const struct trainer *t)
{
    return t->n;
}

int64_t trainer_n_tensors(const struct trainer *t)
{
    return t->n_tensors;
}

const struct hvp_tensor *trainer_tensor(const struct trainer *t, int64_t i, const float **weights)
{
    if (weights) *weights = t->tensors[i].w;
    return hvp_tensor(t->table, i);
}

int64_t trainer_bytes(int64_t parameters, int moments, int ranks)
{
    /* weights and a gradient, and parts of its sum and of the moments */
    return (int64_t)sizeof(float) * (2 * parameters + (1 + moments) * (parameters / ranks + 1));
}
