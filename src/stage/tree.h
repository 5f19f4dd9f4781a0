/* tree: a folder with all that is in it. */
#pragma once
#include "util/err.h"

/* Bytes of its files; 0 if it is not there. */
int64_t tree_bytes(const char *path);
/* fsync of all files and folders; the owner may write to the folders then. ERR_IO, ERR_FULL. */
MUST_USE enum status tree_sync(const char *path, struct err *e);
/* Removes it. It may be gone. ERR_IO. */
MUST_USE enum status tree_remove(const char *path, struct err *e);
