/* Exit codes, the same on all ranks, and output on stdout and stderr. NP: 1 3 */
#include "cli/cli.h"
#include "scratch.h"
#include <fcntl.h>

enum { OUT = 40000 };

static int rank;

/* Runs the words as a command on all ranks; out and err: what rank 0 printed. */
static int run(const char *line, char out[OUT], char err[OUT])
{
    static char words[600], name[] = "qtraj";
    static const char *const names[] = {"out", "err"};
    char *argv[12] = {name}, *texts[] = {out, err};
    int argc = 1, before[2];
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) argv[argc++] = word;
    fflush(stdout);
    for (int i = 0; i < 2; i++) {
        before[i] = dup(i + 1);
        int fd = open(scratch_path(names[i]), O_RDWR | O_CREAT | O_TRUNC, 0600);
        assert_true(before[i] >= 0 && fd >= 0 && dup2(fd, i + 1) >= 0);
        close(fd);
    }
    bool apart;
    int code = cli_main(MPI_COMM_WORLD, argc, argv, &apart);
    fflush(stdout);
    for (int i = 0; i < 2; i++) {
        ssize_t n = pread(i + 1, texts[i], OUT - 1, 0);
        texts[i][n > 0 ? n : 0] = '\0';
        assert_true(dup2(before[i], i + 1) >= 0);
        close(before[i]);
    }
    return code;
}

static void exit_codes_of_statuses(void **state)
{
    (void)state;
    static const struct {
        enum status status;
        int code;
    } cases[] = {
        {OK, 0},          {ERR_USAGE, 2},  {ERR_SHAPE, 2},   {ERR_IO, 2},
        {ERR_FORMAT, 2},  {ERR_LOCKED, 2}, {ERR_NUMERIC, 2}, {ERR_FULL, 3},
        {ERR_STOPPED, 3}, {ERR_NOMEM, 4},  {ERR_MPI, 4},     {ERR_PEER, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(cli_exit_code(cases[i].status), cases[i].code);
}

static void each_command_line_has_its_code_and_output(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int code;
        const char *out, *err; /* what rank 0 prints, "": nothing */
    } cases[] = {
        {"", 2, "", "usage: qtraj COMMAND"},
        {"help", 0, "usage: qtraj COMMAND", ""},
        {"help", 0, "\n  quantize       quantize one checkpoint", ""},
        {"--help", 0, "usage: qtraj COMMAND", ""},
        {"-h", 0, "usage: qtraj COMMAND", ""},
        {"help show", 0, "usage: qtraj show RESULTS", ""},
        {"help shwo", 2, "", "qtraj: error: shwo: unknown command, did you mean show?\n"},
        {"version", 0, "qtraj ", ""},
        {"--version", 0, "qtraj ", ""},
        {"-V", 0, "qtraj ", ""},
        {"version -h", 0, "usage: qtraj version\n", ""},
        {"inspect " FIXTURES, 2, "", ": no config.json: a checkpoint is a folder"},
        {"nonsense", 2, "",
         "qtraj: error: nonsense: unknown command; there are: init, run, launch, watch, slurm, "},
        {"qantize x", 2, "", "qtraj: error: qantize: unknown command, did you mean quantize?\n"},
        {"methods", 0, "gptq", ""},
        {"methods --nonsense", 2, "", "qtraj: error: --nonsense: unknown flag"},
        {"methods --jsn", 2, "", "--jsn: unknown flag, did you mean --json?"},
        {"eval --help", 0, "usage: qtraj eval DIR", ""},
        {"eval " FIXTURES "/absent --ids x", 2, "", "qtraj: error: "},
        {"run --help", 0, "usage: qtraj run", ""},
        {"run x.yaml --retry all", 2, "", "--retry all: unknown; there are: failed"},
        {"run " FIXTURES "/absent.yaml", 2, "", "absent.yaml: No such file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static char out[OUT], err[OUT];
        const char *wanted[] = {cases[i].out, cases[i].err}, *found[] = {out, err};
        int code = run(cases[i].line, out, err);
        if (code != cases[i].code) fail_msg("qtraj %s: %d\n%s", cases[i].line, code, err);
        for (int k = 0; k < 2; k++) {
            bool nothing = !wanted[k][0] || rank != 0;
            if (nothing ? found[k][0] != '\0' : !strstr(found[k], wanted[k]))
                fail_msg("qtraj %s printed \"%s\", not \"%s\"", cases[i].line, found[k], wanted[k]);
        }
    }
}

/* -h and --help of every command print its usage and that flag; no line is longer than the page,
 * and the error of a typo is the last line. */
static void help_of_every_command(void **state)
{
    (void)state;
    static char out[OUT], err[OUT];
    char line[100];
    const struct command *command;
    setenv("COLUMNS", "60", 1);
    for (int i = 0; (command = cli_command_at(i)) != NULL; i++) {
        for (int k = 0; k < 3; k++) {
            static const char *const forms[] = {"%s -h", "%s x --help --no-such", "help %s"};
            snprintf(line, sizeof line, forms[k], command->name);
            assert_int_equal(run(line, out, err), 0);
            assert_string_equal(err, "");
            if (rank != 0) continue;
            snprintf(line, sizeof line, "usage: qtraj %s", command->name);
            assert_memory_equal(out, line, strlen(line));
            assert_non_null(strstr(out, "\n  --help "));
            for (const char *p = out; *p; p += strcspn(p, "\n") + 1)
                if (strcspn(p, "\n") > 60) fail_msg("%s: %.*s", line, (int)strcspn(p, "\n"), p);
        }
        assert_true(command->doc[0] && command->doc[strlen(command->doc) - 1] != '.');
    }
    assert_int_equal(run("", out, err), 2);
    if (rank == 0) assert_non_null(strstr(err, "\nqtraj: error: a command is missing\n"));
    unsetenv("COLUMNS");
}

/* If stdout is redirected to a full disk, the command must fail. */
static void output_that_cannot_be_written(void **state)
{
    (void)state;
    int before = dup(1), full = open("/dev/full", O_WRONLY);
    static char name[] = "qtraj", command[] = "methods";
    char *argv[] = {name, command};
    if (full < 0) skip();
    fflush(stdout);
    assert_true(dup2(full, 1) >= 0);
    bool apart;
    int code = cli_main(MPI_COMM_WORLD, 2, argv, &apart);
    clearerr(stdout);
    assert_true(dup2(before, 1) >= 0);
    assert_int_equal(code, 3);
    close(before);
    close(full);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_codes_of_statuses),
        cmocka_unit_test(each_command_line_has_its_code_and_output),
        cmocka_unit_test(help_of_every_command),
        cmocka_unit_test(output_that_cannot_be_written),
    };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
