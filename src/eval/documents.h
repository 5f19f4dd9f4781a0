/* documents: reads text files and tokenizes their documents, many at a time. */
#pragma once
#include "eval/collect.h"
#include "util/hash.h"

/* Adds the documents of the files, in order, to c until c is full or the options' documents or
 * bytes are read. With options->draw these are the first ones in a random order instead, which
 * depends on the seed and the documents' places in the text alone; only they are held in memory.
 * Parallel inside (OpenMP) over documents; c does not depend on the number of threads. ERR_IO;
 * ERR_FORMAT with file and line; ERR_NOMEM, ERR_NUMERIC, ERR_USAGE of tokenizer_encode. hashes =
 * digest of each file's bytes as they were read; NULL: not wanted, and nothing is read behind the
 * last document. last: bytes that the last file ends after; INT64_MAX: where it ends. */
MUST_USE enum status documents_load(char *const *paths, int64_t n_paths, int64_t last,
                                    const struct tokenizer *t, struct collector *c,
                                    char (*hashes)[HASH_HEX], struct err *e);
