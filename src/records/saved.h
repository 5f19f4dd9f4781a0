/* saved: the state of a long piece of work in files, from which a later process continues
 * (docs/decisions/0023-saved-state.md).
 *
 * The work describes its state with functions that move it, field by field, into a file or out of
 * one. Between two steps (blocks, products) it calls saved_point, which saves the state if that
 * keeps within 1 % of the time. Every rank of the group has a file of its own; the files of all
 * ranks count together or not at all. A file is written under a temporary name, synced, and
 * renamed; its checksum is verified before anything is read from it.
 *
 * A struct saved that is NULL saves nothing: all functions take it. */
#pragma once
#include "util/err.h"
#include "util/hash.h"
#include <mpi.h>
#include <time.h>

struct saved;
struct saved_move;

/* What the numbers of a state depend on. */
enum saved_identity { SAVED_SETTINGS, SAVED_INPUTS, SAVED_BUILD, SAVED_IDENTITY_N };

struct saved_place {
    MPI_Comm comm;        /* borrowed */
    const char *folder;   /* NULL: nothing is saved */
    const char *name;     /* of the files; another one for each piece of work at the same time */
    const char *label;    /* of the work, in messages */
    char owner[HASH_HEX]; /* which visit the work belongs to, for saved_list */
    /* A state is used only if all of them are equal. Those of rank 0 count. SAVED_BUILD is added to
     * a digest of the program's file. */
    char identity[SAVED_IDENTITY_N][HASH_HEX];
    /* What every state has below its levels, NULL: nothing: `move` as of a level, and, collective
     * with the same answer on all ranks, whether what has been loaded so may be continued. */
    void (*move)(void *context, struct saved_move *m);
    bool (*continues)(void *context);
    void *context;
    /* Whether the work will be stopped at its next step; collective, the same on all ranks. NULL:
     * never. */
    bool (*stops)(void *context);
    struct saved **ended; /* borrowed; NULL: none. Works of saved_end before this one, whose files
                             go as soon as this one has a state of its own */
};

/* Looks for a state of this work. If there is one of this identity and number of ranks, the levels
 * below are loaded from it; another one is ignored with a line that says why. *out: NULL if nothing
 * is saved; closed with saved_close. Collective on comm. ERR_NOMEM; ERR_IO: the program's file. */
MUST_USE enum status saved_open(const struct saved_place *place, struct saved **out, struct err *e);
/* Leaves the files. Local. */
void saved_close(struct saved *s);
CLEANUP_BY_VALUE(struct saved, saved_close);
/* Removes the files: the work is done, and its results are stored. Local. */
void saved_remove(struct saved *s);
/* Closes it too, adding it to a list: the work is done, but its results may not be stored yet, and
 * a run that dies now needs the files. Local. */
void saved_end(struct saved *s, struct saved **list);
/* Empties the list; removes: their results are stored, and the files go. Local. */
void saved_forget(struct saved **list, bool removes);
/* Removes a folder of states and the states in it, except those that other processes remove at the
 * same time. Local. */
void saved_remove_all(const char *folder);
/* Whether a state in the folder has been saved at that time or later. Local. */
bool saved_since(const char *folder, time_t since);

/* What a folder holds of a visit. */
struct saved_found {
    char owner[HASH_HEX];
    double seconds; /* of work that the state has taken, over all runs */
};
/* *out (*n; the caller frees) = the states in the folder, from rank 0 of their groups: one or two
 * of each work. Their data are not checked, nor whether they can be used. No folder: none. Local.
 * ERR_NOMEM. */
MUST_USE enum status saved_list(const char *folder, struct saved_found **out, int64_t *n,
                                struct err *e);

/* A level of the state: the work, or a smaller one within it. */
struct saved_level {
    const char *name; /* static string */
    /* Calls saved_bytes for each field, in the same order in both directions. Local. */
    void (*move)(void *context, struct saved_move *m);
    void *context;
    struct saved_level *inner; /* private */
};
/* Adds a level within those that have been entered. If a state is being loaded, loads the level:
 * *loaded says so. Both structs must stay where they are until saved_leave. Local. ERR_IO,
 * ERR_NOMEM; ERR_FORMAT: the state has other levels. */
MUST_USE enum status saved_enter(struct saved *s, struct saved_level *level, bool *loaded,
                                 struct err *e);
/* Removes the innermost level; does nothing if that is another one. Local. */
void saved_leave(struct saved *s, struct saved_level *level);

/* Between two steps: saves all levels if it is time, or if the work stops here and has gone on for
 * longer since its last state than a save is expected to take. If that fails, a warning says so and
 * nothing is saved any more; the work goes on. Collective. ERR_PEER and others: of the agreement;
 * ERR_FORMAT as saved_enter. */
MUST_USE enum status saved_point(struct saved *s, struct err *e);

/* How many states this process has saved so far. */
int64_t saved_count(void);

/* Seconds of work after which its state, of so many bytes on all ranks, is first saved; next to
 * none with QTRAJ_SAVE=always. */
double saved_first_after(int64_t bytes);

/* Collective steps begin with an agreement on errors: by default err_agree, else this. */
void saved_agree_by(struct saved *s,
                    enum status (*agree)(void *context, enum status st, struct err *e),
                    void *context);

/* --- for functions that move --- */

/* Whether the state is loaded, not saved. */
bool saved_loads(const struct saved_move *m);
/* Whether its bytes are only counted: the fields need not be read. */
bool saved_counts(const struct saved_move *m);
/* Moves n bytes between `at` and the file. at NULL while loading: skips them. */
void saved_bytes(struct saved_move *m, void *at, int64_t n);
/* Moves n items of `size` bytes. array: address of the pointer to them; loading allocates it, which
 * the caller frees (NULL after an error). what: for messages. */
void saved_array(struct saved_move *m, void *array, int64_t n, size_t size, const char *what);
/* Moves a text: loading sets *text, which the caller frees (NULL after an error). */
void saved_text(struct saved_move *m, char **text);
/* What a move function finds fails the move (code OK: nothing). After a failure, also one of
 * reading, saved_bytes sets zeros. */
void saved_fail(struct saved_move *m, const struct err *why);
