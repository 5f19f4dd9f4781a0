/* What the files of limits share. */
#pragma once
#include "util/limits.h"
#include <stddef.h>

enum { LIMITS_TEXT = 65536 };

/* The file root + path as a NUL-terminated text of at most LIMITS_TEXT - 1 bytes; false: not
 * readable. */
bool limits_text(const char *root, const char *path, char text[LIMITS_TEXT]);

/* A lower limit takes the place of a higher one, with its source. */
void limits_lower_memory(struct limits *l, int64_t bytes, const char *from);
void limits_lower_cores(struct limits *l, int64_t cores, const char *from);

/* Memory limits and CPU quotas of the process's cgroups. text: room to read files into. */
void limits_cgroups(const char *root, struct limits *l, char text[LIMITS_TEXT]);
