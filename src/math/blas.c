/* The BLAS library in use: threads and name. */
#include "math/isa.h"
#include "math/linalg.h"
#include <cblas.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char name_text[96];
static pthread_once_t name_once = PTHREAD_ONCE_INIT;

void linalg_setup(void)
{
    openblas_set_num_threads(1);
}

/* --- buffers --- */

/* A buffer of OpenBLAS on x86-64 and arm64 (BUFFER_SIZE, 32 << 22); smaller on other machines. */
enum { BUFFER_BYTES = 128 << 20, BUFFERS_MAX = 512 };

/* Of OpenBLAS, which declares them in no header that is installed. Where they are missing, the
 * check of the address space is all that is done. */
void *blas_memory_alloc(int place) __attribute__((weak));
void blas_memory_free(void *buffer) __attribute__((weak));

/* Holds as many buffers at once as threads will; OpenBLAS keeps them for its next calls. */
static void allocate_buffers(int n)
{
    void *buffer[BUFFERS_MAX];
    if (!blas_memory_alloc || !blas_memory_free) return;
    for (int i = 0; i < n; i++) buffer[i] = blas_memory_alloc(0);
    for (int i = 0; i < n; i++) blas_memory_free(buffer[i]);
}

/* Address space of one more thread's stack. */
static int64_t stack_bytes(void)
{
    pthread_attr_t attributes;
    size_t bytes = 8 << 20;
    if (pthread_getattr_default_np(&attributes) == 0) {
        pthread_attr_getstacksize(&attributes, &bytes);
        pthread_attr_destroy(&attributes);
    }
    return (int64_t)bytes;
}

enum status linalg_reserve(int threads, struct err *e)
{
    static int reserved;
    const int n = threads < BUFFERS_MAX ? threads : BUFFERS_MAX;
    if (n <= reserved) return OK;
    const int64_t bytes = (n - reserved) * (BUFFER_BYTES + stack_bytes());
    void *space =
        mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NEED(space != MAP_FAILED, ERR_NOMEM,
         "out of memory: BLAS needs a buffer of %d MiB for each of %d threads, and %lld MiB more "
         "cannot be allocated; raise the limit (ulimit -v), or set OMP_NUM_THREADS to fewer",
         BUFFER_BYTES >> 20, n, (long long)(bytes >> 20));
    munmap(space, (size_t)bytes);
    allocate_buffers(n);
#pragma omp parallel num_threads(n)
    {
#pragma omp single
        reserved = n;
    }
    return OK;
}

/* --- name --- */

/* The config string starts with "OpenBLAS 0.3.21 "; builds older than 0.3 leave that out. The core
 * name is the kernel chosen at run time, which the config string of a DYNAMIC_ARCH build may not
 * have. */
static void name_make(void)
{
    const char *config = openblas_get_config();
    char version[32] = "unknown";
    if (strncmp(config, "OpenBLAS ", 9) == 0) sscanf(config + 9, "%31s", version);
    snprintf(name_text, sizeof name_text, "OpenBLAS %s %s", version, openblas_get_corename());
}

const char *linalg_blas_name(void)
{
    pthread_once(&name_once, name_make);
    return name_text;
}

bool linalg_blas_is_generic(void)
{
    static const char *const cores[] = {"Prescott", "Generic", "Core2", "Katmai", "Unknown"};
    for (size_t i = 0; i < sizeof cores / sizeof *cores; i++)
        if (strcasestr(openblas_get_corename(), cores[i])) return true;
    return false;
}

/* By its path, if it still has one: started as /proc/self/exe a process is called "exe". */
static void start_again(char **argv)
{
    char path[4096];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n > 0) {
        path[n] = '\0';
        execv(path, argv);
    }
    execv("/proc/self/exe", argv);
}

void linalg_choose_kernels(char **argv)
{
    const char *forced = getenv("OPENBLAS_CORETYPE");
    bool again = false;
    if (!(forced && forced[0]) && linalg_blas_is_generic() && isa_runs(ISA_AVX2))
        again = setenv("OPENBLAS_CORETYPE", isa_runs(ISA_AVX512) ? "SkylakeX" : "Haswell", 1) == 0;
    /* The OpenMP library has read the environment already. */
    if (!getenv("OMP_WAIT_POLICY") && !getenv("GOMP_SPINCOUNT"))
        again = setenv("OMP_WAIT_POLICY", "passive", 1) == 0 || again;
    if (again) start_again(argv); /* comes back if it cannot: slower then */
}
