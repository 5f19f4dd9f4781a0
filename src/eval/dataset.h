/* dataset: text or stored ids become token sequences, as the data options of a sweep say. */
#pragma once
#include "config/sweep.h"
#include "model/sequences.h"
#include "tokenizer/tokenizer.h"
#include "util/err.h"

/* Loads the sequences. tokenizer may be NULL when d->ids is given; out->bytes is filled when it is
 * not. *hash (33 bytes) = digest of the input. ERR_IO / ERR_FORMAT with file and line; ERR_USAGE
 * when nothing is left (text shorter than one sequence).
 *
 * Each line of d->text is a file or, when no file has that name, a pattern of * ? [] {a,b} whose
 * matches are read in bytewise order of their names; each may be gzip or zstd. Without d->field a
 * file is one document, with it every line. What the options put around a document is no text: it
 * counts no bytes. One document a sequence: those of fewer than two tokens are dropped. Invalid
 * UTF-8 becomes U+FFFD, and a warning says how often in which file.
 * Sequences that are filled up (padding: counted) have out->valid.
 * d->ids: the rows of a matrix are the sequences, without the -1s that may stand at their ends,
 * d->length does not matter unless within_positions is set; a vector longer than
 * d->length is cut into blocks of it, the last partial one dropped. */
MUST_USE enum status dataset_load(const struct data_options *d, const struct tokenizer *t,
                                  struct sequences *out, char hash[33], struct err *e);

/* Digest of the input file alone (for cell keys), as it is stored; of several files, a digest of
 * their digests. ERR_IO. */
MUST_USE enum status dataset_hash(const struct data_options *d, char hash[33], struct err *e);
