/* states: the hidden states of one stream between the blocks, (tokens, width). A range of rows is
 * taken, worked on in f32 and put back; where it lay meanwhile (memory, or an unlinked file on
 * node-local scratch) changes no number. Held as f32, or as bf16: then every put rounds to nearest
 * even.
 */
#pragma once
#include "tensor/dtype.h"
#include "util/err.h"

struct states;

/* Where states are kept, and as what. */
struct states_place {
    const char *scratch; /* folder; NULL: in memory */
    enum dtype type;     /* DTYPE_F32 or DTYPE_BF16 */
};

/* Room for tokens rows; on scratch it is reserved at once. ERR_FULL: the scratch has no room for
 * it; ERR_IO names the folder; ERR_NOMEM names `what`. */
MUST_USE enum status states_open(const struct states_place *place, int64_t tokens, int64_t width,
                                 const char *what, struct states **out, struct err *e);
void states_close(struct states *s);

/* True if states_take gives the states themselves. */
bool states_in_place(const struct states *s);
/* *x = rows [row, row + n) to work on: the states themselves when they lie in memory as f32 (what
 * is written there is kept), else a copy in buffer (n, width), which states_put takes back. ERR_IO.
 */
MUST_USE enum status states_take(struct states *s, int64_t row, int64_t n, float *buffer, float **x,
                                 struct err *e);
/* The same rows, always as a copy that may be spoilt. */
MUST_USE enum status states_copy(struct states *s, int64_t row, int64_t n, float *buffer,
                                 struct err *e);
/* Puts rows back; x is what states_take gave, or any other numbers. ERR_FULL, ERR_IO. */
MUST_USE enum status states_put(struct states *s, int64_t row, int64_t n, const float *x,
                                struct err *e);

/* A folder for scratch: option is one, "off", or NULL for the first of SLURM_TMPDIR, TMPDIR, /tmp
 * and /var/tmp that is a disk and can be written to. *folder NULL: none; *room: bytes of it for
 * each of so many ranks, a tenth of the disk left free. The caller frees. ERR_IO: a folder that was
 * named cannot be used. */
MUST_USE enum status scratch_find(const char *option, int64_t ranks, char **folder, int64_t *room,
                                  struct err *e);
