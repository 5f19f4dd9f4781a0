#include "task/task_names.h"
#include "task/lines.h"
#include "task/task_table.h"
#include "util/mem.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Adds the names of the subjects whose files are in the folder. */
static enum status add_subjects(const char *task, const char *folder, struct texts *out,
                                struct err *e)
{
    enum status st = OK;
    struct dirent **entries = NULL;
    bool any = false;
    const size_t n_task = strlen(task);
    const int n = scandir(folder, &entries, NULL, alphasort);
    ENSURE(n >= 0, ERR_IO, "%s: cannot be listed: %s", folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        char *name = entries[i]->d_name;
        if (strncmp(name, task, n_task) != 0 || name[n_task] != '_') continue;
        name[strcspn(name, ".")] = 0;
        if (!lines_exist(folder, name)) continue; /* it is of examples */
        TRY(texts_add(out, name, e));
        any = true;
    }
    ENSURE(any, ERR_IO, "%s: no file %s_SUBJECT.jsonl there", folder, task);
done:
    for (int i = 0; i < n; i++) free(entries[i]);
    free(entries);
    return st;
}

enum status task_names(const char *names, const char *folder, struct texts *out, struct err *e)
{
    enum status st = OK;
    char *list = NULL, *rest = NULL;
    TRY(mem_string(&list, names, e));
    for (char *name = strtok_r(list, ", \n", &rest); name; name = strtok_r(NULL, ", \n", &rest)) {
        const struct task *task;
        const char *subject;
        TRY(task_find(name, &task, &subject, e));
        if (task->subjects && !subject)
            TRY(add_subjects(name, folder, out, e));
        else
            TRY(texts_add(out, name, e));
    }
    ENSURE(out->n > 0, ERR_USAGE, "no task is named");
done:
    free(list);
    return st;
}
