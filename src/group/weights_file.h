/* weights_file: the quantized linears of a checkpoint as a safetensors file, written in the order
 * in which a visit quantizes them. */
#pragma once
#include "checkpoint/checkpoint.h"
#include "util/err.h"

/* The file's header: every linear of the checkpoint, f32; *n_linears of them (NULL: not wanted).
 * Append their numbers in the visit's order, then commit (safetensors.h). ERR_IO, ERR_FULL, errors
 * of model_parameters. */
MUST_USE enum status weights_file_create(const struct checkpoint *c, const char *path,
                                         int64_t *n_linears, struct safetensors_out **out,
                                         struct err *e);

/* A name on scratch (the option run.scratch) that is this process' own; i tells its files apart.
 * Removes those of processes of this host that live no more. The caller frees. ERR_USAGE: there is
 * no scratch; ERR_IO, ERR_NOMEM. */
MUST_USE enum status weights_file_scratch(const char *scratch, int64_t i, char **path,
                                          struct err *e);
