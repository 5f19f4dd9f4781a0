#include "records/running.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/temporary.h"
#include <unistd.h>

enum { MOST_BYTES = 1 << 24 };

static enum status path_of(const char *journal, char **out, struct err *e)
{
    AUTO_FREE char *resolved = NULL;
    PASS(fsx_resolve(journal, &resolved, e));
    return mem_format(out, e, "%s.running", resolved);
}

enum status running_write(const char *journal, const json_t *visits, struct err *e)
{
    char host[256] = "";
    AUTO_FREE char *path = NULL, *text = NULL;
    gethostname(host, sizeof host - 1);
    json_auto_t *all =
        json_pack("{s:s, s:I, s:O}", "host", host, "pid", (json_int_t)getpid(), "visits", visits);
    NEED(all && (text = json_dump_whole(all, JSON_INDENT(1))), ERR_NOMEM,
         "out of memory for the running visits");
    PASS(path_of(journal, &path, e));
    return fsx_write_atomic(path, text, strlen(text), e);
}

void running_remove(const char *journal)
{
    char *path;
    if (path_of(journal, &path, NULL) != OK) return;
    temporary_remove_left(path, TEMPORARY_ALL);
    unlink(path);
    free(path);
}

json_t *running_read(const char *journal, const struct lock_holder *holder)
{
    AUTO_FREE char *path = NULL;
    json_auto_t *all = NULL;
    json_t *visits = NULL;
    if (!holder->held || path_of(journal, &path, NULL) != OK) return NULL;
    if (fsx_is_file(path) && json_read_file(path, MOST_BYTES, &all, NULL) == OK &&
        strcmp(json_text(all, "host", ""), holder->host) == 0 &&
        json_int(all, "pid") == holder->pid)
        visits = json_incref(json_object_get(all, "visits"));
    return visits;
}
