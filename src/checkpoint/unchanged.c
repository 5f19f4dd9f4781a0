/* Whether the files of a checkpoint stay as they are while it is read. */
#include "checkpoint/checkpoint_internal.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

struct digests *checkpoint_digests(const struct checkpoint *c)
{
    return c->digests;
}

int64_t checkpoint_n_files(const struct checkpoint *c)
{
    return c->n_files;
}

static enum status read_slices(const struct safetensors *f, const bool *wanted, struct err *e)
{
    for (int64_t k = 0; k < f->n; k++) {
        const struct tensor_entry *t = &f->entries[k];
        for (int64_t i = 0; i < tensor_slices(t); i++)
            if (wanted[t->slice + i]) PASS(safetensors_read_slice(f, t, i, e));
    }
    return OK;
}

enum status checkpoint_read_slices(const struct checkpoint *c, const bool *wanted, struct err *e)
{
    for (int64_t i = 0; i < c->n_files; i++) PASS(read_slices(&c->files[i], wanted, e));
    return OK;
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

/* Compares the wanted slices of file f with those of what is at its path. If they are the same, the
 * path's file takes its place. */
static enum status compare_again(const struct checkpoint *c, struct safetensors *f,
                                 const bool *wanted, struct err *e)
{
    CLEANUP(safetensors_close) struct safetensors again = {.fd = -1};
    PASS(c->format->open(f->path, &again, e));
    PASS(hash_expect(f->path, "the visit began", f->hash, again.hash, e));
    NEED(same_tensors(f, &again), ERR_FORMAT, "it has other tensors");
    again.digests = c->digests;
    for (int64_t k = 0; k < again.n; k++) again.entries[k].slice = f->entries[k].slice;
    PASS(read_slices(&again, wanted, e));
    NEED(dup2(again.fd, f->fd) == f->fd, ERR_IO, "%s: %s", f->path, strerror(errno));
    f->opened = again.opened;
    return OK;
}

enum status checkpoint_look(struct checkpoint *c, bool *changed, struct err *e)
{
    for (int i = 0; i < 2; i++) PASS(check_text(&c->texts[i], e));
    for (int64_t i = 0; i < c->n_files; i++) {
        const struct safetensors *f = &c->files[i];
        struct stat open, now;
        bool gone;
        NEED(fstat(f->fd, &open) == 0, ERR_IO, "%s: %s", f->path, strerror(errno));
        PASS(look(f->path, &now, &gone, e));
        changed[i] = gone ? !same_data(&open, &f->opened) : !same_file(&now, &f->opened);
    }
    return OK;
}

enum status checkpoint_compare(struct checkpoint *c, const bool *changed, int64_t turn, int64_t of,
                               struct err *e)
{
    const int64_t n = digests_n(c->digests);
    AUTO_FREE bool *wanted = NULL;
    PASS(mem_alloc(&wanted, n, sizeof *wanted, "slices of weights", e));
    for (int64_t i = 0; i < n; i++)
        wanted[i] = i % of == turn && digest_known(digests_get(c->digests, i));
    for (int64_t i = 0; i < c->n_files; i++) {
        struct err own = {0};
        enum status st = changed[i] ? compare_again(c, &c->files[i], wanted, &own) : OK;
        NEED(st != ERR_FORMAT && st != ERR_IO, ERR_CHANGED,
             "%s: was changed while it was read (%s)", c->files[i].path, own.text);
        NEED(st == OK, st, "%s", own.text);
    }
    return OK;
}

enum status checkpoint_verify(struct checkpoint *c, struct err *e)
{
    AUTO_FREE bool *changed = NULL;
    for (int64_t i = 0; i < c->n_parts; i++)
        PASS(checkpoint_verify((struct checkpoint *)(uintptr_t)c->parts[i].checkpoint, e));
    if (!c->digests) return OK; /* an overlay is qtraj's own file */
    PASS(mem_alloc(&changed, c->n_files, sizeof *changed, "weight files", e));
    PASS(checkpoint_look(c, changed, e));
    return checkpoint_compare(c, changed, 0, 1, e);
}
