/* doubts: says what is doubtful about the sequences of a text. */
#pragma once
#include "config/sweep.h"
#include "model/sequences.h"

/* Whether one of the sequences first to end - 1 has more tokens than the model has positions (0:
 * not known); text (size bytes) = how many. data: what the sequences are, "evaluation wikitext". */
bool doubt_of_length(const char *data, const struct sequences *s, int64_t first, int64_t end,
                     int64_t positions, char *text, size_t size);
/* Whether the text has given fewer sequences, n, than `samples` asks for; text as above. */
bool doubt_of_number(const char *data, const struct data_options *d, int64_t n, char *text,
                     size_t size);
/* Logs the length as a warning. */
void warn_of_length(const char *model, const char *data, const struct sequences *s, int64_t first,
                    int64_t end, int64_t positions);
