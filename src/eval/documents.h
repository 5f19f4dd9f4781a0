/* documents: texts are read one after the other and tokenised many at a time. */
#pragma once
#include "eval/collect.h"

/* Feeds the documents of the files, in their order, to c until it is full. Parallel inside
 * (OpenMP) over documents; what c gets does not depend on the number of threads. ERR_IO,
 * ERR_FORMAT with file and line. */
MUST_USE enum status documents_load(char *const *paths, int64_t n_paths, const struct tokenizer *t,
                                    struct collector *c, struct err *e);
