/* Finds the scratch folder for hidden states that do not fit in memory. */
#include "memory/states.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

/* From linux/magic.h: file systems that are memory themselves. */
static const unsigned magic_tmpfs = 0x01021994, magic_ramfs = 0x858458f6;

static bool is_memory(const char *folder)
{
    struct statfs s;
    if (statfs(folder, &s) != 0) return false;
    unsigned type = (unsigned)s.f_type;
    return type == magic_tmpfs || type == magic_ramfs;
}

static bool is_usable(const char *folder)
{
    return folder && folder[0] && fsx_is_dir(folder) && access(folder, W_OK | X_OK) == 0;
}

static int64_t free_bytes_of(const char *folder, int64_t ranks)
{
    struct statvfs s;
    if (statvfs(folder, &s) != 0) return 0;
    double free_bytes = (double)s.f_bavail * (double)s.f_frsize;
    return (int64_t)(0.9 * free_bytes / (double)(ranks > 0 ? ranks : 1));
}

enum status scratch_find(const char *option, int64_t ranks, char **folder, int64_t *bytes,
                         struct err *e)
{
    const char *const candidates[] = {getenv("SLURM_TMPDIR"), getenv("TMPDIR"), "/tmp", "/var/tmp"};
    static bool said;
    const char *found = NULL;
    *folder = NULL;
    *bytes = 0;
    if (option && strcmp(option, "off") == 0) return OK;
    if (option) {
        NEED(is_usable(option), ERR_IO,
             "run.scratch: %s is not a folder that can be written to; name another, or say off",
             option);
        if (!said && is_memory(option)) {
            log_warn("run.scratch: %s is in memory; name a folder on a disk", option);
            said = true; /* every visit comes here */
        }
        found = option;
    }
    for (size_t i = 0; !found && i < sizeof candidates / sizeof *candidates; i++)
        if (is_usable(candidates[i]) && !is_memory(candidates[i])) found = candidates[i];
    if (!found) return OK;
    PASS(mem_string(folder, found, e));
    *bytes = free_bytes_of(found, ranks);
    return OK;
}
