/* temporary: the names under which files and folders are written before they get their own, and
 * their removal: on errors, when a signal ends the process, and after a process that was killed. */
#pragma once
#include "util/err.h"

/* *out = PATH.tmp.HOST.PID-START.RANDOM, which no other process uses, on any host; START tells the
 * process from a later one of that number (process_start). What is made under it
 * is removed by temporary_end, or when a signal ends the process. Removes what processes of this
 * host that are gone left of the same path. ERR_IO, ERR_NOMEM. */
MUST_USE enum status temporary_begin(const char *path, char **out, struct err *e);
/* Frees the name and removes what still has it: a file, or a folder of files. Nothing has it after
 * it was renamed to its own. NULL: nothing. */
void temporary_end(char *name);
CLEANUP_BY_VALUE(char, temporary_end)

/* Removes a file, or a folder and the files in it; folders within it stay. Async-signal-safe. */
void temporary_remove(const char *path);
/* The same of all that has a temporary name of this process. */
void temporary_remove_all(void);
/* From now on SIGINT, SIGTERM and SIGHUP do that before they end the process. */
void temporary_catch_signals(void);

/* Removes what processes left of `path` under temporary names, and under temporary names of these.
 * TEMPORARY_DEAD: those of this host that are gone; TEMPORARY_ALL: all, for the holder of a lock
 * that every writer of the path takes. */
enum temporary_whose { TEMPORARY_DEAD, TEMPORARY_ALL };
void temporary_remove_left(const char *path, enum temporary_whose whose);
