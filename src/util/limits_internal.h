/* limits_internal: functions that the files of limits share. */
#pragma once
#include "util/limits.h"

enum { LIMITS_TEXT = 65536 };

/* The file root + path as a NUL-terminated text of at most LIMITS_TEXT - 1 bytes; false: not
 * readable. */
bool limits_text(const char *root, const char *path, char text[LIMITS_TEXT]);

/* Lowers the limit to the value, with its source, if it is higher. */
void limits_lower_memory(struct limits *l, int64_t bytes, const char *from);
void limits_lower_cores(struct limits *l, int64_t cores, const char *from);

/* Applies memory limits and CPU quotas of the cgroups of the process. text: a buffer for files. */
void limits_cgroups(const char *root, struct limits *l, char text[LIMITS_TEXT]);
