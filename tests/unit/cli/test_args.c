/* Flags of a command: values, lists, invalid ones, --help, flags that a callback handles. */
#include "cli/args.h"
#include "scratch.h"

enum { WORDS_MAX = 12 };

static const char *const colours[] = {"red", "green", NULL};

/* Keys of an options table beside the flags of the command. */
struct wheel {
    int64_t spokes;
    bool shiny;
};
static const struct option wheel_keys[] = {
    OPTION(wheel, spokes, INT, "spokes of a wheel", .fallback = "12", .low = 1, .high = 99),
    OPTION(wheel, shiny, BOOL, "polished", .fallback = "true", .unset = "dull"),
};
static const struct option_table wheel_table = {OPTION_ROWS(wheel_keys, wheel)};

struct parsed {
    bool on, help;
    const char *text, *positional[2];
    int64_t number;
    struct texts list;
    struct arg_choice colour;
    struct wheel wheel;
};

/* Parses the words of a line, two of which are no flags. */
static enum status parse(const char *line, struct parsed *p, struct err *e)
{
    static const struct command command = {
        .name = "command", .arguments = "A B", .doc = "a command"};
    static char words[200], name[] = "command";
    char *argv[WORDS_MAX] = {name};
    struct call c = {.command = &command, .world = MPI_COMM_SELF, .argc = 1, .argv = argv};
    *p = (struct parsed){.text = "unset", .colour.words = colours};
    const struct arg table[] = {
        {"--on", ARG_SWITCH, &p->on, NULL, "a switch"},
        {"--text", ARG_TEXT, &p->text, "TEXT", "a text"},
        {"--number", ARG_INTEGER, &p->number, "N", "a number"},
        {"--list", ARG_LIST, &p->list, "X", "may repeat"},
        {"--colour", ARG_CHOICE, &p->colour, "COLOUR", "a colour"},
    };
    const struct arg_keys keys[] = {{"wheels:", &wheel_table, "rear-", &p->wheel, NULL}};
    const struct args args = {ARGS(table), ARGS_KEYS(keys)};
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) argv[c.argc++] = word;
    err_clear(e);
    enum status st = args_parse(&args, &c, p->positional, 2, e);
    p->help = c.help;
    return st;
}

static void values_stand_after_a_flag_or_in_it(void **state)
{
    (void)state;
    struct err e = {0};
    struct parsed p;
    if (parse("--text=a=b one --on --number -3 --list x two --list=y -", &p, &e) == OK)
        fail_msg("- is a third positional word");
    texts_free(&p.list);
    if (parse("--text=a=b one --on --number -3 --list x two --list=y", &p, &e) != OK)
        fail_msg("%s", e.text);
    assert_true(p.on && !p.help);
    assert_string_equal(p.text, "a=b");
    assert_int_equal(p.number, -3);
    assert_int_equal(p.list.n, 2);
    assert_string_equal(p.list.text[0], "x");
    assert_string_equal(p.list.text[1], "y");
    assert_string_equal(p.positional[0], "one");
    assert_string_equal(p.positional[1], "two");
    texts_free(&p.list);
    assert_null(p.list.text);
    assert_int_equal(parse("one --rear-spokes=32 two --rear-shiny --rear-dull", &p, &e), OK);
    assert_int_equal(p.wheel.spokes, 32);
    assert_false(p.wheel.shiny);
    assert_int_equal(parse("one two --colour green", &p, &e), OK);
    assert_string_equal(p.colour.word, "green");
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"", "usage: qtraj command A B"},
        {"one", "usage: qtraj command A B"},
        {"one two three", "three: unexpected"},
        {"one two --onn", "--onn: unknown flag, did you mean --on? (qtraj command --help"},
        {"one two --rear-spoke=3", "unknown flag, did you mean --rear-spokes?"},
        {"one two --rear-dul", "unknown flag, did you mean --rear-dull?"},
        {"one two --altogether-different", "unknown flag (qtraj command --help lists them)"},
        {"one two --colour gren", "--colour gren: unknown, did you mean green?"},
        {"one two --colour mauve", "--colour mauve: unknown; there are: red, green"},
        {"one two --rear-spokes 0", "--rear-spokes: expected an integer from 1 to 99"},
        {"one two --on=yes", "--on takes no value"},
        {"one two --text", "--text needs a value: TEXT"},
        {"one two --number 1.5", "--number: \"1.5\" is not an integer"},
        {"one two --number=", "is not an integer"},
        {"one two --text a --text=a", "--text is given twice; it takes one value"},
        {"--colour red one --on two --on --colour red", "--colour is given twice"},
        {"one two --number 99999999999999999999", "is not an integer"},
    };
    struct err e = {0};
    struct parsed p;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(parse(bad[i][0], &p, &e), ERR_USAGE);
        if (!strstr(e.text, bad[i][1])) fail_msg("%s: %s", bad[i][0], e.text);
    }
}

/* --help needs no other argument. */
static void help_needs_no_other_argument(void **state)
{
    (void)state;
    struct err e = {0};
    struct parsed p;
    assert_int_equal(parse("--help", &p, &e), OK);
    assert_true(p.help);
    assert_int_equal(parse("one two -h --no-such-flag", &p, &e), OK);
    assert_true(p.help);
    assert_int_equal(parse("--no-such-flag -h", &p, &e), OK);
    assert_true(p.help);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_stand_after_a_flag_or_in_it),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(help_needs_no_other_argument),
    };
    MPI_Init(&argc, &argv);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
