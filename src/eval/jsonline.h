/* jsonline: the text of one line of JSON lines. */
#pragma once
#include "util/err.h"
#include <stdint.h>

/* *text (*n bytes, UTF-8) = the string under `field` of the object in line (size bytes); the caller
 * frees. Lenient where real collections are careless: ill-formed UTF-8 and lone surrogates become
 * U+FFFD (*replaced = how many), of a repeated key the last one counts, other fields' numbers may
 * have any size. ERR_FORMAT (no place in the text: the caller knows the file and line). */
MUST_USE enum status jsonline_text(const char *line, size_t size, const char *field, char **text,
                                   size_t *n, int64_t *replaced, struct err *e);
