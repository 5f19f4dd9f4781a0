#include "export/export_note.h"
#include "checkpoint/checkpoint.h"
#include "util/fsx.h"
#include "util/json.h"
#include "util/mem.h"

static enum status name_of(const char *folder, char **name, struct err *e)
{
    return mem_format(name, e, "%s/qtraj.json", folder);
}

enum status export_note_write(const char *folder, const char *cell, const char *weights,
                              struct err *e)
{
    AUTO_FREE char *name = NULL;
    json_auto_t *note = NULL;
    CLEANUP(checkpoint_close_at) struct checkpoint *own = NULL;
    PASS(checkpoint_open(folder, &own, e));
    note = json_pack("{s:s, s:s, s:s}", "cell", cell, "weights", weights, "folder",
                     checkpoint_hash(own));
    PASS(name_of(folder, &name, e));
    return json_write_file(name, note, JSON_INDENT(1), e);
}

static bool says(const json_t *note, const char *name, const char *digest)
{
    return strcmp(json_text(note, name, ""), digest) == 0;
}

bool export_note_fits(const char *folder, const char *cell, const char *weights)
{
    struct checkpoint *own = NULL;
    json_t *note = NULL;
    char *name = NULL;
    const bool fits = name_of(folder, &name, NULL) == OK && fsx_is_file(name) &&
                      json_read_file(name, 0, &note, NULL) == OK && says(note, "cell", cell) &&
                      says(note, "weights", weights) && checkpoint_open(folder, &own, NULL) == OK &&
                      says(note, "folder", checkpoint_hash(own));
    checkpoint_close(own);
    json_decref(note);
    free(name);
    return fits;
}
