/* A thread reads the next block's weights and converts them to f32 while the current block is used.
 * Ranks that share memory read a part each. */
#include "util/clock.h"
#include "util/log.h"
#include "util/mem.h"
#include "visit/visit_internal.h"
#include <pthread.h>
#include <stdlib.h>

struct block_reader {
    const struct model *model;
    const struct visit_group *group;
    int64_t ahead; /* 1: a block is read while another is used; 0: when it is needed */
    int64_t layer; /* the next block to return */
    struct group_memory memory[2];
    struct block block[2];
    pthread_t thread;
    bool running;
    enum status st;
    struct err err;
    double seconds;
};

static int place_of(const struct block_reader *r)
{
    return r->ahead ? (int)(r->layer & 1) : 0;
}

static void *read_block(void *argument)
{
    struct block_reader *r = argument;
    int i = place_of(r);
    const struct model_part part = {r->group->node_rank, r->group->node_size};
    r->st = model_block_read(r->model, r->layer, part, r->memory[i].at, &r->block[i], &r->err);
    return NULL;
}

static enum status start(struct block_reader *r, struct err *e)
{
    model_block_free(&r->block[place_of(r)]);
    r->block[place_of(r)] = (struct block){0};
    if (r->layer == model_shape(r->model)->layers) return OK;
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
    enum status st = OK;
    struct block_reader *r = NULL;
    TRY(group_agree(g, mem_zero(&r, 1, sizeof *r, "block reader", e), e));
    r->model = m;
    r->group = g;
    r->ahead = ahead;
    r->layer = first;
    for (int i = 0; i <= r->ahead; i++)
        TRY(group_memory_open(g, model_block_floats(m), "weights of a block", &r->memory[i], e));
    if (ahead) TRY(group_agree(g, start(r, e), e));
    *out = r;
    r = NULL;
done:
    block_reader_close(r);
    return st;
}

enum status block_reader_next(struct block_reader *r, const struct block **out, struct err *e)
{
    enum status st = OK;
    double before = clock_seconds();
    if (!r->ahead) {
        /* All ranks have finished with the block whose buffer is reused. */
        PASS(group_agree(r->group, OK, e));
        PASS(group_agree(r->group, start(r, e), e));
    }
    finish(r);
    if (r->st != OK) st = err_set(e, r->st, __FILE__, __LINE__, "%s", r->err.text);
    PASS(group_agree(r->group, st, e));
    int i = place_of(r);
    group_memory_sync(r->group, &r->memory[i]);
    model_block_complete(&r->block[i]);
    *out = &r->block[i];
    double waited = clock_seconds() - before;
    log_trace("io", "block %lld: waited %.3f s for %.1f MB of f32 weights", (long long)r->layer,
              waited, (double)model_block_floats(r->model) * sizeof(float) / 1e6);
    r->layer++;
    r->seconds += waited;
    if (r->ahead) PASS(group_agree(r->group, start(r, e), e)); /* frees the block before */
    return group_agree(r->group, model_block_prepare(r->model, &r->block[i], e), e);
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
    free(r);
}
