/* Chunks of a file of tokens, in the order of the seed. */
#include "train/corpus.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/rng.h"
#include <errno.h>
#include <unistd.h>

static const uint64_t orders = (uint64_t)1 << 32; /* streams: epochs, far from initial weights' */

struct corpus {
    char *path;
    int fd; /* int32: ids; ~id where it is no text */
    int64_t n, length, held_out, train;
    uint64_t seed;
    bool before, mask;
    uint32_t *chunk; // (held_out + train) held out, then those of epoch 0 in their order
    uint32_t *order; // (train) of the epoch
    int64_t epoch;
    int64_t room;
    int32_t *tokens, *document; // (room)
};

/* Fisher and Yates. */
static void shuffle(uint32_t *x, int64_t n, uint64_t stream)
{
    for (int64_t i = n - 1; i > 0; i--) {
        const uint64_t j = rng_bits(stream, (uint64_t)i) % (uint64_t)(i + 1);
        const uint32_t other = x[j];
        x[j] = x[i];
        x[i] = other;
    }
}

static void enter_epoch(struct corpus *c, int64_t epoch)
{
    if (epoch == c->epoch) return;
    memcpy(c->order, c->chunk + c->held_out, (size_t)c->train * sizeof *c->order);
    if (epoch > 0) shuffle(c->order, c->train, rng_stream(c->seed, orders + (uint64_t)epoch));
    c->epoch = epoch;
}

static int64_t chunks_held_out(const struct corpus_options *o, int64_t length)
{
    return (o->validation + length) / (length + 1);
}

int64_t corpus_least(const struct corpus_options *o, int64_t length)
{
    return (chunks_held_out(o, length) + 1) * (length + 1);
}

enum status corpus_divide(const struct corpus_options *o, int64_t tokens, int64_t length,
                          int64_t *held_out, struct err *e)
{
    const int64_t chunks = tokens / (length + 1);
    *held_out = chunks_held_out(o, length);
    NEED(chunks > *held_out, ERR_USAGE,
         "data: %lld tokens are %lld sequences of %lld and one more, of which %lld are held out "
         "(data.validation): none is left to train on",
         (long long)tokens, (long long)chunks, (long long)length, (long long)*held_out);
    return OK;
}

enum status corpus_open(const struct corpus_options *o, const char *path, int64_t length,
                        struct corpus **out, struct err *e)
{
    CLEANUP(corpus_close_at) struct corpus *c = NULL;
    PASS(mem_zero(&c, 1, sizeof *c, "tokens to train on", e));
    *c = (struct corpus){.fd = -1,
                         .length = length,
                         .seed = (uint64_t)o->seed,
                         .before = o->before,
                         .mask = o->document_mask,
                         .epoch = -1};
    int64_t size;
    PASS(mem_string(&c->path, path, e));
    PASS(fsx_open(path, &c->fd, &size, e));
    c->n = size / (int64_t)sizeof(int32_t);
    const int64_t chunks = c->n / (length + 1);
    PASS(corpus_divide(o, c->n, length, &c->held_out, e));
    c->train = chunks - c->held_out;
    NEED(chunks <= UINT32_MAX, ERR_USAGE, "data: more than 2^32 sequences");
    PASS(mem_alloc(&c->chunk, chunks, sizeof *c->chunk, "the order of the data", e));
    PASS(mem_alloc(&c->order, c->train, sizeof *c->order, "the order of the data", e));
    for (int64_t i = 0; i < chunks; i++) c->chunk[i] = (uint32_t)i;
    shuffle(c->chunk, chunks, rng_stream(c->seed, orders));
    *out = TAKE(c);
    return OK;
}

void corpus_close(struct corpus *c)
{
    if (!c) return;
    if (c->fd >= 0) close(c->fd);
    free(c->path);
    free(c->chunk);
    free(c->order);
    free(c->tokens);
    free(c->document);
    free(c);
}

int64_t corpus_chunks(const struct corpus *c)
{
    return c->train;
}

int64_t corpus_held_out(const struct corpus *c)
{
    return c->held_out;
}

/* One chunk; document: NULL: not wanted. */
static enum status read_chunk(const struct corpus *c, int64_t chunk, int32_t *tokens,
                              int32_t *document, struct err *e)
{
    const size_t bytes = (size_t)(c->length + 1) * sizeof *tokens;
    const ssize_t got = fsx_pread(c->fd, tokens, bytes, chunk * (int64_t)bytes);
    NEED(got >= 0, ERR_IO, "%s: %s", c->path, strerror(errno));
    NEED((size_t)got == bytes, ERR_FORMAT,
         "%s: it has become shorter; remove it, and the text is tokenized again", c->path);
    int32_t before = 0;
    for (int64_t i = 0; i <= c->length; i++) {
        const int32_t id = tokens[i];
        const bool begins = i > 0 && before < 0 && (!c->before || id < 0);
        if (document) document[i] = i > 0 ? document[i - 1] + begins : 0;
        tokens[i] = id < 0 ? ~id : id;
        before = id;
    }
    return OK;
}

enum status corpus_take(struct corpus *c, bool held_out, int64_t first, int64_t n,
                        struct train_tokens *out, struct err *e)
{
    const int64_t each = c->length + 1;
    if (n * each > c->room) {
        free(c->tokens);
        free(c->document);
        c->tokens = c->document = NULL;
        c->room = 0;
        PASS(mem_alloc(&c->tokens, n * each, sizeof *c->tokens, "a batch", e));
        if (c->mask) PASS(mem_alloc(&c->document, n * each, sizeof *c->document, "a batch", e));
        c->room = n * each;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t chunk = c->chunk[held_out ? first + i : 0];
        if (!held_out) {
            enter_epoch(c, (first + i) / c->train);
            chunk = c->order[(first + i) % c->train];
        }
        PASS(
            read_chunk(c, chunk, c->tokens + i * each, c->mask ? c->document + i * each : NULL, e));
    }
    *out = (struct train_tokens){
        .n = n, .length = c->length, .tokens = c->tokens, .document = c->document};
    return OK;
}
