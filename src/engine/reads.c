#include "engine/reads.h"
#include "records/saved.h"
#include "util/mem.h"

void reads_drop(struct reads *r, int64_t n)
{
    for (; r->n > n; r->n--) {
        struct read_folder *f = &r->all[r->n - 1];
        checkpoint_close(f->checkpoint);
        free(f->name);
        free(f->saved);
    }
}

void reads_close(struct reads *r)
{
    reads_drop(r, 0);
    free(r->all);
    json_decref(r->digests);
    *r = (struct reads){0};
}

enum status reads_open(struct reads *r, const char *model, const char *name, const char *path,
                       struct checkpoint **out, struct err *e)
{
    for (int64_t i = 0; i < r->n; i++)
        if (strcmp(checkpoint_dir(r->all[i].checkpoint), path) == 0) {
            *out = r->all[i].checkpoint;
            checkpoint_retain(*out);
            return OK;
        }
    PASS(mem_grow(&r->all, r->n, &r->capacity, sizeof *r->all, e));
    struct read_folder *f = &r->all[r->n];
    *f = (struct read_folder){0};
    PASS(checkpoint_open(path, &f->checkpoint, e));
    r->n++;
    checkpoint_retain(f->checkpoint);
    *out = f->checkpoint;
    const bool full = !model || strchr(name, '/');
    const enum status st =
        full ? mem_string(&f->name, name, e) : mem_format(&f->name, e, "%s/%s", model, name);
    if (st != OK) checkpoint_close(*out);
    return st;
}

/* --- what all ranks have read --- */

/* x (n) = the largest of all ranks. */
static enum status largest(uint64_t *x, int64_t n, const struct visit_group *g, struct err *e)
{
    enum { MOST = 1 << 24 };
    for (int64_t at = 0; g->size > 1 && at < n; at += MOST)
        NEED(MPI_Allreduce(MPI_IN_PLACE, x + at, (int)(n - at < MOST ? n - at : MOST), MPI_UINT64_T,
                           MPI_MAX, g->comm) == MPI_SUCCESS,
             ERR_MPI, "cannot compare the digests of weights");
    return OK;
}

/* Whether all ranks have opened the same: of a number and its complement the largest sum to all
 * ones. */
static enum status check_same(const struct read_folder *f, const struct visit_group *g,
                              struct err *e)
{
    const char *hash = checkpoint_hash(f->checkpoint);
    const uint64_t own = hash_u64(hash, strlen(hash));
    uint64_t both[2] = {own, ~own};
    PASS(largest(both, 2, g, e));
    NEED(both[0] == ~both[1], ERR_CHANGED,
         "%s: was changed while it was read: the ranks of the group have opened different files",
         checkpoint_dir(f->checkpoint));
    return OK;
}

/* Gives every rank the digests that any has; *known: how many. */
static enum status share(const struct read_folder *f, const struct visit_group *g, int64_t *known,
                         struct err *e)
{
    enum status st = OK;
    struct digests *d = checkpoint_digests(f->checkpoint);
    const int64_t n = digests_n(d);
    AUTO_FREE struct digest *all = NULL;
    bool same = true;
    *known = 0;
    PASS(group_agree(g, mem_alloc(&all, n, sizeof *all, "digests of weights", e), e));
    for (int64_t i = 0; i < n; i++) all[i] = digests_get(d, i);
    PASS(largest(all->half, 2 * n, g, e));
    for (int64_t i = 0; i < n; i++) {
        same = digests_add(d, i, all[i]) && same;
        *known += digest_known(all[i]);
    }
    if (!same)
        st = err_set(e, ERR_CHANGED, __FILE__, __LINE__,
                     "%s: was changed while it was read: the ranks of the group have read "
                     "different bytes",
                     checkpoint_dir(f->checkpoint));
    return group_agree(g, st, e);
}

/* Compares the files with what they were. What any rank finds changed is read again, once: each
 * rank reads a share, after all have the digests that any has. */
static enum status verify(const struct read_folder *f, const struct visit_group *g, struct err *e)
{
    const int64_t n = checkpoint_n_files(f->checkpoint);
    AUTO_FREE bool *changed = NULL;
    bool any = false;
    PASS(group_agree(g, mem_alloc(&changed, n, sizeof *changed, "weight files", e), e));
    PASS(group_agree(g, checkpoint_look(f->checkpoint, changed, e), e));
    for (int64_t i = 0; i < n; i++) any = any || changed[i];
    if (!group_max(g, any)) return OK;
    for (int64_t i = 0; i < n; i++) changed[i] = group_max(g, changed[i]);
    return group_agree(g, checkpoint_compare(f->checkpoint, changed, g->rank, g->size, e), e);
}

