/* tree: folders with all that is in them. */
#pragma once
#include "util/err.h"

/* Bytes that the files in the folder take on disk; 0 if it does not exist. */
int64_t tree_bytes(const char *path);
/* Removes a file, or a folder with all that is in it; links are removed, not followed. What does
 * not exist is no error. ERR_IO. */
MUST_USE enum status tree_remove(const char *path, struct err *e);
