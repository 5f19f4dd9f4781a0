/* folder: whether files can be written into a folder, before any is. Local. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether files can be made in the folder, which is there or could be made in the nearest one above
 * it. why (size bytes) = what is wrong and with which folder, "" if nothing is. */
bool folder_is_writable(const char *path, char *why, size_t size);
/* Bytes that are free on the disk of the folder, or of the nearest above it that is there; -1: not
 * known. */
int64_t folder_free_bytes(const char *path);
