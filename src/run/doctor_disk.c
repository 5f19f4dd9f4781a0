/* Checks of the folders of results and scratch: space and speed. */
#include "memory/states.h"
#include "run/doctor.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { CHUNK = 4 << 20, CHUNKS = 16, APPENDS = 10, RECORD = 256 };

struct disk {
    double write, read; /* bytes/s; the file is synced, and dropped from the page cache */
    double sync;        /* seconds until a small append is durable */
};

/* Measures with an unlinked file. */
static enum status measure(const char *folder, struct disk *out, struct err *e)
{
    AUTO_FREE char *buffer = NULL, *path = NULL;
    CLEANUP(fsx_close) int fd = -1;
    PASS(mem_alloc(&buffer, CHUNK, 1, "a measurement", e));
    for (int i = 0; i < CHUNK; i++) buffer[i] = (char)(i * 2654435761u >> 13);
    PASS(mem_format(&path, e, "%s/qtraj-doctor-XXXXXX", folder));
    fd = mkstemp(path);
    NEED(fd >= 0, ERR_IO, "%s: cannot write there: %s", folder, strerror(errno));
    unlink(path);
    double start = clock_seconds();
    bool done = true;
    for (int i = 0; done && i < CHUNKS; i++) done = write(fd, buffer, CHUNK) == CHUNK;
    NEED(done && fdatasync(fd) == 0, ERR_IO, "%s: writing 64 MiB failed: %s", folder,
         strerror(errno));
    double written = clock_seconds();
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    double dropped = clock_seconds();
    for (int i = 0; done && i < CHUNKS; i++)
        done = pread(fd, buffer, CHUNK, (off_t)i * CHUNK) == CHUNK;
    NEED(done, ERR_IO, "%s: reading failed: %s", folder, strerror(errno));
    double read = clock_seconds();
    for (int i = 0; done && i < APPENDS; i++)
        done = write(fd, buffer, RECORD) == RECORD && fdatasync(fd) == 0;
    NEED(done, ERR_IO, "%s: appending failed: %s", folder, strerror(errno));
    const double bytes = (double)CHUNK * CHUNKS;
    *out = (struct disk){.write = bytes / (written - start),
                         .read = bytes / (read - dropped),
                         .sync = (clock_seconds() - read) / APPENDS};
    return OK;
}

static double free_bytes(const char *folder)
{
    struct statvfs s;
    return statvfs(folder, &s) == 0 ? (double)s.f_bavail * (double)s.f_frsize : 0;
}

/* From linux/magic.h. */
static bool is_memory(const char *folder)
{
    struct statfs s;
    const unsigned tmpfs = 0x01021994, ramfs = 0x858458f6;
    return statfs(folder, &s) == 0 && ((unsigned)s.f_type == tmpfs || (unsigned)s.f_type == ramfs);
}

static bool note_disk(struct doctor *d, const char *folder, struct disk *disk)
{
    struct err e = {0};
    doctor_note(d, "folder", json_string(folder));
    doctor_note(d, "free_bytes", json_real(free_bytes(folder)));
    if (measure(folder, disk, &e) != OK) {
        doctor_warn(d, "name a writable folder with free space", "%s", e.text);
        return false;
    }
    doctor_note(d, "write_mb_s", json_real(disk->write / 1e6));
    doctor_note(d, "read_mb_s", json_real(disk->read / 1e6));
    doctor_note(d, "sync_ms", json_real(disk->sync * 1e3));
    return true;
}

void doctor_check_disks(struct doctor *d, const char *results, const char *scratch)
{
    struct disk disk;
    struct err e = {0};
    char *folder = NULL;
    int64_t room;
    const double slow = 50e6, gib = 1 << 30;
    d->heading = "results";
    if (note_disk(d, results, &disk)) {
        if (disk.sync > 0.05)
            doctor_warn(d, "put results on a local or a faster disk",
                        "a record takes %.0f ms to be durable", disk.sync * 1e3);
        if (free_bytes(results) < gib)
            doctor_warn(d, "free some space", "%s has %.2g GiB left", results,
                        free_bytes(results) / gib);
        if (is_memory(results))
            doctor_warn(d, "put results on a disk", "%s is in memory: nothing of it stays",
                        results);
    }
    d->heading = "scratch";
    if (scratch_find(scratch, 1, &folder, &room, &e) != OK || !folder) {
        doctor_note(d, "folder", json_null());
        doctor_warn(d, "name one as run.scratch, or TMPDIR, on a local disk", "%s",
                    e.text[0] ? e.text : "no scratch folder on a disk: more memory is needed");
    } else if (note_disk(d, folder, &disk)) {
        if (disk.write < slow || disk.read < slow)
            doctor_warn(d, "name a node-local disk as run.scratch",
                        "%s writes %.0f MB/s and reads %.0f MB/s", folder, disk.write / 1e6,
                        disk.read / 1e6);
        if (is_memory(folder)) doctor_warn(d, "name a folder on a disk", "%s is in memory", folder);
    }
    free(folder);
}
