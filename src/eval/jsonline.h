/* jsonline: one line of JSON lines. */
#pragma once
#include "util/json.h"

/* *out (a new reference) = the object in line (size bytes). Lenient where published collections are
 * careless: ill-formed UTF-8 and lone surrogates are replaced by U+FFFD (*replaced = how many), the
 * last of repeated keys counts, and integers of any size are read, as reals. ERR_FORMAT, without
 * file and line, which the caller knows; ERR_NOMEM. */
MUST_USE enum status jsonline_object(const char *line, size_t size, json_t **out, int64_t *replaced,
                                     struct err *e);

/* *text (*n bytes of UTF-8; the caller frees) = the string under `field` of the object in line
 * (size bytes), read as jsonline_object does. Errors as there. */
MUST_USE enum status jsonline_text(const char *line, size_t size, const char *field, char **text,
                                   size_t *n, int64_t *replaced, struct err *e);
