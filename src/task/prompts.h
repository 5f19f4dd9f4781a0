/* prompts: what a model is asked for every item of a task, equal byte for byte to what the harness
 * makes: a description, examples, the question, and the choices. */
#pragma once
#include "task/lines.h"
#include "task/task_table.h"

/* Which data and how many examples. */
struct prompts_choice {
    const char *folder; /* holds NAME.jsonl, and NAME.fewshot.jsonl if there are examples */
    int64_t shots;      /* examples before each question */
    int64_t limit;      /* items at most, the first ones; 0: all */
};

/* One task, or one subject of a task. Zero-initialise. */
struct prompts {
    char *name; /* "piqa", "mmlu_anatomy" */
    const struct task *task;
    char *description; /* before the first example */
    int64_t shots;
    struct lines items, pool; /* pool: rows that examples are taken from */
    int64_t *drawn;           // (items.n, shots) rows of the pool
};
void prompts_free(struct prompts *p);

/* Reads the rows of task `name` and draws the examples. ERR_USAGE: no task has that name, or a
 * number is negative; ERR_IO, ERR_FORMAT: a file, or too few rows to draw from; ERR_NOMEM. */
MUST_USE enum status prompts_open(const char *name, const struct prompts_choice *choice,
                                  struct prompts *out, struct err *e);

/* Adds the digests of the files that it was read from to `files`, {path: digest}. ERR_NOMEM. */
MUST_USE enum status prompts_files(const struct prompts *p, json_t *files, struct err *e);

/* *out (zero-initialised; the caller frees with item_free) = item i, its contexts with description
 * and examples. Thread-safe. ERR_FORMAT with file and line; ERR_NOMEM. */
MUST_USE enum status prompts_item(const struct prompts *p, int64_t i, struct item *out,
                                  struct err *e);
