/* The BLAS library in use: threads and name. */
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
