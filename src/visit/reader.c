/* The weights of the next block are read and widened by a thread while the current block computes.
 */
#include "util/clock.h"
#include "util/mem.h"
#include "visit/internal.h"
#include <pthread.h>
#include <stdlib.h>

struct block_reader {
    const struct model *model;
    int64_t layer; /* the one in block[layer & 1], or being read into it */
    struct block block[2];
    pthread_t thread;
    bool running;
    enum status st;
    struct err err;
    double seconds;
};

static void *read_block(void *argument)
{
    struct block_reader *r = argument;
    r->st = model_block_load(r->model, r->layer, &r->block[r->layer & 1], &r->err);
    return NULL;
}

static enum status start(struct block_reader *r, struct err *e)
{
    enum status st = OK;
    model_block_free(&r->block[r->layer & 1]);
    r->block[r->layer & 1] = (struct block){0};
    if (r->layer == model_shape(r->model)->layers) return OK;
    ENSURE(pthread_create(&r->thread, NULL, read_block, r) == 0, ERR_NOMEM,
           "cannot start a reading thread");
    r->running = true;
done:
    return st;
}

static void finish(struct block_reader *r)
{
    if (!r->running) return;
    double before = clock_seconds();
    pthread_join(r->thread, NULL);
    r->running = false;
    r->seconds += clock_seconds() - before;
}

enum status block_reader_open(const struct model *m, struct block_reader **out, struct err *e)
{
    enum status st = OK;
    struct block_reader *r = NULL;
    TRY(mem_zero(&r, 1, sizeof *r, "block reader", e));
    r->model = m;
    TRY(start(r, e));
    *out = r;
    r = NULL;
done:
    block_reader_close(r);
    return st;
}

enum status block_reader_next(struct block_reader *r, const struct block **out, struct err *e)
{
    enum status st = OK;
    finish(r);
    if (r->st != OK) FAIL(r->st, "%s", r->err.text);
    *out = &r->block[r->layer & 1];
    r->layer++;
    TRY(start(r, e));
done:
    return st;
}

double block_reader_seconds(const struct block_reader *r)
{
    return r->seconds;
}

void block_reader_close(struct block_reader *r)
{
    if (!r) return;
    finish(r);
    model_block_free(&r->block[0]);
    model_block_free(&r->block[1]);
    free(r);
}
