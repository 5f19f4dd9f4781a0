/* json: jansson with this project's errors. Values are plain json_t; ownership follows jansson's
 * rules. */
#pragma once
#include "util/err.h"
#include <jansson.h>

/* Call once per process, before the first JSON value: jansson's allocations that fail are counted.
 */
void json_setup(void);

/* How many have failed in this process. jansson leaves out a member that it has no memory for, and
 * callers do not check every member: what was built since the first failure may lack some, and must
 * not be stored or printed as a result. json_whole: ERR_NOMEM after a failure. */
int64_t json_failures(void);
MUST_USE enum status json_whole(struct err *e);

/* Gives the reference up, and makes it NULL. */
static inline void json_drop(json_t **at)
{
    json_decref(*at);
    *at = NULL;
}

/* Parses a file (of at most max_bytes; 0: no limit) or a text of n bytes; `name` stands in messages
 * as "name:line:column: ...". Duplicate keys are errors. *out is owned by the caller (json_decref).
 * ERR_IO, ERR_FORMAT, ERR_NOMEM. */
MUST_USE enum status json_read_file(const char *path, size_t max_bytes, json_t **out,
                                    struct err *e);
/* As json_read_file, with further flags of jansson's (JSON_DECODE_INT_AS_REAL: integers may be
 * however large); hash = digest of the bytes that were read (NULL: not wanted). */
MUST_USE enum status json_read_as(const char *path, size_t max_bytes, size_t flags, char *hash,
                                  json_t **out, struct err *e);
MUST_USE enum status json_read_text(const char *name, const char *text, size_t n, json_t **out,
                                    struct err *e);

/* Removes the members with one of these names (a list that ends with NULL) from the n bytes of a
 * JSON text, at every depth; returns how many bytes are left. The text must be as json_dumps writes
 * it with JSON_COMPACT: no blank between a name and its colon. Does not check the text. */
size_t json_cut_members(char *text, size_t n, const char *const *names);

/* A number that may be infinite or not a number: those are stored as the strings "inf", "-inf",
 * "nan", which JSON lacks. json_number_new returns a new reference or NULL (no memory).
 * json_number_get also takes integers; anything else, NULL included, gives NaN. Doubles keep all
 * their bits. */
json_t *json_number_new(double value);
double json_number_get(const json_t *value);

/* A new array of such numbers, or NULL (no memory). */
json_t *json_numbers_new(const double *values, int64_t n);

/* json_dumps, which leaves out a key for which it gets no memory and goes on; here that is NULL.
 * The caller frees. */
char *json_dump_whole(const json_t *value, size_t flags);

/* The text of a value as json_dump_whole makes it, but with the fewest digits that read back as the
 * same number: 0.1 instead of 0.10000000000000001. The caller frees; NULL: no memory. */
char *json_write_text(const json_t *value, size_t flags);
/* Writes that text as a file, whole or not at all. NULL: ERR_NOMEM. ERR_FULL, ERR_IO, ERR_NOMEM. */
MUST_USE enum status json_write_file(const char *path, const json_t *value, size_t flags,
                                     struct err *e);

/* text = the object's keys, "a, b, c", and "..." where there are too many. */
enum { JSON_KEYS = 120 };
void json_keys(const json_t *object, char text[JSON_KEYS]);

/* The integer of that name; 0 if there is none. Whether the value of that name is true. */
static inline int64_t json_int(const json_t *object, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(object, key));
}
static inline bool json_flag(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

/* Strings with a default: never NULL unless the default is. */
const char *json_text(const json_t *object, const char *key, const char *otherwise);
