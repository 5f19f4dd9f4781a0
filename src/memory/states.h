/* states: stores the hidden states (tokens, width) of one stream between blocks, in memory or in an
 * unlinked file on node-local scratch. Callers take a range of rows, change it in f32 and put it
 * back. With type bf16 every put rounds to nearest even. Not collective. */
#pragma once
#include "math/dtype.h"
#include "records/saved.h"
#include "util/err.h"

struct states;

/* Where states are stored, and as which type. */
struct states_place {
    const char *scratch; /* folder; NULL: in memory */
    enum dtype type;     /* DTYPE_F32 or DTYPE_BF16 */
};

/* Allocates `tokens` rows; on scratch the disk space is reserved immediately. *out is closed with
 * states_close. ERR_FULL: not enough space on scratch; ERR_IO names the folder; ERR_NOMEM names
 * `what`. */
MUST_USE enum status states_open(const struct states_place *place, int64_t tokens, int64_t width,
                                 const char *what, struct states **out, struct err *e);
void states_close(struct states *s);
CLEANUP_BY_VALUE(struct states, states_close);

/* True if states_take returns the stored rows themselves instead of a copy. */
bool states_in_place(const struct states *s);
/* *x = rows [row, row + n): a pointer to the stored rows if they are in memory as f32 (changes take
 * effect immediately), else a copy in buffer (n, width), to be stored by states_put. ERR_IO. */
MUST_USE enum status states_take(struct states *s, int64_t row, int64_t n, float *buffer, float **x,
                                 struct err *e);
/* Copies the rows into buffer, which the caller may overwrite. ERR_IO. */
MUST_USE enum status states_copy(struct states *s, int64_t row, int64_t n, float *buffer,
                                 struct err *e);
/* Stores rows; x (n, width) is the pointer from states_take or another array. ERR_FULL, ERR_IO. */
MUST_USE enum status states_put(struct states *s, int64_t row, int64_t n, const float *x,
                                struct err *e);

/* Announces that the rows will be taken soon: those that are on scratch are read into the page
 * cache while the caller computes. Does nothing else; s NULL: nothing. */
void states_expect(const struct states *s, int64_t row, int64_t n);

/* Moves all rows, in the type in which they are stored, into a saved state or out of one (saved.h).
 * s NULL: there are none. */
void states_move(struct states *s, struct saved_move *m);
/* Skips such rows of s in a saved state. */
void states_skip(const struct states *s, struct saved_move *m);

/* Chooses the scratch folder. option: a folder, "off", or NULL for the first of SLURM_TMPDIR,
 * TMPDIR, /tmp and /var/tmp that is a writable disk. *folder (the caller frees) is NULL if there is
 * none; *bytes: free space for each of `ranks` ranks, with a tenth of the disk left free. ERR_IO:
 * the folder in `option` cannot be used. */
MUST_USE enum status scratch_find(const char *option, int64_t ranks, char **folder, int64_t *bytes,
                                  struct err *e);
