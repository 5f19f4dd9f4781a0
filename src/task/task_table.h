/* task_table: multiple-choice tasks, as lm-evaluation-harness defines them. A task is a const
 * struct in its file (related ones share a file), and its line in TASKS. */
#pragma once
#include "task/item.h"
#include "util/json.h"
#include "util/texts.h"

enum { TASK_SHOTS = 5 }; /* examples by default */

/* Which rows of the pool become the examples of an item. */
enum task_examples {
    EXAMPLES_DRAWN, /* a sample of the pool, drawn anew for each item */
    EXAMPLES_APART, /* one more is drawn, and those equal to the item are left out: where the items
                       are of a split that examples come from too, when there is no test split */
    EXAMPLES_FIRST  /* the first ones */
};

struct task {
    const char *name; /* as in the harness */
    const char *data; /* its data set on the hub, and the splits of items and examples */
    const char *doc;
    bool norm;     /* accuracy_norm is offered */
    bool subjects; /* it consists of tasks NAME_SUBJECT */
    int examples;  /* enum task_examples */
    /* Fills an empty item from a row (item.h). ERR_FORMAT: names the field, without file and line;
     * ERR_NOMEM. */
    enum status (*make)(const json_t *row, struct item *out, struct err *e);
};

/* Line i of the table, NULL behind the last. */
const struct task *task_at(int64_t i);
/* The task of that name, or of a subject of it ("mmlu_anatomy"). *subject = the name behind
 * "mmlu_", NULL: it is not one. ERR_USAGE: there is none, and which is near or which there are. */
MUST_USE enum status task_find(const char *name, const struct task **out, const char **subject,
                               struct err *e);
/* Adds the tasks of a list of names, with commas, blanks or line ends between: a task with subjects
 * as all those whose files are in the folder. ERR_USAGE: an unknown task, or none; ERR_IO: a task
 * without subjects there; ERR_NOMEM. */
MUST_USE enum status task_names(const char *names, const char *folder, struct texts *out,
                                struct err *e);

/* X(piqa) is `const struct task task_piqa`, defined in its file. */
#define TASKS(X)                                                                                   \
    X(arc_challenge)                                                                               \
    X(arc_easy)                                                                                    \
    X(openbookqa)                                                                                  \
    X(piqa)                                                                                        \
    X(hellaswag)                                                                                   \
    X(winogrande)                                                                                  \
    X(mathqa)                                                                                      \
    X(pubmedqa)                                                                                    \
    X(sciq)                                                                                        \
    X(social_iqa)                                                                                  \
    X(commonsense_qa)                                                                              \
    X(mmlu)
#define TASK_DECLARE(name) extern const struct task task_##name;
TASKS(TASK_DECLARE)
