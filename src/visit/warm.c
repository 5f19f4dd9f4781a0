#include "visit/warm.h"
#include "util/agree.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* chain = digest of what it was ("" at the start) and the weights at path. */
static enum status chain_on(const char *path, char chain[HASH_HEX], struct err *e)
{
    enum status st = OK;
    struct checkpoint *c = NULL;
    char text[2 * HASH_HEX];
    TRY(checkpoint_open(path, &c, e));
    snprintf(text, sizeof text, "%s %s", chain, checkpoint_hash(c));
    hash_text(text, chain);
done:
    checkpoint_close(c);
    return st;
}

enum status warm_chain(const char *const *paths, int64_t n, char out[HASH_HEX], struct err *e)
{
    enum status st = OK;
    out[0] = '\0';
    for (int64_t i = 0; i < n; i++) TRY(chain_on(paths[i], out, e));
done:
    return st;
}

enum status warm_open(struct warm *w, const struct curvature_task *task, const char *path,
                      const char *fingerprint, struct err *e)
{
    enum status st = OK;
    int64_t n = task->n_before;
    *w = (struct warm){.task = task, .path = path, .fingerprint = fingerprint};
    TRY(mem_zero(&w->chain, n + 1, sizeof *w->chain, "digests of checkpoints", e));
    for (int64_t i = 0; i <= n; i++) {
        if (i > 0) memcpy(w->chain[i], w->chain[i - 1], HASH_HEX);
        st = chain_on(i < n ? task->before[i].path : path, w->chain[i], e);
        if (st != OK) err_prefix(e, "warm start");
        TRY(st);
    }
done:
    return st;
}

void warm_close(struct warm *w)
{
    free(w->chain);
    *w = (struct warm){0};
}

/* The file of the i-th vector; the caller frees. */
static enum status file_of(const struct warm *w, int64_t i, char **path, struct err *e)
{
    enum status st = OK;
    char *identity = NULL, name[HASH_HEX];
    const struct curvature_task *t = w->task;
    TRY(mem_format(&identity, e, "%s %s %s", i < t->n_before ? t->before[i].key : t->key,
                   w->chain[i], w->fingerprint));
    hash_text(identity, name);
    TRY(mem_format(path, e, "%s/%s", t->vectors, name));
done:
    free(identity);
    return st;
}

/* On rank 0: the i-th vector if there is a file of it; NULL, and no error, if not. */
static enum status load(const struct warm *w, int64_t i, int64_t n, float **out, struct err *e)
{
    enum status st = OK;
    char *path = NULL, *data = NULL;
    size_t size = 0;
    TRY(file_of(w, i, &path, e));
    if (fsx_is_file(path) && fsx_read(path, 0, &data, &size, NULL) == OK &&
        size == (size_t)n * sizeof(float)) {
        *out = (float *)(void *)data;
        data = NULL;
    }
done:
    free(path);
    free(data);
    return st;
}

static enum status keep(const struct warm *w, int64_t i, const float *vector, int64_t n,
                        struct err *e)
{
    enum status st = OK;
    char *path = NULL, *before = NULL;
    TRY(file_of(w, i, &path, e));
    if (i < w->task->n_before || w->task->followed) {
        TRY(fsx_make_parent(path, e));
        TRY(fsx_write_atomic(path, vector, (size_t)n * sizeof *vector, e));
    }
    if (i > 0) {
        TRY(file_of(w, i - 1, &before, e));
        (void)unlink(before);
    }
    if (i == w->task->n_before && !w->task->followed) (void)rmdir(w->task->vectors);
done:
    free(path);
    free(before);
    return st;
}

enum status warm_keep(const struct warm *w, const float *vector, int64_t n, struct err *e)
{
    return keep(w, w->task->n_before, vector, n, e);
}

/* The last vector of the chain that has a file, on all ranks, and its place; -1: none has. */
static enum status find(const struct warm *w, const struct measurement *m, int64_t *place,
                        float **vector, struct err *e)
{
    enum status st = OK;
    int64_t n = m->subject.hessian.n, i = w->task->n_before - 1;
    if (m->rank == 0)
        for (; st == OK && i >= 0; i--) {
            st = load(w, i, n, vector, e);
            if (*vector) break;
        }
    TRY(err_agree(m->group, st, e));
    MPI_Bcast(&i, 1, MPI_INT64_T, 0, m->group);
    *place = i;
    if (i < 0) goto done;
    if (!*vector) st = mem_alloc(vector, n, sizeof(float), "the vector of a warm start", e);
    TRY(err_agree(m->group, st, e));
    measurement_give_out(m, *vector);
done:
    return st;
}

/* The i-th checkpoint's vector, from that of the one before it (NULL: none). */
static enum status compute(const struct warm *w, int64_t i, const struct measurement *like,
                           const float *start, float **vector, struct err *e)
{
    enum status st = OK;
    struct checkpoint *checkpoint = NULL;
    struct model *model = NULL;
    struct measurement m = {
        .sequences = like->sequences, .group = like->group, .hooks = like->hooks};
    struct curvature c = {0};
    struct curvature_request request = {.options = w->task->options,
                                        .seed = (uint64_t)w->task->seed,
                                        .start = start,
                                        .keep_vector = true};
    request.options.trace = request.options.density = 0;
    st = checkpoint_open(w->task->before[i].path, &checkpoint, e);
    if (st == OK) st = model_open(checkpoint, &model, e);
    TRY(err_agree(like->group, st, e));
    m.model = model;
    TRY(measurement_open(&m, (enum hvp_subset)request.options.subset, e));
    ENSURE(m.subject.hessian.n == like->subject.hessian.n, ERR_SHAPE,
           "warm start: %s has %lld parameters, %s %lld", w->task->before[i].path,
           (long long)m.subject.hessian.n, w->path, (long long)like->subject.hessian.n);
    TRY(measurement_run(&m, &request, &c, e));
    st = m.rank == 0 ? keep(w, i, c.vector, m.subject.hessian.n, e) : OK;
    TRY(err_agree(like->group, st, e));
    *vector = c.vector;
    c.vector = NULL;
done:
    curvature_free(&c);
    measurement_close(&m);
    model_close(model);
    checkpoint_close(checkpoint);
    return st;
}

enum status warm_start(const struct warm *w, const struct measurement *m, float **start,
                       struct err *e)
{
    enum status st = OK;
    float *vector = NULL, *next;
    int64_t place;
    *start = NULL;
    TRY(find(w, m, &place, &vector, e));
    for (int64_t i = place + 1; i < w->task->n_before; i++) {
        TRY(compute(w, i, m, vector, &next, e));
        free(vector);
        vector = next;
    }
    *start = vector;
    vector = NULL;
done:
    free(vector);
    return st;
}
