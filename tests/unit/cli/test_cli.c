/* Exit codes, the same on all ranks, and output on stdout and stderr. NP: 1 3 */
#include "cli/cli.h"
#include "scratch.h"
#include <fcntl.h>

static int rank;

/* Runs the words as a command on all ranks; out and err: what rank 0 printed. */
static int run(const char *line, char out[8000], char err[8000])
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
    int code = cli_main(MPI_COMM_WORLD, argc, argv);
    fflush(stdout);
    for (int i = 0; i < 2; i++) {
        ssize_t n = pread(i + 1, texts[i], 7999, 0);
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

static void commands(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int code;
        const char *out, *err; /* what rank 0 prints, "": nothing */
    } cases[] = {
        {"", 2, "", "usage: qtraj COMMAND"},
        {"help", 0, "usage: qtraj COMMAND", ""},
        {"nonsense", 2, "", "qtraj: error: nonsense: unknown command"},
        {"methods", 0, "gptq", ""},
        {"methods --nonsense", 2, "", "qtraj: error: --nonsense: unknown flag"},
        {"eval --help", 0, "usage: qtraj eval DIR", ""},
        {"eval " FIXTURES "/absent --ids x", 2, "", "qtraj: error: "},
        {"run --help", 0, "usage: qtraj run", ""},
        {"run " FIXTURES "/absent.yaml", 2, "", "absent.yaml: No such file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[8000], err[8000];
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
    int code = cli_main(MPI_COMM_WORLD, 2, argv);
    clearerr(stdout);
    assert_true(dup2(before, 1) >= 0);
    assert_int_equal(code, 2);
    close(before);
    close(full);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_codes_of_statuses),
        cmocka_unit_test(commands),
        cmocka_unit_test(output_that_cannot_be_written),
    };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
