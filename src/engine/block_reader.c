#include "engine/block_reader.h"
#include "engine/shared_products.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/mem.h"
#include <pthread.h>

struct block_reader {
    const struct model *model;
    const struct visit_group *group;
    bool ahead;      /* a block is read while another is used; else when it is asked for */
    int place;       /* of the block in use; with `ahead` the other one is for the next block */
    int64_t layer;   /* the block in use; -1: none */
    int64_t reading; /* the block that is being read, or was read ahead; -1: none */
    struct group_memory memory[2];
    struct block block[2];
    struct shared_products products[LINEARS_MAX]; /* of the block in use */
    pthread_t thread;
    bool running;
    enum status st;
    struct err err;
    double seconds;
};

static int next_place(const struct block_reader *r)
{
    return r->ahead ? 1 - r->place : 0;
}

static void *read_block(void *argument)
{
    struct block_reader *r = argument;
    const int i = next_place(r);
    const struct model_part part = {r->group->node_rank, r->group->node_size};
    r->st = model_block_read(r->model, r->reading, part, r->memory[i].at, &r->block[i], &r->err);
    return NULL;
}

/* Frees the block whose place is taken. Does nothing else if there is no such layer. */
static enum status start(struct block_reader *r, int64_t layer, struct err *e)
{
    model_block_free(&r->block[next_place(r)]);
    r->block[next_place(r)] = (struct block){0};
    if (layer < 0 || layer >= model_shape(r->model)->layers) return OK;
    r->reading = layer;
    NEED(pthread_create(&r->thread, NULL, read_block, r) == 0, ERR_NOMEM,
         "cannot start a reading thread");
    r->running = true;
    return OK;
}

static void finish(struct block_reader *r)
{
    if (!r->running) return;
    pthread_join(r->thread, NULL);
    r->running = false;
}

enum status block_reader_open(const struct visit_group *g, const struct model *m, bool ahead,
                              int64_t first, struct block_reader **out, struct err *e)
{
    CLEANUP(block_reader_close_at) struct block_reader *r = NULL;
    PASS(group_agree(g, mem_zero(&r, 1, sizeof *r, "block reader", e), e));
    r->model = m;
    r->group = g;
    r->ahead = ahead;
    r->layer = r->reading = -1;
    for (int i = 0; i <= r->ahead; i++)
        PASS(group_memory_open(g, model_block_floats(m), "weights of a block", &r->memory[i], e));
    if (ahead) PASS(group_agree(g, start(r, first, e), e));
    *out = TAKE(r);
    return OK;
}

/* Makes the block that was read the one in use. */
static enum status take(struct block_reader *r, struct err *e)
{
    enum status st = OK;
    finish(r);
    if (r->st != OK) st = err_set(e, r->st, __FILE__, __LINE__, "%s", r->err.text);
    PASS(group_agree(r->group, st, e));
    r->place = next_place(r);
    r->layer = r->reading;
    r->reading = -1;
    group_memory_sync(r->group, &r->memory[r->place]);
    model_block_complete(&r->block[r->place]);
    return OK;
}

enum status block_reader_get(struct block_reader *r, int64_t layer, int64_t next,
                             const struct block **out, struct err *e)
{
    const double before = clock_seconds();
    if (r->layer != layer && r->reading != layer) {
        r->layer = -1;
        finish(r);
        /* All ranks have finished with the block whose memory is used again. */
        PASS(group_agree(r->group, OK, e));
        PASS(group_agree(r->group, start(r, layer, e), e));
    }
    if (r->layer != layer) {
        PASS(take(r, e));
        const double waited = clock_seconds() - before;
        log_trace("io", "block %lld: waited %.3f s for %.1f MB of f32 weights", (long long)layer,
                  waited, (double)model_block_floats(r->model) * sizeof(float) / 1e6);
        r->seconds += waited;
        if (r->ahead) PASS(group_agree(r->group, start(r, next, e), e));
    }
    *out = &r->block[r->place];
    return OK;
}

enum status block_reader_prepare(struct block_reader *r, struct err *e)
{
    struct block *b = &r->block[r->place];
    for (int i = 0; i < b->n_linears; i++) {
        struct linear *l = &b->linear[i];
        PASS(shared_products_make(r->group, r->model, l->w, l->rows, l->cols, &r->products[i], e));
        l->prepared = r->products[i].w;
    }
    return OK;
}

double block_reader_seconds(const struct block_reader *r)
{
    return r->seconds;
}

void block_reader_close(struct block_reader *r)
{
    if (!r) return;
    finish(r);
    for (int i = 0; i < 2; i++) {
        model_block_free(&r->block[i]);
        group_memory_close(&r->memory[i]);
    }
    for (int i = 0; i < LINEARS_MAX; i++) shared_products_close(&r->products[i]);
    free(r);
}
