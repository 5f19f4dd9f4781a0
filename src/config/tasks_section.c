/* The section `tasks`: which multiple-choice tasks are scored beside the texts. */
#include "config/sweep.h"
#include <string.h>

static const struct option keys[] = {
    OPTION(tasks_section, names, TEXTS,
           "multiple-choice tasks as lm-evaluation-harness names them (qtraj tasks); mmlu is one, "
           "all its subjects",
           .required = true),
    OPTION(tasks_section, data, PATH, "folder of the tasks' data (docs/tasks.md)",
           .required = true),
    OPTION(tasks_section, shots, INT, "solved examples before each question", .fallback = "5",
           .low = 0, .high = 1000),
    OPTION(tasks_section, limit, INT,
           "items of each task, or of each of its subjects: the first ones", .unit = "items",
           .fallback = "all", .low = 1, .high = INT64_MAX, OPTION_SPECIAL(0, "all")),
    OPTION(tasks_section, log_likelihoods, BOOL,
           "keep the log-likelihood of each choice of each item; many numbers",
           .fallback = "false"),
};

/* No name twice. */
static enum status finish(void *entry, const struct option_scope *scope, struct err *e)
{
    const struct tasks_section *t = entry;
    for (const char *a = t->names; *a; a += strcspn(a, "\n"), a += *a == '\n')
        for (const char *b = t->names; b < a; b += strcspn(b, "\n") + 1) {
            const size_t n = strcspn(a, "\n");
            if (n == strcspn(b, "\n") && strncmp(a, b, n) == 0)
                return options_fail(scope, "names", e, "%.*s is named twice", (int)n, a);
        }
    return OK;
}

static bool absent(const void *entry)
{
    const struct tasks_section *t = entry;
    return !t->names;
}

const struct option_table tasks_table = {OPTION_ROWS(keys, tasks_section), .finish = finish,
                                         .absent = absent};
