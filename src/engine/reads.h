/* reads: the stored checkpoints that a visit reads, and the digests of all their bytes
 * (docs/decisions/0002-cell-keys.md). A folder that is opened twice is one of them. */
#pragma once
#include "checkpoint/checkpoint.h"
#include "engine/group.h"
#include "util/json.h"

struct saved_move;

/* One of them. */
struct read_folder {
    char *name;
    struct checkpoint *checkpoint;
    bool whole;           /* all ranks have the digests of all slices */
    struct digest *saved; // (slices) those of a saved state that may be continued, or NULL
};
/* Zero-initialise; all ranks of the group have the same. */
struct reads {
    int64_t n, capacity;
    struct read_folder *all; // (n)
    json_t *digests;         /* {NAME: whole digest} of those that have been read; NULL: none yet */
};
/* Local. */
void reads_close(struct reads *r);
/* Leaves the first n: what one part of a visit has read beside the visit's checkpoint, the records
 * of the others are not made from. Local. */
void reads_drop(struct reads *r, int64_t n);

/* Opens the folder, or one more owner of it if it is among them. Its name becomes MODEL/NAME unless
 * it is of that form, as those of other models' checkpoints are. Local. Errors of checkpoint_open.
 */
MUST_USE enum status reads_open(struct reads *r, const char *model, const char *name,
                                const char *path, struct checkpoint **out, struct err *e);

/* Makes r->digests say what has been read so far: compares the files with what they were, brings
 * together what the ranks have read, and reads what of a folder nobody has read. Folders of which
 * nothing has been read are left out. Collective on the group, the same status on all ranks.
 * ERR_CHANGED: bytes, files, or what two ranks have read differ; ERR_IO, ERR_NOMEM. */
MUST_USE enum status reads_finish(struct reads *r, const struct visit_group *g, struct err *e);

/* Moves the digests that are known into a saved state, or out of one to wait for reads_continue.
 * Local. */
void reads_move(void *reads, struct saved_move *m);
/* Whether the bytes that a loaded state was made from are those of the files now, which are read
 * again. Collective on the group, the same answer on all ranks. */
bool reads_continue(struct reads *r, const struct visit_group *g);
