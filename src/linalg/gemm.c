#include "linalg/linalg.h"
#include <cblas.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static char name_text[96];
static pthread_once_t name_once = PTHREAD_ONCE_INIT;

void linalg_setup(void)
{
    openblas_set_num_threads(1);
}

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

void gemm_nt(float *y, int64_t ldy, const float *x, int64_t ldx, const float *w, int64_t ldw,
             int64_t T, int64_t n, int64_t k)
{
    if (T <= 0 || n <= 0) return;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)T, (blasint)n, (blasint)k, 1.0f,
                x, (blasint)ldx, w, (blasint)ldw, 0.0f, y, (blasint)ldy);
}

void gemm_nn(float *y, int64_t ldy, const float *x, int64_t ldx, const float *b, int64_t ldb,
             int64_t T, int64_t n, int64_t k, float beta)
{
    if (T <= 0 || n <= 0) return;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)T, (blasint)n, (blasint)k, 1.0f,
                x, (blasint)ldx, b, (blasint)ldb, beta, y, (blasint)ldy);
}

void gemm_tn(float *y, int64_t ldy, const float *a, int64_t lda, const float *b, int64_t ldb,
             int64_t m, int64_t n, int64_t k, float beta)
{
    if (m <= 0 || n <= 0) return;
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, 1.0f,
                a, (blasint)lda, b, (blasint)ldb, beta, y, (blasint)ldy);
}
