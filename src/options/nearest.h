/* nearest: guesses which known name a mistyped one was meant to be. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* One of the n names within a third of its length in edits (insertion, deletion, replacement,
 * exchange of neighbours; case and - against _ cost nothing), else the only one that begins with
 * it, else NULL. */
const char *nearest_name(const char *name, const char *const *names, int64_t n);

/* What an error says behind a name, or a pattern of names, that is none of the n known ones:
 * ", did you mean X?" if one of them is near, else "; there are: X, Y, Z" (and how many more, where
 * `size` bytes are too few), "" if there are none. */
void nearest_advice(const char *name, const char *const *names, int64_t n, char *text, size_t size);
