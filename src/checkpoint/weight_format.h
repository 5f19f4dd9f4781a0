/* weight_format: the formats that the weight files of a folder may have. A new one is its file and
 * its line here. */
#pragma once
#include "checkpoint/tensor_file.h"

struct weight_format {
    const char *file;  /* name of the only file of a folder */
    const char *index; /* name of the index of several; NULL: they are always in one */
    /* Opens and checks a file, but reads no weights. *out is closed with safetensors_close; its
     * entries, sorted by name, say where each tensor is stored, row-major and without gaps; its
     * hash is of tensor_file_hash. ERR_IO; ERR_FORMAT names file and tensor; ERR_USAGE: a model
     * that is not supported; ERR_NOMEM. */
    enum status (*open)(const char *path, struct safetensors *out, struct err *e);
};

/* X(pytorch) is `const struct weight_format format_pytorch`, defined in its file. Of a folder that
 * has several formats the first is read. */
#define WEIGHT_FORMATS(X)                                                                          \
    X(safetensors)                                                                                 \
    X(pytorch)                                                                                     \
    X(gguf)
#define WEIGHT_FORMAT_DECLARE(name) extern const struct weight_format format_##name;
WEIGHT_FORMATS(WEIGHT_FORMAT_DECLARE)
