/* stamp: which files a visit found, identified by sizes and times, so that what has failed is tried
 * again when one of them has changed. A digest grows by one input after the other. */
#pragma once
#include "engine/weights.h"
#include "util/hash.h"

/* Adds a file, which may be missing; the digest of no input is hash_text's of "". */
void stamp_file(char stamp[HASH_HEX], const char *path);
/* And the files of a text, or of ids; NULL or neither: nothing. */
void stamp_data(char stamp[HASH_HEX], const struct data_options *d);
/* And what every stored folder of the source has of configuration, tokenizer and weights. */
void stamp_weights(char stamp[HASH_HEX], const struct weights *w);
