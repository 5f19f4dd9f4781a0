#include "records/saved_internal.h"
#include "util/agree.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include <dirent.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SLOTS = 2 }; /* a new state does not overwrite the last one */

struct saved {
    MPI_Comm comm;
    int rank, size;
    char *label, *folder;
    char *slots[SLOTS], *temporary; /* paths of this rank's files */
    struct saved_trailer trailer;   /* of the next state */
    int slot;                       /* where it will be */
    struct saved_level base;        /* of every state, see struct saved_place */
    struct saved_level *levels;     /* entered, the outermost first */
    struct saved_move load;         /* no file: nothing is being loaded */
    bool always;                    /* at every point */
    bool fresh;                     /* nothing was done since the state was loaded */
    bool off;                       /* saving has failed; the same on all ranks */
    double began;                   /* clock_seconds */
    double last;                    /* clock_seconds of the last state, or as `began` */
    double before;                  /* seconds of work in the state that was loaded */
    struct saved_times times;
    enum status (*agree)(void *context, enum status st, struct err *e);
    void *context;
    bool (*stops)(void *context); /* of the place, like this: */
    void *work;
    struct saved **ended, *next; /* works before this one; in such a list */
};

/* --- opening --- */

static enum status open_local(struct saved *s, const struct saved_place *p, struct err *e)
{
    struct saved_trailer *t = &s->trailer;
    char build[2 * HASH_HEX], program[HASH_HEX]; /* has changes that no commit has included */
    PASS(mem_string(&s->label, p->label, e));
    PASS(mem_string(&s->folder, p->folder, e));
    PASS(mem_format(&s->temporary, e, "%s/%s.%d.tmp", p->folder, p->name, s->rank));
    for (int i = 0; i < SLOTS; i++)
        PASS(mem_format(&s->slots[i], e, "%s/%s.%d.%d", p->folder, p->name, s->rank, i));
    PASS(hash_file("/proc/self/exe", program, e));
    snprintf(build, sizeof build, "%s %s", p->identity[SAVED_BUILD], program);
    memcpy(t->identity, p->identity, sizeof t->identity);
    hash_text(build, t->identity[SAVED_BUILD]);
    if (getrandom(&t->process, sizeof t->process, 0) != sizeof t->process)
        t->process = (uint64_t)getpid();
    memcpy(t->owner, p->owner, sizeof t->owner);
    t->rank = s->rank;
    t->size = s->size;
    return OK;
}

/* Why a state cannot be used; NULL: it can. */
static const char *unusable(const struct saved *s, const struct saved_trailer *t)
{
    static char ranks[64];
    static const char *const differs[SAVED_IDENTITY_N] = {
        [SAVED_SETTINGS] = "it was saved with other settings",
        [SAVED_INPUTS] = "an input file has changed",
        [SAVED_BUILD] =
            "another build of qtraj, another BLAS kernel or another kind of products saved it"};
    if (t->size != s->size) {
        snprintf(ranks, sizeof ranks, "it is that of %lld rank%s", (long long)t->size,
                 t->size == 1 ? "" : "s");
        return ranks;
    }
    for (int i = SAVED_IDENTITY_N; i-- > 0;) /* settings may hold the build */
        if (memcmp(t->identity[i], s->trailer.identity[i], HASH_HEX) != 0) return differs[i];
    return NULL;
}

/* On rank 0: the states that can be used, the newest first; *why: what is wrong with the others. */
static void find_usable(const struct saved *s, struct saved_trailer found[SLOTS], const char **why)
{
    for (int i = 0; i < SLOTS; i++) {
        struct saved_trailer t;
        if (!fsx_is_file(s->slots[i])) continue;
        const bool whole = saved_file_trailer(s->slots[i], &t);
        const char *wrong = whole ? unusable(s, &t) : "it is damaged";
        if (wrong) {
            *why = wrong;
            continue;
        }
        if (found[0].bytes && t.generation > found[0].generation) {
            found[1] = found[0];
            found[0] = t;
        } else {
            found[found[0].bytes ? 1 : 0] = t;
        }
    }
}

/* Opens this rank's file of the state that rank 0 has found. */
static bool open_state(struct saved *s, const struct saved_trailer *of)
{
    struct saved_trailer t;
    for (int i = 0; i < SLOTS; i++) {
        if (!saved_file_trailer(s->slots[i], &t) || t.process != of->process ||
            t.generation != of->generation || t.size != s->size || t.rank != s->rank)
            continue;
        if (saved_file_open(s->slots[i], &t, &s->load, NULL) == OK) {
            s->slot = (i + 1) % SLOTS;
            return true;
        }
        saved_file_close(&s->load);
    }
    return false;
}

