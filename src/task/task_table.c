#include "task/task_table.h"
#include "options/nearest.h"
#include <stdio.h>
#include <string.h>

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
    const char *names[TASKS_N], *near;
    char known[256] = "";
    for (int i = 0; i < TASKS_N; i++) names[i] = tasks[i]->name;
    near = nearest_name(name, names, TASKS_N);
    NEED(!near, ERR_USAGE, "%s: unknown task, did you mean %s?", name, near);
    for (int i = 0; i < TASKS_N; i++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", names[i]);
    }
    RAISE(ERR_USAGE, "%s: unknown task, expected %s or mmlu_SUBJECT", name, known);
}
