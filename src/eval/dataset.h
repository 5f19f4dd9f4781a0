/* dataset: text or stored ids become token sequences, as the data options of a sweep say. */
#pragma once
#include "config/sweep.h"
#include "model/sequences.h"
#include "tokenizer/tokenizer.h"
#include "util/err.h"

/* Loads the sequences. tokenizer may be NULL when d->ids is given. *hash (33 bytes) = digest of the
 * input file. ERR_IO / ERR_FORMAT with file and line; ERR_USAGE when nothing is left (text shorter
 * than one sequence). */
MUST_USE enum status dataset_load(const struct data_options *d, const struct tokenizer *t,
                                  struct sequences *out, char hash[33], struct err *e);

/* Digest of the input file alone (for cell keys). ERR_IO. */
MUST_USE enum status dataset_hash(const struct data_options *d, char hash[33], struct err *e);
