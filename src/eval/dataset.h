/* dataset: token sequences from texts or from stored ids, by the data options of a sweep. */
#pragma once
#include "config/sweep.h"
#include "model/sequences.h"
#include "tokenizer/tokenizer.h"
#include "util/texts.h"

/* *out (the caller frees with sequences_free) = the sequences. t may be NULL for d->ids; with a
 * tokenizer out->bytes is filled, with padding (padding: counted) out->valid. hash = digest of the
 * input's bytes as they were read, which dataset_hash gives for an unchanged input. ERR_IO,
 * ERR_FORMAT: with file and line; ERR_USAGE: no sequence with a token to predict is left (a text
 * shorter than one sequence), or options that contradict each other; ERR_CHANGED: while it was
 * read; ERR_NOMEM.
 *
 * d->text: each line is a file or, when no file has that name, a pattern of * ? [] {a,b} whose
 * matches are read in bytewise order of their names; alternatives that make more than 10,000 names
 * are refused (ERR_USAGE). Files may be gzip or zstd. Without d->field
 * each file is one document, with it each line is. Tokens that the options put around a document
 * count no bytes. With one document per sequence, documents of fewer than two tokens are dropped.
 * Invalid UTF-8 is replaced by U+FFFD, with one warning per file.
 *
 * d->ids: each row of a matrix is one sequence, without the -1s at its end; d->length is ignored
 * unless within_positions is set. A vector longer than d->length is cut into blocks of that length;
 * a last partial block is dropped. */
MUST_USE enum status dataset_load(const struct data_options *d, const struct tokenizer *t,
                                  struct sequences *out, char hash[33], struct err *e);

/* A text's start: its first files, and of the last of them so many bytes. */
struct text_start {
    int64_t files, bytes;
};
/* *same = whether what is read of d->text are the same sequences as of that start alone; `pool`:
 * also those that dataset_draw draws from, with as many in a draw. What cannot be read is not the
 * same. ERR_NOMEM. */
MUST_USE enum status dataset_starts_alike(const struct data_options *d, const struct tokenizer *t,
                                          const struct text_start *start, bool pool, bool *same,
                                          struct err *e);

/* out[0..n_draws) (the caller frees each with sequences_free, also after a failure) = draws
 * (draws.h) of `size` sequences of the text or the ids, after the first d->skip: d's limits samples
 * and tokens do not hold, and d arranges each draw as it does the usual sequences. hash and errors
 * as above, errors of draws_make. */
MUST_USE enum status dataset_draw(const struct data_options *d, const struct tokenizer *t,
                                  int64_t size, const struct sequences *avoid, uint64_t seed,
                                  int64_t n_draws, struct sequences *out, char hash[33],
                                  struct err *e);

/* The name of the data in messages: the first file, and how many more there are. d has text or ids.
 */
enum { DATASET_NAME = 300 };
void dataset_name(const struct data_options *d, char text[DATASET_NAME]);

/* hash = digest of the bytes of the input file (for cell keys); of several files, the digest of
 * their digests. ERR_IO, ERR_USAGE (neither text nor ids), ERR_NOMEM. */
MUST_USE enum status dataset_hash(const struct data_options *d, char hash[33], struct err *e);

/* hash = that of n > 0 files with these digests. */
void dataset_join_hashes(char (*hashes)[33], int64_t n, char hash[33]);

/* Adds every input file to *out (free it whatever is returned); it may be missing. ERR_IO: no file
 * matches a pattern; ERR_USAGE (neither text nor ids), ERR_NOMEM. */
MUST_USE enum status dataset_files(const struct data_options *d, struct texts *out, struct err *e);
