/* corpus: the tokens of a training run's text. They are made once and stored in a file; chunks of
 * length + 1 tokens that do not overlap are the sequences, as of plainLM. A permutation by the seed
 * holds the validation's chunks out and orders the others; every further epoch has an order of its
 * own. Which sequences a step has depends on seed, data and sizes alone. */
#pragma once
#include "options/options.h"
#include "train/trainer.h"
#include "util/hash.h"

/* The keys of `data`. */
struct corpus_options {
    char *text, *field; /* as of a sweep's texts */
    char *separator;    /* token after each document, or "eos"; NULL: none */
    bool before;        /* and before it, as plainLM has it */
    bool document_mask;
    int64_t validation; /* tokens held out, rounded up to chunks */
    int64_t seed;       /* of the order */
    char *cache;        /* folder of the file of tokens; NULL: that of the runs */
};
extern const struct option_table corpus_options_table;

/* *path (the caller frees) = the file of tokens in `folder`, named after the digests of texts,
 * tokenizer and settings; made by tokenizing if it is not there, under a temporary name first. hash
 * = that digest. Digests of texts are kept beside it (texts.json) with their files' sizes, times
 * and inodes, by which they are known again. Local. ERR_IO; ERR_FORMAT with file and line;
 * ERR_CHANGED: a text was changed as it was read; ERR_FULL; errors of collector_frame; ERR_NOMEM.
 */
MUST_USE enum status corpus_prepare(const struct corpus_options *o, const char *tokenizer,
                                    const char *folder, char **path, char hash[HASH_HEX],
                                    struct err *e);

/* What corpus_prepare would find, without writing anything: *tokens = those of the text, counted up
 * to `enough`; every file of JSONL gives a document. hash (NULL: not wanted): of the file of
 * tokens. Errors as of corpus_prepare. Local. */
MUST_USE enum status corpus_look(const struct corpus_options *o, const char *tokenizer,
                                 const char *folder, int64_t enough, int64_t *tokens, char *hash,
                                 struct err *e);
/* *held_out = the chunks of length + 1 that are held out of so many tokens. ERR_USAGE: none is left
 * to train on. */
MUST_USE enum status corpus_divide(const struct corpus_options *o, int64_t tokens, int64_t length,
                                   int64_t *held_out, struct err *e);
/* Tokens of which one chunk is left. */
int64_t corpus_least(const struct corpus_options *o, int64_t length);

struct corpus;

/* Opens the file, cut into chunks of length + 1; close with corpus_close. o is copied. ERR_USAGE:
 * too few tokens for a chunk to train on; ERR_IO, ERR_NOMEM. Local. */
MUST_USE enum status corpus_open(const struct corpus_options *o, const char *path, int64_t length,
                                 struct corpus **out, struct err *e);
void corpus_close(struct corpus *c);
CLEANUP_BY_VALUE(struct corpus, corpus_close);
/* Chunks to train on; chunks held out. */
int64_t corpus_chunks(const struct corpus *c);
int64_t corpus_held_out(const struct corpus *c);

/* out = n sequences from place `first` of the run's order on (place 0: the first of epoch 0), or,
 * held_out, of those that are held out. Its arrays stay the corpus's until the next call.
 * ERR_FORMAT: the file has become shorter; ERR_IO, ERR_NOMEM. */
MUST_USE enum status corpus_take(struct corpus *c, bool held_out, int64_t first, int64_t n,
                                 struct train_tokens *out, struct err *e);
