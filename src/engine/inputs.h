/* inputs: loads the token sequences of a visit, cached between visits (visit_cache). Local.
 *
 * All that a visit reads but its weights is read here, hashed as it is read, and compared with the
 * digest that the plan put into the keys (visit.inputs; docs/decisions/0002-cell-keys.md). The
 * names there are the `text` or `ids` of data options, the paths of the tasks' files and of a
 * common tokenizer, and two words. A file of another digest, or one that was not there, is
 * ERR_CHANGED: its numbers would stand under the key of another file. */
#pragma once
#include "engine/visit_types.h"

/* No path has a control character (options.h). */
#define INPUT_TOKENIZER "\ttokenizer"      /* the visit's */
#define INPUT_SPECIAL   "\tspecial tokens" /* eos.h; absent unless input_names_tokens */
/* Whether the data ask for tokens that the files beside the tokenizer name. */
bool input_names_tokens(const struct data_options *d);

/* ERR_CHANGED unless the tokenizer at path, which an exported model gets a copy of, is the planned
 * one. Other errors as above. */
MUST_USE enum status inputs_check_tokenizer(const struct visit *v, const char *path, struct err *e);

/* out = digest of the planned digests, wherever the files are. ERR_NOMEM. */
MUST_USE enum status inputs_digest(const struct visit *v, char out[HASH_HEX], struct err *e);

/* The calibration sequences and the concatenated evaluation datasets of a visit, borrowed from the
 * cache until visit_inputs_trim. */
struct visit_inputs {
    const struct sequences *calibration; /* NULL: none */
    const struct sequences *evaluation;  /* of the texts, then of the tasks */
    const int64_t *first;                // (n_evaluations + 1) first sequence of each dataset
    const int64_t *first_unit; // (evaluation->n + 1) first unit of the scores (head.h) of each: one
                               // for a sequence of a text, else one for each request
    const struct requests *requests; /* of the tasks; NULL: none */
    int64_t texts;                   /* sequences of the texts, and units of them */
};
/* Loads them unless they are cached. ERR_IO, ERR_FORMAT, ERR_USAGE and ERR_CHANGED name the file;
 * ERR_NOMEM. */
MUST_USE enum status visit_inputs_get(struct visit_cache *cache, const struct visit *v,
                                      struct visit_inputs *out, struct err *e);

/* The sequences of one data source, borrowed as above. Errors as above. */
MUST_USE enum status visit_sequences_get(struct visit_cache *cache, const struct visit *v,
                                         const struct data_options *data,
                                         const struct sequences **out, struct err *e);

/* out[0..n) (n = the largest number of a replicate of v's variants) = the calibration sequences of
 * replicates 1 to n, borrowed as above. ERR_USAGE: the text has too few; other errors as above. */
MUST_USE enum status visit_draws_get(struct visit_cache *cache, const struct visit *v,
                                     const struct sequences **out, int64_t *n, struct err *e);

/* *path (the caller frees) = the file of a common tokenizer, which is named by itself or by its
 * folder. ERR_IO: there is none; ERR_NOMEM. */
MUST_USE enum status visit_common_tokenizer(const char *name, char **path, struct err *e);
/* *tokens = tokens that the common tokenizer makes of the scored text of data, which is not stored
 * ids (eval/common_tokens.h). Errors as above, and of both tokenizers. */
MUST_USE enum status visit_common_tokens(struct visit_cache *cache, const struct visit *v,
                                         const struct data_options *data, const char *name,
                                         int64_t *tokens, struct err *e);

/* model_check_ids for the sequences of `data`, which its error then names. */
MUST_USE enum status visit_check_ids(const struct model *m, const struct data_options *data,
                                     const struct sequences *s, struct err *e);

/* Call at the start of a visit: frees all sequences except the most recently used ones. Sequences
 * are never freed during a visit. */
void visit_inputs_trim(struct visit_cache *cache);

/* *path (the caller frees) = tokenizer.json in the checkpoint folder or else in the parent folder,
 * which the checkpoints of a trajectory may share; NULL if neither has one. ERR_NOMEM. */
MUST_USE enum status visit_tokenizer(const char *checkpoint, char **path, struct err *e);

/* Whether it reads texts, or rows of tasks, which need a tokenizer. */
bool visit_reads_text(const struct visit *v);
/* *path (the caller frees) = the file of the visit's tokenizer, which is needed if `text`; "": it
 * is not. ERR_IO: there is none; ERR_NOMEM. */
MUST_USE enum status visit_find_tokenizer(const struct visit *v, bool text, char **path,
                                          struct err *e);

/* Positions by a checkpoint folder's config.json (model/positions.h); 0: it does not say. ERR_IO,
 * ERR_FORMAT, ERR_NOMEM. */
MUST_USE enum status visit_positions(const char *checkpoint, int64_t *written, int64_t *usable,
                                     struct err *e);

/* Logs a warning for each evaluation text of v of which sequences are also calibrated on
 * (eval/overlap.h). ERR_NOMEM. */
MUST_USE enum status warn_of_overlap(const struct visit *v, const struct visit_inputs *in,
                                     struct err *e);
