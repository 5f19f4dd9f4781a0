/* weights_file: writes the quantized linears of a checkpoint to a safetensors file, in the order in
 * which a visit quantizes them. Local. */
#pragma once
#include "checkpoint/checkpoint.h"
#include "util/err.h"

/* Creates the file with a header for every linear of the checkpoint, in f32; *n_linears (may be
 * NULL) = their number. Append their values in the visit's order, then commit (safetensors.h).
 * ERR_IO, ERR_FULL, errors of model_parameters. */
MUST_USE enum status weights_file_create(const struct checkpoint *c, const char *path,
                                         int64_t *n_linears, struct safetensors_out **out,
                                         struct err *e);

/* *path (the caller ends it with temporary_end) = a temporary name (util/temporary.h) in the
 * scratch folder (option run.scratch), which may be shared with other hosts. ERR_USAGE: there is no
 * scratch folder; ERR_IO, ERR_NOMEM. */
MUST_USE enum status weights_file_scratch(const char *scratch, char **path, struct err *e);