/* Collective: whether the state that all ranks have opened may be continued; *why not. */
static bool continues(struct saved *s, const struct saved_place *p, const char **why)
{
    if (!p->move) return true;
    saved_file_level(&s->load, &s->base);
    int whole = s->load.err.code == OK;
    MPI_Allreduce(MPI_IN_PLACE, &whole, 1, MPI_INT, MPI_LAND, s->comm);
    *why = whole ? "the weights have changed" : "it is damaged";
    return whole && p->continues(p->context);
}

/* Collective: all ranks open the same state, or none. */
static void find_state(struct saved *s, const struct saved_place *p)
{
    struct saved_trailer found[SLOTS] = {0};
    const char *why = NULL;
    if (s->rank == 0) find_usable(s, found, &why);
    MPI_Bcast(found, sizeof found, MPI_BYTE, 0, s->comm);
    for (int i = 0; i < SLOTS && found[i].bytes; i++) {
        int all = open_state(s, &found[i]);
        MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_LAND, s->comm);
        why = "it is damaged";
        if (all && continues(s, p, &why)) {
            s->trailer.generation = found[i].generation + 1;
            s->before = found[i].seconds;
            s->fresh = true;
            if (s->rank == 0)
                log_info("%s: continues from the state saved at %s", s->label, found[i].utc);
            return;
        }
        saved_file_close(&s->load);
    }
    if (why) log_info("%s: the saved state is ignored: %s", s->label, why);
}

enum status saved_open(const struct saved_place *place, struct saved **out, struct err *e)
{
    CLEANUP(saved_close_at) struct saved *s = NULL;
    *out = NULL;
    if (!place->folder) return OK;
    PASS(err_agree(place->comm, mem_zero(&s, 1, sizeof *s, "a saved state", e), e));
    s->comm = place->comm;
    if (place->move) {
        s->base =
            (struct saved_level){.name = "inputs", .move = place->move, .context = place->context};
        s->levels = &s->base;
    }
    s->ended = place->ended;
    s->stops = place->stops;
    s->work = place->context;
    s->began = s->last = clock_seconds();
    s->always = saves_always();
    MPI_Comm_rank(s->comm, &s->rank);
    MPI_Comm_size(s->comm, &s->size);
    PASS(err_agree(s->comm, open_local(s, place, e), e));
    MPI_Bcast(&s->trailer.process, sizeof s->trailer.process, MPI_BYTE, 0, s->comm);
    find_state(s, place);
    *out = TAKE(s);
    return OK;
}

void saved_close(struct saved *s)
{
    if (!s) return;
    if (s->times.n)
        log_trace("saved", "%s: %lld states; saving took %.3f s of %.3f s", s->label,
                  (long long)s->times.n, s->times.spent, clock_seconds() - s->began);
    saved_file_close(&s->load);
    for (int i = 0; i < SLOTS; i++) free(s->slots[i]);
    free(s->temporary);
    free(s->label);
    free(s->folder);
    free(s);
}

/* --- removing --- */

void saved_remove(struct saved *s)
{
    if (!s) return;
    for (int i = 0; i < SLOTS; i++) (void)unlink(s->slots[i]);
    (void)unlink(s->temporary);
    (void)rmdir(s->folder); /* the last state of all */
}

void saved_end(struct saved *s, struct saved **list)
{
    if (!s) return;
    saved_file_close(&s->load);
    s->next = *list;
    *list = s;
}

void saved_forget(struct saved **list, bool removes)
{
    for (struct saved *s; (s = *list);) {
        *list = s->next;
        if (removes) saved_remove(s);
        saved_close(s);
    }
}

/* Whether it is a name that this file makes: 32 hexadecimal digits, rank, slot or "tmp". */
static bool is_ours(const char *name)
{
    int rank, slot, end = 0;
    if (strspn(name, "0123456789abcdef") != HASH_HEX - 1) return false;
    name += HASH_HEX - 1;
    if (sscanf(name, ".%d.%d%n", &rank, &slot, &end) == 2 && !name[end]) return true;
    return sscanf(name, ".%d.tmp%n", &rank, &end) == 1 && end && !name[end];
}

void saved_remove_all(const char *folder)
{
    CLEANUP(fsx_closedir) DIR *d = opendir(folder);
    if (!d) return;
    for (const struct dirent *at; (at = readdir(d));)
        if (is_ours(at->d_name)) (void)unlinkat(dirfd(d), at->d_name, 0);
    (void)rmdir(folder);
}

bool saved_since(const char *folder, time_t since)
{
    CLEANUP(fsx_closedir) DIR *d = opendir(folder);
    for (const struct dirent *at; d && (at = readdir(d));) {
        struct stat s;
        if (is_ours(at->d_name) && !strstr(at->d_name, ".tmp") &&
            fstatat(dirfd(d), at->d_name, &s, 0) == 0 && s.st_mtime >= since)
            return true;
    }
    return false;
}

