/* nearest: guesses which known name a mistyped one was meant to be. */
#pragma once
#include <stdint.h>

/* One of the n names within a third of its length in edits (insertion, deletion, replacement,
 * exchange of neighbours; case and - against _ cost nothing), else NULL. */
const char *nearest_name(const char *name, const char *const *names, int64_t n);