/* Reads this rank's share of the slices that no rank has read. Local. */
static enum status read_rest(const struct read_folder *f, const struct visit_group *g,
                             struct err *e)
{
    struct digests *d = checkpoint_digests(f->checkpoint);
    const int64_t n = digests_n(d);
    int64_t count = 0;
    AUTO_FREE bool *wanted = NULL;
    PASS(mem_alloc(&wanted, n, sizeof *wanted, "slices of weights", e));
    for (int64_t i = 0; i < n; i++)
        wanted[i] = !digest_known(digests_get(d, i)) && count++ % g->size == g->rank;
    return checkpoint_read_slices(f->checkpoint, wanted, e);
}

/* *read: whether any rank has read anything of it; then f->whole. */
static enum status finish_read(struct read_folder *f, const struct visit_group *g, bool *read,
                               struct err *e)
{
    const int64_t n = digests_n(checkpoint_digests(f->checkpoint));
    int64_t known = n;
    PASS(check_same(f, g, e));
    if (!f->whole) PASS(share(f, g, &known, e));
    PASS(verify(f, g, e));
    *read = known > 0;
    if (f->whole || known == 0) return OK;
    if (known < n) {
        PASS(group_agree(g, read_rest(f, g, e), e));
        PASS(share(f, g, &known, e));
    }
    f->whole = true;
    return OK;
}

enum status reads_finish(struct reads *r, const struct visit_group *g, struct err *e)
{
    char hash[HASH_HEX];
    json_t *digests = json_object();
    enum status st = OK;
    for (int64_t i = 0; st == OK && i < r->n; i++) {
        bool read;
        st = finish_read(&r->all[i], g, &read, e);
        if (st != OK || !read) continue;
        checkpoint_whole(r->all[i].checkpoint, hash);
        json_object_set_new(digests, r->all[i].name, json_string(hash));
    }
    json_decref(r->digests); /* records may have it too */
    r->digests = st == OK ? digests : NULL;
    if (st != OK) json_decref(digests);
    return st;
}

/* --- saved states --- */

/* Moves one digest for each slice of f, NULL: of a folder that is not among them (any more). */
static void move_digests(struct read_folder *f, int64_t n, struct saved_move *m)
{
    struct err why = {0};
    const bool loads = saved_loads(m);
    struct digests *d = f ? checkpoint_digests(f->checkpoint) : NULL;
    if (loads && f) free(f->saved);
    if (loads && f && mem_alloc(&f->saved, n, sizeof *f->saved, "digests of weights", &why) != OK)
        saved_fail(m, &why);
    for (int64_t i = 0; i < n; i++) {
        struct digest one = d && !loads ? digests_get(d, i) : (struct digest){0};
        saved_bytes(m, &one, sizeof one);
        if (loads && f && f->saved) f->saved[i] = one;
    }
}

static struct read_folder *find(struct reads *r, const char *name, int64_t n)
{
    for (int64_t i = 0; name && i < r->n; i++)
        if (strcmp(r->all[i].name, name) == 0 &&
            digests_n(checkpoint_digests(r->all[i].checkpoint)) == n)
            return &r->all[i];
    return NULL;
}

void reads_move(void *reads, struct saved_move *m)
{
    struct reads *r = reads;
    int64_t count = r->n;
    saved_bytes(m, &count, sizeof count);
    for (int64_t i = 0; i < count; i++) {
        const bool loads = saved_loads(m);
        char *name = loads ? NULL : r->all[i].name;
        int64_t n = loads ? 0 : digests_n(checkpoint_digests(r->all[i].checkpoint));
        saved_text(m, &name);
        saved_bytes(m, &n, sizeof n);
        move_digests(find(r, name, n), n, m);
        if (loads) free(name);
    }
}

/* Reads this rank's share of what the state has of f; *same: it has the same bytes. Local. */
static enum status compare(const struct read_folder *f, const struct visit_group *g, bool *same,
                           struct err *e)
{
    struct digests *d = checkpoint_digests(f->checkpoint);
    const int64_t n = digests_n(d);
    AUTO_FREE bool *wanted = NULL;
    PASS(mem_zero(&wanted, n, sizeof *wanted, "slices of weights", e));
    for (int64_t i = g->rank; i < n; i += g->size)
        wanted[i] = digest_known(f->saved[i]) && !digest_known(digests_get(d, i));
    PASS(checkpoint_read_slices(f->checkpoint, wanted, e));
    for (int64_t i = g->rank; *same && i < n; i += g->size) *same = digests_add(d, i, f->saved[i]);
    return OK;
}

bool reads_continue(struct reads *r, const struct visit_group *g)
{
    bool same = true;
    for (int64_t i = 0; i < r->n; i++) {
        struct read_folder *f = &r->all[i];
        const int64_t n = digests_n(checkpoint_digests(f->checkpoint));
        if (!group_max(g, f->saved != NULL)) continue;
        /* Each rank's state has what that rank had read. */
        const bool all = !group_max(g, f->saved == NULL);
        same = same && all;
        if (all) same = largest(f->saved->half, 2 * n, g, NULL) == OK && same;
        if (same) same = compare(f, g, &same, NULL) == OK && same;
        free(f->saved);
        f->saved = NULL;
    }
    return !group_max(g, !same);
}
