/* The commands that tell of this binary: help, version, manuals. */
#include "cli/args.h"
#include "cli/manual.h"
#include "util/log.h"
#include "util/version.h"

static enum status run_help(struct call *c, struct err *e)
{
    const char *name;
    const struct args args = {.optional = 1};
    PASS(args_parse(&args, c, &name, 1, e));
    if (c->help) return OK;
    if (!name) {
        cli_print_commands(stdout);
        return OK;
    }
    static char flag[] = "--help";
    char *argv[] = {NULL, flag};
    struct call asked = {.world = MPI_COMM_SELF, .argc = 2, .argv = argv};
    PASS(cli_command_find(name, &asked.command, e));
    return asked.command->run(&asked, e);
}

const struct command cmd_help = {
    .name = "help",
    .arguments = "[COMMAND]",
    .doc = "list the commands, or the arguments and flags of one",
    .run = run_help,
};

static enum status run_version(struct call *c, struct err *e)
{
    PASS(args_parse(&(struct args){0}, c, NULL, 0, e));
    if (!c->help) printf("qtraj %s\n", version_text);
    return OK;
}

const struct command cmd_version = {
    .name = "version",
    .arguments = "",
    .doc = "print the version and the commit it was built from",
    .run = run_version,
};

static enum status run_manuals(struct call *c, struct err *e)
{
    const char *folder;
    PASS(args_parse(&(struct args){0}, c, &folder, 1, e));
    if (c->help) return OK;
    PASS(manual_write(folder, e));
    log_info("%s: man/, bash-completion/completions/, zsh/site-functions/", folder);
    return OK;
}

const struct command cmd_manuals = {
    .name = "manuals",
    .arguments = "FOLDER",
    .doc = "write man pages and completion for bash and zsh into a folder such as /usr/share",
    .run = run_manuals,
};
