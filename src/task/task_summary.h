/* task_summary: what a task's data are, found out before any model is asked: every item is made
 * once, so that a malformed row is an error before a long run and not in it. */
#pragma once
#include "task/prompts.h"
#include "util/hash.h"

struct task_summary {
    int64_t items;
    double bytes;        /* of all contexts, one for choices that share it, and choices */
    char hash[HASH_HEX]; /* of the names and files of the task, or of its subjects */
};

/* Of a task, or of all subjects of one whose files are in the folder. Adds the digests of the files
 * that it reads to `files`, {path: digest}. Parallel inside. ERR_USAGE: an unknown task; ERR_IO,
 * ERR_FORMAT: the data, with file and line; ERR_NOMEM. */
MUST_USE enum status task_summarize(const char *name, const struct prompts_choice *choice,
                                    json_t *files, struct task_summary *out, struct err *e);
