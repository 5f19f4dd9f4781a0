/* common_tokens: how many tokens another tokenizer makes of the text that is scored, so that losses
 * of models with different tokenizers are per the same unit (arXiv 2411.17691, A.1). */
#pragma once
#include "model/sequences.h"
#include "tokenizer/tokenizer.h"

/* *tokens = the number. The text is what `own` decodes the scored tokens of s to, all but the first
 * of each sequence. It is cut where a sequence ends, and at tokens that stand for no bytes of text
 * (those put around documents); each piece is tokenized by `common` alone, without the tokens that
 * its post-processor adds. s has bytes. Parallel inside. Errors of tokenizer_encode. */
MUST_USE enum status common_tokens_count(const struct sequences *s, const struct tokenizer *own,
                                         const struct tokenizer *common, int64_t *tokens,
                                         struct err *e);
