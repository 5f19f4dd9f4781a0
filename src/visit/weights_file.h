/* weights_file: the quantized linears of a checkpoint as a safetensors file, written in the order
 * in which a visit quantizes them. */
#pragma once
#include "checkpoint/checkpoint.h"
#include "util/err.h"

/* The file's header: every linear of the checkpoint, f32. Append their numbers in the visit's
 * order, then commit (safetensors.h). ERR_IO, ERR_FULL, errors of model_parameters. */
MUST_USE enum status weights_file_create(const struct checkpoint *c, const char *path,
                                         struct safetensors_out **out, struct err *e);
