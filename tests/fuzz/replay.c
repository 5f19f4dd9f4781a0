/* Feeds every file of the folders named on the command line to a fuzz target once, without
 * libFuzzer: runs the corpus as a test. An input that takes too long fails too. */
#include "fuzz.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Limit of CPU seconds per input; the sanitizers need most of it, without them all inputs are far
 * below. */
enum { SECONDS_MAX = 5 };

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    long n = -1;
    if (f && fseek(f, 0, SEEK_END) == 0) n = ftell(f);
    uint8_t *data = malloc(n > 0 ? (size_t)n : 1); /* exact size: ASan sees its end */
    if (!f || n < 0 || !data) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    rewind(f);
    if (fread(data, 1, (size_t)n, f) != (size_t)n) exit(1);
    fclose(f);
    fprintf(stderr, "%s\n", path); /* the last line names the failing input */
    double start = cpu_seconds();
    LLVMFuzzerTestOneInput(data, (size_t)n);
    fuzz_expect(cpu_seconds() - start < SECONDS_MAX, "an answer within seconds");
    free(data);
}

static int replay_folder(const char *folder)
{
    struct dirent **entries = NULL;
    int n = scandir(folder, &entries, NULL, alphasort), files = 0;
    for (int i = 0; i < n; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') {
            replay_file(path);
            files++;
        }
        free(entries[i]);
    }
    free(entries);
    return files;
}

int main(int argc, char **argv)
{
    int files = 0;
    for (int i = 1; i < argc; i++) files += replay_folder(argv[i]);
    printf("%d inputs\n", files);
    return files > 0 ? 0 : 1;
}
