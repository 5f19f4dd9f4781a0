#include "engine/stamp.h"
#include "checkpoint/weight_format.h"
#include "eval/dataset.h"
#include "util/mem.h"
#include <dirent.h>
#include <sys/stat.h>

/* The name alone, since runs may reach a folder by different paths. A digest that lacks a line for
 * want of memory only differs from what it would be. */
void stamp_file(char stamp[HASH_HEX], const char *path)
{
    struct stat s = {0};
    char *text = NULL;
    const char *slash = strrchr(path, '/');
    const bool there = stat(path, &s) == 0;
    if (mem_format(&text, NULL, "%s %d %lld %lld.%09ld %lld.%09ld %s", stamp, there,
                   (long long)s.st_size, (long long)s.st_mtim.tv_sec, s.st_mtim.tv_nsec,
                   (long long)s.st_ctim.tv_sec, s.st_ctim.tv_nsec, slash ? slash + 1 : path) == OK)
        hash_text(text, stamp);
    free(text);
}

void stamp_data(char stamp[HASH_HEX], const struct data_options *d)
{
    CLEANUP(texts_free) struct texts files = {0};
    if (!d || (!d->text && !d->ids)) return;
    const bool found = dataset_files(d, &files, NULL) == OK;
    for (int64_t i = 0; found && i < files.n; i++) stamp_file(stamp, files.text[i]);
    if (!found) stamp_file(stamp, d->text ? d->text : d->ids);
}

/* Logs, states of optimizers and the like may change. */
static int concerns(const struct dirent *entry)
{
#define FORMAT_FILE(name) format_##name.file,
    const char *const files[] = {WEIGHT_FORMATS(FORMAT_FILE) "config.json"};
    const char *ending = strrchr(entry->d_name, '.');
    for (size_t i = 0; ending && i < sizeof files / sizeof *files; i++)
        if (strcmp(ending, strrchr(files[i], '.')) == 0) return 1;
    return 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void stamp_folder(char stamp[HASH_HEX], const char *folder)
{
    struct dirent **entries = NULL;
    const int n = scandir(folder, &entries, concerns, by_name);
    if (n < 0) stamp_file(stamp, folder); /* a checkpoint in one file */
    for (int i = 0; i < n; i++) {
        char *path = NULL;
        if (mem_format(&path, NULL, "%s/%s", folder, entries[i]->d_name) == OK)
            stamp_file(stamp, path);
        free(path);
        free(entries[i]);
    }
    free(entries);
}

void stamp_weights(char stamp[HASH_HEX], const struct weights *w)
{
    if (w->kind == WEIGHTS_STORED && w->path) stamp_folder(stamp, w->path);
    if (w->kind == WEIGHTS_GREEDY) stamp_data(stamp, &w->heldout);
    if (w->kind == WEIGHTS_GREEDY) stamp_data(stamp, &w->calibration);
    for (int64_t i = 0; i < w->n; i++) stamp_weights(stamp, &w->parts[i]);
}
