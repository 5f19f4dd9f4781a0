/* Flags of a command: values, lists, invalid ones, --help, flags that a callback handles. */
#include "cli/args.h"
#include "scratch.h"

enum { WORDS_MAX = 12 };

struct parsed {
    bool on, help;
    const char *text, *positional[2];
    int64_t number;
    struct arg_list list;
};

/* Takes --other and the next word. */
static enum status other(void *context, int argc, char **argv, int *used, struct err *e)
{
    (void)e;
    if (strcmp(argv[0], "--other") != 0 || argc < 2) return OK;
    *(const char **)context = argv[1];
    *used = 2;
    return OK;
}

/* Parses the words of a line, two of which are no flags. */
static enum status parse(const char *line, struct parsed *p, struct err *e)
{
    static const struct command command = {.name = "command", .arguments = "command A B"};
    static char words[200], name[] = "command";
    char *argv[WORDS_MAX] = {name};
    struct call c = {.command = &command, .world = MPI_COMM_SELF, .argc = 1, .argv = argv};
    *p = (struct parsed){.text = "unset"};
    const struct arg table[] = {
        {"--on", ARG_SWITCH, &p->on, NULL, "a switch"},
        {"--text", ARG_TEXT, &p->text, "TEXT", "a text"},
        {"--number", ARG_INTEGER, &p->number, "N", "a number"},
        {"--list", ARG_LIST, &p->list, "X", "may repeat"},
    };
    const struct args args = {ARGS(table), .other = other, .context = &p->text};
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) argv[c.argc++] = word;
    err_clear(e);
    enum status st = args_parse(&args, &c, p->positional, 2, e);
    p->help = c.help;
    return st;
}

static void values(void **state)
{
    (void)state;
    struct err e = {0};
    struct parsed p;
    if (parse("--text=a=b one --on --number -3 --list x two --list=y -", &p, &e) == OK)
        fail_msg("- is a third positional word");
    arg_list_free(&p.list);
    if (parse("--text=a=b one --on --number -3 --list x two --list=y", &p, &e) != OK)
        fail_msg("%s", e.text);
    assert_true(p.on && !p.help);
    assert_string_equal(p.text, "a=b");
    assert_int_equal(p.number, -3);
    assert_int_equal(p.list.n, 2);
    assert_string_equal(p.list.items[0], "x");
    assert_string_equal(p.list.items[1], "y");
    assert_string_equal(p.positional[0], "one");
    assert_string_equal(p.positional[1], "two");
    arg_list_free(&p.list);
    assert_null(p.list.items);
    assert_int_equal(parse("one --other way two", &p, &e), OK);
    assert_string_equal(p.text, "way");
}

static void refusals(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"", "usage: qtraj command A B"},
        {"one", "usage: qtraj command A B"},
        {"one two three", "three: unexpected"},
        {"one two --onn", "--onn: unknown flag"},
        {"one two --on=yes", "--on takes no value"},
        {"one two --text", "--text needs a value: TEXT"},
        {"one two --number 1.5", "--number: \"1.5\" is not an integer"},
        {"one two --number=", "is not an integer"},
        {"one two --number 99999999999999999999", "is not an integer"},
        {"one two --other", "--other: unknown flag"},
    };
    struct err e = {0};
    struct parsed p;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(parse(bad[i][0], &p, &e), ERR_USAGE);
        if (!strstr(e.text, bad[i][1])) fail_msg("%s: %s", bad[i][0], e.text);
    }
}

/* --help needs no other argument. */
static void help(void **state)
{
    (void)state;
    struct err e = {0};
    struct parsed p;
    assert_int_equal(parse("--help", &p, &e), OK);
    assert_true(p.help);
    assert_int_equal(parse("one two -h --no-such-flag", &p, &e), OK);
    assert_true(p.help);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(refusals),
        cmocka_unit_test(help),
    };
    MPI_Init(&argc, &argv);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
