/* export_folder: a checkpoint whose linears are quantized, as a folder that loads and gives the
 * loss that was measured. Dequantized: the linears are written in f32, the numbers that the visit
 * computed with (rounding them to the checkpoint's 16-bit type would change the loss), and
 * config.json asks for f32. Packed: the linears are written as codes, scales and zeros
 * (packed_write.h). Other tensors are copied bit for bit, but for norms and biases that absorb the
 * scales of AWQ, which are written in f32. Local. */
#pragma once
#include "checkpoint/packed_write.h"
#include "engine/visit_types.h"
#include "quant/quant.h"

/* "dequantized" and packed_formats, NULL after the last. */
const char *const *export_formats(void);

/* How the linears are written. */
struct export_form {
    struct packed_layout layout; /* format PACKED_NONE: dequantized */
    bool folds;                  /* norms and biases absorb scales */
};
/* *out = the form of a format's name for a variant. ERR_USAGE: there is no such format; the weights
 * of the method with these options cannot be written in it; the text says what it can hold. */
MUST_USE enum status export_form_choose(const char *format, const struct quant_method *method,
                                        const struct quant_options *options, int64_t bits,
                                        struct export_form *out, struct err *e);

/* ERR_USAGE: the form cannot hold a linear of a model with that config.json (file: its name).
 * Errors of model_describe. */
MUST_USE enum status export_form_check(const struct export_form *form, const json_t *config,
                                       const char *file, struct err *e);

struct export_folder;

/* Begins the folder `path` and copies into it what is not quantized. c: a stored checkpoint,
 * retained; tokenizer: file, or NULL (folder_write.h). Close *out whatever follows. ERR_USAGE: the
 * form cannot hold a linear of that size. Errors of model_parameters and folder_create, of reading
 * c. */
MUST_USE enum status export_folder_create(const struct checkpoint *c, const char *tokenizer,
                                          const char *path, const struct export_form *form,
                                          struct export_folder **out, struct err *e);
/* A quantized linear (visit_hooks.weights), in the visit's order; packed forms need its grids. As
 * folder_append; ERR_NUMERIC: a weight is not on its grid. */
MUST_USE enum status export_folder_linear(struct export_folder *f, const struct linear *l,
                                          const float *q, const struct quant_grids *grids,
                                          struct err *e);
/* Whether all linears have come. */
bool export_folder_whole(const struct export_folder *f);
/* As folder_commit; card: its README.md (NULL: none). */
MUST_USE enum status export_folder_commit(struct export_folder *f, const char *card, struct err *e);
/* Without a commit: removes it. NULL: nothing. */
void export_folder_close(struct export_folder *f);

/* --- the note --- */

/* Writes into a folder the file qtraj.json, which says of which cell it is, with the key of the
 * cell, the sampled digest of the weights that it was made of, and that of the folder. Errors of
 * checkpoint_open; ERR_IO, ERR_FULL, ERR_NOMEM. */
MUST_USE enum status export_note_write(const char *folder, const char *cell, const char *weights,
                                       struct err *e);
/* Whether the folder is that of the cell and of these weights, and as it was written. */
bool export_note_fits(const char *folder, const char *cell, const char *weights);
