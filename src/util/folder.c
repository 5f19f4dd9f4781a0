#include "util/folder.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

/* The first of the folder and those above it that is there; the caller frees it. NULL: no memory.
 */
static char *nearest(const char *path)
{
    char *folder = NULL, *above;
    if (mem_string(&folder, path, NULL) != OK) return NULL;
    while (access(folder, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR) &&
           strcmp(folder, ".") != 0) {
        if (fsx_parent(folder, &above, NULL) != OK) above = NULL;
        free(folder);
        if (!above) return NULL;
        folder = above;
    }
    return folder;
}

/* Whether it is on a file system of the kernel, where root may write and nobody can make a file. */
static bool of_kernel(const char *folder)
{
    struct statfs s;
    return statfs(folder, &s) == 0 && (s.f_type == PROC_SUPER_MAGIC || s.f_type == SYSFS_MAGIC);
}

bool folder_is_writable(const char *path, char *why, size_t size)
{
    char *folder = nearest(path);
    why[0] = '\0';
    if (folder && access(folder, F_OK) == 0 && !fsx_is_dir(folder))
        snprintf(why, size, "%s is no folder", folder);
    else if (folder && access(folder, W_OK | X_OK) != 0)
        snprintf(why, size, "%s: %s", folder, strerror(errno));
    else if (folder && of_kernel(folder))
        snprintf(why, size, "%s: no files can be made there", folder);
    free(folder);
    return !why[0];
}

int64_t folder_free_bytes(const char *path)
{
    struct statvfs s;
    char *folder = nearest(path);
    const bool known = folder && statvfs(folder, &s) == 0;
    free(folder);
    return known ? (int64_t)s.f_bavail * (int64_t)s.f_frsize : -1;
}
