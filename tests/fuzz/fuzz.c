#include "fuzz.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *fuzz_file(int slot, const void *data, size_t n)
{
    static struct {
        int fd;
        char path[32];
    } files[4];
    if (!files[slot].path[0]) {
        files[slot].fd = memfd_create("fuzz", MFD_CLOEXEC);
        fuzz_expect(files[slot].fd >= 0, "memfd_create");
        snprintf(files[slot].path, sizeof files[slot].path, "/proc/self/fd/%d", files[slot].fd);
    }
    fuzz_expect(ftruncate(files[slot].fd, 0) == 0 &&
                    pwrite(files[slot].fd, data, n, 0) == (ssize_t)n,
                "a file in memory");
    return files[slot].path;
}

int fuzz_split(const uint8_t *data, size_t size, int n, char **part, size_t *length)
{
    char *text = malloc(size + 1), *end = text + size;
    fuzz_expect(text, "memory");
    if (size) memcpy(text, data, size);
    *end = '\0';
    int i = 0;
    for (char *at = text; i < n; i++) {
        char *nul = i < n - 1 ? memchr(at, '\0', (size_t)(end - at)) : NULL;
        part[i] = at;
        length[i] = (size_t)((nul ? nul : end) - at);
        if (!nul) return i + 1;
        at = nul + 1;
    }
    return i;
}

void fuzz_expect(bool holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "fuzz: expected: %s\n", what);
    abort();
}

void fuzz_expect_status(enum status st, const struct err *e)
{
    fuzz_expect(e->code == st, "the status that the record has");
    fuzz_expect((st == OK) == (e->text[0] == '\0'), "a text with an error, none without");
}
