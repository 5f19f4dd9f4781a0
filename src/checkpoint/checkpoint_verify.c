/* Whether the files of a checkpoint stay as they are while it is read. */
#include "checkpoint/checkpoint_internal.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct digests *checkpoint_digests(const struct checkpoint *c)
{
    return c->digests;
}

/* Reads those of the files' slices, see checkpoint_read_slices. Entries of the files are numbered
 * as those of c. */
static enum status read_slices(const struct checkpoint *c, const struct safetensors *f, bool known,
                               int64_t turn, int64_t of, int64_t *count, struct err *e)
{
    for (int64_t k = 0; k < f->n; k++) {
        const struct tensor_entry *t = &f->entries[k];
        for (int64_t i = 0; i < tensor_slices(t); i++)
            if (digest_known(digests_get(c->digests, t->slice + i)) == known &&
                (*count)++ % of == turn)
                PASS(safetensors_read_slice(f, t, i, e));
    }
    return OK;
}

enum status checkpoint_read_slices(const struct checkpoint *c, bool known, int64_t turn, int64_t of,
                                   struct err *e)
{
    int64_t count = 0;
    for (int64_t i = 0; i < c->n_files; i++)
        PASS(read_slices(c, &c->files[i], known, turn, of, &count, e));
    return OK;
}

enum status checkpoint_read_slice(const struct checkpoint *c, int64_t i, struct err *e)
{
    for (int64_t f = 0; f < c->n_files; f++)
        for (int64_t k = 0; k < c->files[f].n; k++) {
            const struct tensor_entry *t = &c->files[f].entries[k];
            if (i >= t->slice && i < t->slice + tensor_slices(t))
                return safetensors_read_slice(&c->files[f], t, i - t->slice, e);
        }
    RAISE(ERR_SHAPE, "%s: no slice %lld", c->dir, (long long)i);
}

void checkpoint_whole(const struct checkpoint *c, char hash[HASH_HEX])
{
    char slices[HASH_HEX], both[2 * HASH_HEX];
    digests_hash(c->digests, slices);
    snprintf(both, sizeof both, "%s %s", c->hash, slices);
    hash_text(both, hash);
}

/* --- files --- */

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool same_data(const struct stat *a, const struct stat *b)
{
    return a->st_size == b->st_size && same_time(a->st_mtim, b->st_mtim);
}

/* Who puts the time of the data back cannot put back that of the inode. */
static bool same_file(const struct stat *a, const struct stat *b)
{
    return same_data(a, b) && a->st_ino == b->st_ino && same_time(a->st_ctim, b->st_ctim);
}

/* Opens the path anew, which shows what other machines have written. *gone: there is no file. */
static enum status look(const char *path, struct stat *now, bool *gone, struct err *e)
{
    int fd = fsx_open_as(path, O_RDONLY);
    *gone = fd < 0 && errno == ENOENT;
    if (*gone) return OK;
    NEED(fd >= 0, ERR_IO, "%s: %s", path, strerror(errno));
    const int failed = fstat(fd, now);
    close(fd);
    NEED(!failed, ERR_IO, "%s: %s", path, strerror(errno));
    return OK;
}

static enum status check_text(struct checkpoint_text *t, struct err *e)
{
    bool gone;
    char now[HASH_HEX];
    struct stat at;
    if (!t->path) return OK;
    PASS(look(t->path, &at, &gone, e));
    if (gone || same_file(&at, &t->opened)) return OK;
    PASS(hash_file(t->path, now, e));
    t->opened = at;
    return hash_expect(t->path, "the visit began", t->hash, now, e);
}

/* Both number their slices alike. The samples of a damaged .bin may hide that it has others. */
static bool same_tensors(const struct safetensors *a, const struct safetensors *b)
{
    bool same = a->n == b->n;
    for (int64_t k = 0; same && k < a->n; k++)
        same = a->entries[k].n_elements == b->entries[k].n_elements;
    return same;
}

/* Compares what was read of file f with what is at its path. If that is the same, the path's file
 * takes its place. */
static enum status compare_again(const struct checkpoint *c, struct safetensors *f, struct err *e)
{
    enum status st = OK;
    struct safetensors again = {.fd = -1};
    int64_t count = 0;
    TRY(checkpoint_open_file(c, f->path, &again, e));
    TRY(hash_expect(f->path, "the visit began", f->hash, again.hash, e));
    ENSURE(same_tensors(f, &again), ERR_FORMAT, "it has other tensors");
    again.digests = c->digests;
    for (int64_t k = 0; k < again.n; k++) again.entries[k].slice = f->entries[k].slice;
    TRY(read_slices(c, &again, true, 0, 1, &count, e));
    ENSURE(dup2(again.fd, f->fd) == f->fd, ERR_IO, "%s: %s", f->path, strerror(errno));
    f->opened = again.opened;
done:
    safetensors_close(&again);
    return st;
}

static enum status check_file(const struct checkpoint *c, struct safetensors *f, struct err *e)
{
    struct stat open, now;
    bool gone;
    NEED(fstat(f->fd, &open) == 0, ERR_IO, "%s: %s", f->path, strerror(errno));
    PASS(look(f->path, &now, &gone, e));
    if (gone ? same_data(&open, &f->opened) : same_file(&now, &f->opened)) return OK;
    struct err own = {0};
    const enum status st = compare_again(c, f, &own);
    if (st == ERR_FORMAT || st == ERR_IO)
        RAISE(ERR_CHANGED, "%s: was changed while it was read (%s)", f->path, own.text);
    NEED(st == OK, st, "%s", own.text);
    return OK;
}

enum status checkpoint_verify(struct checkpoint *c, struct err *e)
{
    for (int64_t i = 0; i < c->n_parts; i++)
        PASS(checkpoint_verify((struct checkpoint *)(uintptr_t)c->parts[i].checkpoint, e));
    if (!c->digests) return OK; /* an overlay is qtraj's own file */
    for (int i = 0; i < 2; i++) PASS(check_text(&c->texts[i], e));
    for (int64_t i = 0; i < c->n_files; i++) PASS(check_file(c, &c->files[i], e));
    return OK;
}
