/* export_note: the file qtraj.json in an exported folder, which says of which cell it is. */
#pragma once
#include "util/err.h"

/* Writes it into the folder, with the key of the cell, the sampled digest of the weights that it
 * was made of, and that of the folder. Errors of checkpoint_open; ERR_IO, ERR_FULL, ERR_NOMEM. */
MUST_USE enum status export_note_write(const char *folder, const char *cell, const char *weights,
                                       struct err *e);
/* Whether the folder is that of the cell and of these weights, and as it was written. */
bool export_note_fits(const char *folder, const char *cell, const char *weights);
