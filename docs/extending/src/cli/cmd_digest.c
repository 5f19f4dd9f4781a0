/* qtraj digest: the digest of a checkpoint, by which records know its weights. */
#include "checkpoint/checkpoint.h"
#include "cli/args.h"
#include "cli/cli.h"

static enum status run(struct call *c, struct err *e)
{
    const char *path = NULL;
    struct checkpoint *checkpoint = NULL;
    PASS(args_parse(&(struct args){0}, c, &path, 1, e));
    if (c->help) return OK;
    PASS(checkpoint_open(path, &checkpoint, e));
    puts(checkpoint_hash(checkpoint));
    checkpoint_close(checkpoint);
    return OK;
}

const struct command cmd_digest = {
    .name = "digest",
    .arguments = "DIR",
    .doc = "print the digest of a checkpoint",
    .without_mpi = true,
    .run = run,
};
