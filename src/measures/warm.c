#include "measures/warm.h"
#include "util/mem.h"
#include <unistd.h>

/* chain = digest of the old chain ("" at the start) and the weights. */
static enum status chain_on(const struct weights *w, char chain[HASH_HEX], struct err *e)
{
    char text[2 * HASH_HEX], hash[HASH_HEX];
    PASS(weights_hash(w, hash, e));
    snprintf(text, sizeof text, "%s %s", chain, hash);
    hash_text(text, chain);
    return OK;
}

enum status warm_chain(const struct weights *const *of, int64_t n, char out[HASH_HEX],
                       struct err *e)
{
    out[0] = '\0';
    for (int64_t i = 0; i < n; i++) PASS(chain_on(of[i], out, e));
    return OK;
}

enum status warm_open(struct warm *w, const struct curvature_setup *setup,
                      const struct visit *visit, const char *fingerprint, struct err *e)
{
    enum status st = OK;
    int64_t n = setup->n_before;
    const struct weights *weights = &visit->weights;
    *w = (struct warm){.setup = setup,
                       .weights = weights,
                       .key = visit->record_key[MEASURE_curvature],
                       .fingerprint = fingerprint};
    PASS(mem_zero(&w->chain, n + 1, sizeof *w->chain, "digests of checkpoints", e));
    for (int64_t i = 0; i <= n; i++) {
        if (i > 0) memcpy(w->chain[i], w->chain[i - 1], HASH_HEX);
        st = chain_on(i < n ? &setup->before[i].weights : weights, w->chain[i], e);
        if (st != OK) err_prefix(e, "warm start");
        PASS(st);
    }
    return OK;
}

void warm_close(struct warm *w)
{
    free(w->chain);
    *w = (struct warm){0};
}

/* *path (the caller frees) = the file of the i-th vector. */
static enum status file_of(const struct warm *w, int64_t i, char **path, struct err *e)
{
    AUTO_FREE char *identity = NULL;
    char name[HASH_HEX];
    const struct curvature_setup *t = w->setup;
    PASS(mem_format(&identity, e, "%s %s %s", i < t->n_before ? t->before[i].key : w->key,
                    w->chain[i], w->fingerprint));
    hash_text(identity, name);
    return mem_format(path, e, "%s/%s", t->vectors, name);
}

enum status warm_keep(const struct warm *w, int64_t i, struct measurement *m, const float *vector,
                      struct err *e)
{
    AUTO_FREE char *path = NULL, *before = NULL;
    enum status st = file_of(w, i, &path, e);
    if (st == OK && i > 0) st = file_of(w, i - 1, &before, e);
    PASS(group_agree(m->group, st, e));
    if (i < w->setup->n_before || w->setup->followed)
        PASS(measurement_vector_write(m, path, vector, e));
    if (m->rank != 0) return OK;
    if (before) (void)unlink(before);
    if (i == w->setup->n_before && !w->setup->followed) (void)rmdir(w->setup->vectors);
    return OK;
}

/* Reads the last vector of the chain that has a file; *place: its index, -1: none. */
static enum status find(const struct warm *w, struct measurement *m, int64_t *place, float **vector,
                        struct err *e)
{
    AUTO_FREE float *mine = NULL;
    AUTO_FREE char *path = NULL;
    bool found = false;
    int64_t i;
    enum status st =
        mem_alloc(&mine, hvp_space(m->h)->n, sizeof *mine, "the vector of a warm start", e);
    PASS(group_agree(m->group, st, e));
    for (i = w->setup->n_before - 1; i >= 0; i--) {
        PASS(group_agree(m->group, file_of(w, i, &path, e), e));
        found = measurement_vector_read(m, path, mine);
        free(path);
        path = NULL;
        if (found) break;
    }
    *place = i;
    if (found) *vector = TAKE(mine);
    return OK;
}

/* Computes the i-th checkpoint's vector, starting from the previous one's (NULL: none). */
static enum status compute(const struct warm *w, int64_t i, struct measurement *like,
                           const float *start, float **vector, struct err *e)
{
    enum status st = OK;
    CLEANUP(checkpoint_close_at) struct checkpoint *checkpoint = NULL;
    CLEANUP(model_close_at) struct model *model = NULL;
    CLEANUP(measurement_close)
    struct measurement m = {
        .sequences = like->sequences, .group = like->group, .hooks = like->hooks};
    CLEANUP(curvature_free) struct curvature c = {0};
    struct curvature_request request = {.options = w->setup->options,
                                        .seed = (uint64_t)w->setup->seed,
                                        .start = start,
                                        .keep_vector = true};
    request.options.trace = request.options.density = 0;
    st = weights_open(&w->setup->before[i].weights, NULL, &checkpoint, e);
    if (st == OK) st = model_open(checkpoint, &model, e);
    PASS(group_agree(like->group, st, e));
    model_set_products(model, model_products(like->model));
    m.model = model;
    PASS(measurement_open(&m, (enum hvp_subset)request.options.subset, e));
    NEED(hvp_n(m.h) == hvp_n(like->h), ERR_SHAPE, "warm start: %s has %lld parameters, %s %lld",
         weights_folder(&w->setup->before[i].weights), (long long)hvp_n(m.h),
         weights_folder(w->weights), (long long)hvp_n(like->h));
    st = measurement_run(&m, &request, &c, e);
    if (st == OK) st = group_agree(like->group, checkpoint_verify(checkpoint, e), e);
    if (st != OK) {
        err_prefix(e, "warm start: %s", weights_folder(&w->setup->before[i].weights));
        return st;
    }
    PASS(warm_keep(w, i, &m, c.vector, e));
    *vector = c.vector;
    c.vector = NULL;
    return st;
}

enum status warm_start(const struct warm *w, struct measurement *m, float **start, struct err *e)
{
    AUTO_FREE float *vector = NULL;
    float *next;
    int64_t place;
    *start = NULL;
    PASS(find(w, m, &place, &vector, e));
    for (int64_t i = place + 1; i < w->setup->n_before; i++) {
        PASS(compute(w, i, m, vector, &next, e));
        free(vector);
        vector = next;
    }
    *start = TAKE(vector);
    return OK;
}
