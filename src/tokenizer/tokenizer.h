/* tokenizer: reads a tokenizer.json of Hugging Face's tokenizers library with a BPE model, encodes
 * and decodes. Ids are those of that library (0.23). "truncation" and "padding" are ignored. */
#pragma once
#include "util/err.h"
#include "util/hash.h"
#include "util/json.h"

struct tokenizer;
struct pad_hint;

/* *out is closed with tokenizer_close. ERR_IO; ERR_FORMAT with the place in the file; ERR_USAGE for
 * a component that is not supported, by name; ERR_NOMEM. */
MUST_USE enum status tokenizer_open(const char *path, struct tokenizer **out, struct err *e);
void tokenizer_close(struct tokenizer *t);
CLEANUP_BY_VALUE(struct tokenizer, tokenizer_close);

/* Digest of the file's bytes as they were read; of the tokens that the files beside it name as the
 * end of a text and as padding (eos.h), which is "" if these cannot be read. Borrowed. */
const char *tokenizer_hash(const struct tokenizer *t);
const char *tokenizer_special_hash(const struct tokenizer *t);

/* out = digest of what of a tokenizer.json is read: equal ones give the same ids. ERR_NOMEM. */
MUST_USE enum status tokenizer_meaning(const json_t *root, char out[HASH_HEX], struct err *e);

/* Largest id + 1, added tokens included. */
int64_t tokenizer_n_ids(const struct tokenizer *t);

/* *ids (*n_ids; the caller frees) = the encoded text of n bytes. Thread-safe. Invalid UTF-8 is
 * replaced by U+FFFD as Python's errors="replace" does. special: with the tokens that the
 * post-processor adds (BOS). ERR_USAGE for a text of 350 MB or more: split it; ERR_NUMERIC when the
 * matcher of the tokenizer's regular expression gives up; ERR_NOMEM. */
MUST_USE enum status tokenizer_encode(const struct tokenizer *t, const char *text, size_t n,
                                      bool special, int32_t **ids, int64_t *n_ids, struct err *e);

/* The ids that `special` adds before and after those of a text (borrowed). */
void tokenizer_special(const struct tokenizer *t, const int32_t **before, int64_t *n_before,
                       const int32_t **behind, int64_t *n_behind);

/* Id of a token as the file spells it ("<|endoftext|>", or for byte level "Ċ" for a line end); -1
 * if there is no such token. */
int32_t tokenizer_find(const struct tokenizer *t, const char *token);

/* *id = the end-of-text token of the model, which tokenizer.json does not name. It is eos_token of
 * tokenizer_config.json or special_tokens_map.json in the same folder, else eos_token_id of
 * config.json or generation_config.json there (the first of a list). ERR_USAGE when none of them
 * names one; ERR_FORMAT when one of them cannot be read; ERR_NOMEM. */
MUST_USE enum status tokenizer_eos(const struct tokenizer *t, int32_t *id, struct err *e);

/* *id = the padding token, chosen as the package Tokenicer does for GPTQModel: what the model's
 * config.json (hint; NULL: that beside the tokenizer.json) and the files beside the tokenizer.json
 * say (eos.h), else the first of <|finetune_right_pad_id|>, <|pad|>, <pad>, <|unk|>, <unk> that the
 * tokenizer has, else the end-of-text token. Errors as tokenizer_eos. */
MUST_USE enum status tokenizer_pad(const struct tokenizer *t, const struct pad_hint *hint,
                                   int32_t *id, struct err *e);

/* *text (*n bytes, followed by a NUL; the caller frees) = the decoded ids, special tokens included.
 * Ids without a token are skipped, as in the library. Thread-safe. ERR_NOMEM. */
MUST_USE enum status tokenizer_decode(const struct tokenizer *t, const int32_t *ids, int64_t n_ids,
                                      char **text, size_t *n, struct err *e);

/* Bytes of text that one id stands for; 0 for ids without a token or out of range. For byte level
 * they add up to the bytes of the (normalised) text. <0x41> and the space mark count 1; added and
 * special tokens count the bytes of their content. */
int32_t tokenizer_id_bytes(const struct tokenizer *t, int32_t id);
