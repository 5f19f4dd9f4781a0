/* qtraj: post-training quantization along training runs. Starts and ends MPI; commands: cli/. */
#include "cli/cli.h"
#include "math/linalg.h"
#include "util/json.h"
#include "util/mem.h"
#include "util/temporary.h"
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int provided;
    bool detached;
    linalg_choose_kernels(argv);
    /* A closed pipe and a file that has reached its size limit then fail as a full disk does. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGCHLD, SIG_DFL); /* ignored by a parent: waitpid would find no child */
    temporary_catch_signals();
    json_setup();
    if (cli_without_mpi(argc, argv)) return cli_main(MPI_COMM_NULL, argc, argv, &detached);
    int early;
    if (cli_ends_early(argc, argv, &early)) return early;
    cli_before_mpi(argc, argv);
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
        fprintf(stderr, "qtraj: error: MPI cannot be initialised\n");
        return EXIT_INTERNAL;
    }
    mem_setup();
    linalg_setup();
    int code = cli_main(MPI_COMM_WORLD, argc, argv, &detached);
    if (detached) {
        fflush(NULL);
        _exit(code);
    }
    MPI_Finalize();
    return code;
}
