/* scratch: a folder for files that a test makes at run time. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char scratch_dir[] = "/tmp/qtraj_checkpoint_XXXXXX";

static inline int scratch_setup(void **state)
{
    (void)state;
    return mkdtemp(scratch_dir) == NULL;
}

static inline int scratch_teardown(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", scratch_dir);
    return system(command);
}

/* Path of a file in it, valid for seven more calls. */
static inline const char *scratch_path(const char *name)
{
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof *paths, "%s/%s", scratch_dir, name);
    return path;
}

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
