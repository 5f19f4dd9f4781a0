/* gguf: GGUF files, in which llama.cpp keeps models: metadata, tensors in blocks (gguf_types.h).
 * Source: ggml-org/ggml docs/gguf.md, versions 2 and 3, little endian.
 *
 * A file is seen as the Hugging Face checkpoint that it was converted from (llama.cpp,
 * convert_hf_to_gguf.py): its tensors have the names of that checkpoint, in f32, and its metadata
 * make a config.json. llama.cpp rotates neighbouring values in the architectures llama and smollm3,
 * so its converter stores the rows of q and k of a head interleaved: row 2 i + h is row i of half
 * h. They are read in their order. */
#pragma once
#include "checkpoint/tensor_file.h"

/* Makes of the tensors of a file (named as in the file, with places and types) and its metadata
 * {KEY: value} those of a checkpoint: names, interleaved heads, s->config. ERR_FORMAT: a key is
 * missing or wrong, a tensor belongs to no model that is read; ERR_USAGE: an architecture or
 * setting that is not read; both name file and place; ERR_IO, ERR_NOMEM. */
MUST_USE enum status gguf_adapt(struct safetensors *s, const json_t *metadata, struct err *e);
