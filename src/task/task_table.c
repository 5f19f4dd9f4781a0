#include "task/task_table.h"
#include "options/nearest.h"
#include "task/lines.h"
#include "util/mem.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>

#define TASK_LINE(name) &task_##name,
static const struct task *const tasks[] = {TASKS(TASK_LINE)};
enum { TASKS_N = sizeof tasks / sizeof *tasks };

const struct task *task_at(int64_t i)
{
    return i < TASKS_N ? tasks[i] : NULL;
}

enum status task_find(const char *name, const struct task **out, const char **subject,
                      struct err *e)
{
    for (int i = 0; i < TASKS_N; i++) {
        const size_t n = strlen(tasks[i]->name);
        *out = tasks[i];
        *subject = NULL;
        if (strcmp(name, tasks[i]->name) == 0) return OK;
        *subject = name + n + 1;
        if (tasks[i]->subjects && strncmp(name, tasks[i]->name, n) == 0 && name[n] == '_' &&
            name[n + 1] && !(*subject)[strspn(*subject, "abcdefghijklmnopqrstuvwxyz0123456789_")])
            return OK;
    }
    const char *names[TASKS_N + 1] = {[TASKS_N] = "mmlu_SUBJECT"};
    char advice[300];
    for (int i = 0; i < TASKS_N; i++) names[i] = tasks[i]->name;
    nearest_advice(name, names, TASKS_N + 1, advice, sizeof advice);
    RAISE(ERR_USAGE, "%s: unknown task%s", name, advice);
}

/* --- names --- */

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
    AUTO_FREE char *list = NULL;
    char *rest = NULL;
    PASS(mem_string(&list, names, e));
    for (char *name = strtok_r(list, ", \n", &rest); name; name = strtok_r(NULL, ", \n", &rest)) {
        const struct task *task;
        const char *subject;
        PASS(task_find(name, &task, &subject, e));
        if (task->subjects && !subject)
            PASS(add_subjects(name, folder, out, e));
        else
            PASS(texts_add(out, name, e));
    }
    NEED(out->n > 0, ERR_USAGE, "no task is named");
    return OK;
}