enum status saved_list(const char *folder, struct saved_found **out, int64_t *n, struct err *e)
{
    int64_t capacity = 0;
    CLEANUP(fsx_closedir) DIR *d = opendir(folder);
    *out = NULL;
    *n = 0;
    for (const struct dirent *at; d && (at = readdir(d));) {
        struct saved_trailer t;
        AUTO_FREE char *path = NULL;
        if (!is_ours(at->d_name) || strstr(at->d_name, ".tmp")) continue;
        PASS(mem_format(&path, e, "%s/%s", folder, at->d_name));
        if (!saved_file_trailer(path, &t) || t.rank != 0) continue;
        PASS(mem_grow(out, *n, &capacity, sizeof **out, e));
        struct saved_found *f = &(*out)[(*n)++];
        memcpy(f->owner, t.owner, sizeof f->owner);
        f->seconds = t.seconds;
    }
    return OK;
}

/* --- levels --- */

enum status saved_enter(struct saved *s, struct saved_level *level, bool *loaded, struct err *e)
{
    *loaded = false;
    if (!s) return OK;
    struct saved_level **at = &s->levels;
    while (*at) at = &(*at)->inner;
    *at = level;
    level->inner = NULL;
    if (!s->load.file) return OK;
    struct saved_move *m = &s->load;
    saved_file_level(m, level);
    NEED(m->err.code == OK, m->err.code, "%s", m->err.text);
    *loaded = true;
    if (m->bytes == 0) saved_file_close(m);
    return OK;
}

void saved_leave(struct saved *s, struct saved_level *level)
{
    if (!s) return;
    struct saved_level **at = &s->levels;
    while (*at && (*at)->inner) at = &(*at)->inner;
    if (*at == level) *at = NULL;
}

void saved_agree_by(struct saved *s,
                    enum status (*agree)(void *context, enum status st, struct err *e),
                    void *context)
{
    if (!s) return;
    s->agree = agree;
    s->context = context;
}

/* --- saving --- */

/* On rank 0. */
static bool is_due(const struct saved *s, bool stops)
{
    const int64_t bytes = saved_file_bytes(s->levels) * s->size;
    const double now = clock_seconds();
    if (s->always) return true;
    return stops ? saved_takes(&s->times, bytes) < now - s->last
                 : saved_is_due(&s->times, bytes, now - s->began);
}

/* Writes this rank's file; the folder is made by all, because nodes may not share it. */
static enum status write_file(struct saved *s, struct err *e)
{
    PASS(fsx_make_parent(s->temporary, e));
    clock_utc(s->trailer.utc);
    s->trailer.seconds = s->before + clock_seconds() - s->began;
    return saved_file_write(s->temporary, s->levels, &s->trailer, e);
}

/* Collective; the same status on all ranks. */
static enum status write_all(struct saved *s, struct err *e)
{
    PASS(err_agree(s->comm, write_file(s, e), e));
    PASS(err_agree(s->comm, fsx_publish(s->temporary, s->slots[s->slot], e), e));
    s->slot = (s->slot + 1) % SLOTS;
    s->trailer.generation++;
    (void)unlink(s->slots[s->slot]);
    return OK;
}

static int64_t count;

int64_t saved_count(void)
{
    return count;
}

static void save(struct saved *s)
{
    struct err why = {0};
    const double start = clock_seconds();
    if (write_all(s, &why) != OK) {
        s->off = true;
        (void)unlink(s->temporary);
        if (s->rank == 0)
            log_warn("%s: its state cannot be saved, an interruption will lose its work: %s",
                     s->label, why.text);
        return;
    }
    count++;
    const double took = clock_seconds() - start;
    saved_took(&s->times, took);
    s->last = clock_seconds();
    if (s->ended) saved_forget(s->ended, true);
    log_trace("saved", "%s: state %lld, %.1f MB in %.3f s", s->label,
              (long long)s->trailer.generation, (double)s->trailer.bytes / 1e6, took);
}

enum status saved_point(struct saved *s, struct err *e)
{
    if (!s || s->off) return OK;
    enum status st = OK;
    if (s->load.file)
        st = err_set(e, ERR_FORMAT, __FILE__, __LINE__, "%s: the saved state has other levels",
                     s->label);
    PASS(s->agree ? s->agree(s->context, st, e) : err_agree(s->comm, st, e));
    const bool stops = s->stops && s->stops(s->work);
    int due = s->rank == 0 && !s->fresh && is_due(s, stops);
    if (s->size > 1) MPI_Bcast(&due, 1, MPI_INT, 0, s->comm);
    s->fresh = false;
    if (due) save(s);
    return OK;
}
