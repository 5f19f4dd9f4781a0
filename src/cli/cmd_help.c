/* The commands that tell of this binary: help, version. */
#include "cli/args.h"
#include "util/version.h"

static enum status print_help(const char *name, struct err *e)
{
    static char flag[] = "--help";
    char *argv[] = {NULL, flag};
    struct call asked = {.world = MPI_COMM_SELF, .argc = 2, .argv = argv};
    if (!name) {
        cli_print_commands(stdout);
        return OK;
    }
    PASS(cli_command_find(name, &asked.command, e));
    return asked.command->run(&asked, e);
}

/* Of all commands, or of one. */
static enum status print_json(const char *name, struct err *e)
{
    const struct command *command, *only = NULL;
    json_auto_t *list = json_array();
    if (name) PASS(cli_command_find(name, &only, e));
    for (int i = 0; (command = cli_command_at(i)) != NULL; i++) {
        json_t *flags = NULL;
        char *argv[] = {(char *)(uintptr_t)command->name, NULL};
        struct call c = {
            .command = command, .world = MPI_COMM_SELF, .argc = 1, .argv = argv, .flags = &flags};
        if (only && only != command) continue;
        PASS(command->run(&c, e));
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:o}", "name", command->name, "arguments",
                                        command->arguments, "doc", command->doc, "flags", flags));
    }
    return cli_print_json(json_incref(list), JSON_INDENT(1), e);
}

static enum status run_help(struct call *c, struct err *e)
{
    const char *name;
    bool json = false;
    const struct arg table[] = {
        {"--json", ARG_SWITCH, &json, NULL, "print commands and flags as JSON"}};
    const struct args args = {ARGS(table), .optional = 1};
    PASS(args_parse(&args, c, &name, 1, e));
    if (c->help) return OK;
    return json ? print_json(name, e) : print_help(name, e);
}

const struct command cmd_help = {
    .name = "help",
    .arguments = "[COMMAND] [--json]",
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
