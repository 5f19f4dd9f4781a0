/* scratch: a new folder for files that a test writes, created at first use and removed when the
 * process that created it ends. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char scratch_folder[] = "/tmp/qtraj-test-XXXXXX";
static pid_t scratch_owner; /* 0: there is no folder yet */

static inline void scratch_remove(void)
{
    char command[64];
    if (getpid() != scratch_owner) return; /* a child of the test */
    snprintf(command, sizeof command, "rm -rf %s", scratch_folder);
    if (system(command) != 0) fprintf(stderr, "%s: cannot be removed\n", scratch_folder);
}

static inline const char *scratch_dir(void)
{
    if (!scratch_owner) {
        assert_non_null(mkdtemp(scratch_folder));
        scratch_owner = getpid();
        atexit(scratch_remove);
    }
    return scratch_folder;
}

/* Path of a file in it, valid for seven more calls. */
static inline const char *scratch_path(const char *name)
{
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof *paths, "%s/%s", scratch_dir(), name);
    return path;
}

/* Writes a file into it. */
static inline const char *scratch_put(const char *name, const void *data, size_t n)
{
    const char *path = scratch_path(name);
    unlink(path); /* rewriting a truncated file may wait for the disk */
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* The number of files of a folder whose names match a pattern of the shell. */
static inline int64_t files_named(const char *folder, const char *pattern)
{
    char command[700];
    long n = -1;
    snprintf(command, sizeof command, "ls -d %s/%s 2>/dev/null | wc -l", folder, pattern);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    assert_int_equal(fscanf(p, "%ld", &n), 1);
    pclose(p);
    return n;
}
