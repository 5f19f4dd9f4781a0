/* initial: a model that is to be trained: its config.json, and a folder with its initial weights
 * (docs/math/training.md). Local. */
#pragma once
#include "options/options.h"
#include "util/json.h"

enum initial_scheme {
    INITIAL_HUGGINGFACE,
    INITIAL_PYTHIA,
    INITIAL_OLMO2,
    INITIAL_PLAINLM,
    INITIAL_SCALED
};
/* The keys of `model`. 0 and NULL: not given. */
struct model_options {
    char *config, *family;
    int64_t hidden, layers, heads, kv_heads, head_dim, intermediate, vocab, positions;
    double theta, std;
    bool tied;
    int init, linears; /* enum initial_scheme; 0: config's, 1: ternary */
};
extern const struct option_table model_options_table;

/* *out (a new reference) = config.json as transformers reads it: that of o->config, with what o
 * gives. vocab, positions: where o and the file say nothing, else at least these; eos: -1: unknown.
 * ERR_USAGE: a key is missing, a family or size that is not supported, too few of these; ERR_IO,
 * ERR_FORMAT: the file; ERR_NOMEM. */
MUST_USE enum status model_config_make(const struct model_options *o, int64_t vocab,
                                       int64_t positions, int32_t eos, json_t **out, struct err *e);
/* Writes the folder `path` (folder_create) with initial weights in f32: a function of config,
 * scheme and seed alone. tokenizer: the tokenizer.json that goes along. Errors as of
 * folder_create, model_describe. */
MUST_USE enum status initial_write(const json_t *config, enum initial_scheme scheme, uint64_t seed,
                                   const char *tokenizer, const char *path, struct err *e);
