/* requests: what of tasks goes through a model: token sequences, and where in them continuations
 * are scored. A request is one choice of an item: its context and its continuation.
 *
 * A sequence holds the items of about REQUESTS_PACK tokens. What several requests have in common
 * goes through the model once: the context of an item's choices, and the examples that all items of
 * a task begin with (model/sequences.h: segments). Continuations of one token need no tokens of
 * their own. Requests of an item with equal tokens are scored once: so equal choices have equal
 * log-likelihoods, and no rounding decides between them.
 */
#pragma once
#include "eval/head.h"
#include "task/prompts.h"
#include "tokenizer/tokenizer.h"

enum { REQUESTS_PACK = 2048 };

struct requests_options {
    char *tasks;          /* names, with commas between */
    char *folder;         /* of their data */
    int64_t shots, limit; /* as in struct prompts_choice */
    bool apart;           /* every request is a sequence of its own; slower, for comparison */
};

struct request_task {
    char *name; /* "piqa", "mmlu_anatomy" */
    const struct task *task;
    int64_t first; /* item */
};
struct request_item {
    int64_t gold;   /* choice, or GOLD_NONE */
    int64_t first;  /* request */
    bool truncated; /* a request of it is longer than the model and lost its first tokens */
};
struct request {
    int64_t chars;  /* of the choice, without the blank before it */
    int64_t tokens; /* of the continuation */
    int64_t scored; /* the first request of the item with the same tokens, itself as a rule */
};

/* Zero-initialise. */
struct requests {
    int64_t n_tasks, n_items, n;
    struct request_task *tasks; // (n_tasks + 1)
    struct request_item *items; // (n_items + 1)
    struct request *list;       // (n)
    struct sequences sequences;
    int64_t *first_request; // (sequences.n + 1) requests that a sequence holds, in order
    int64_t *first_span;    // (sequences.n + 1)
    struct span *spans;     /* of the continuations; unit: the request. One that is scored has one
                               or two */
    int32_t *targets;       /* which spans point to */
    json_t *files;          /* {path: digest} of the data that they were made of */
};
void requests_free(struct requests *r);

/* Makes the requests of the tasks, for a model of `positions` positions: of a longer request the
 * last tokens are used. Parallel inside; the result does not depend on the number of threads.
 * ERR_USAGE: an unknown task, or none; ERR_IO, ERR_FORMAT: the data, with file and line; ERR_NOMEM.
 */
MUST_USE enum status requests_make(const struct requests_options *o, const struct tokenizer *t,
                                   int64_t positions, struct requests *out, struct err *e);
