#include "group/weights_file.h"
#include "memory/states.h"
#include "model/describe.h"
#include "util/mem.h"
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The id of the process that made a file "qtraj-HOST-PID-NUMBER-weights.safetensors..."; 0: not
 * such a file, or another host's. */
static long process_of(const char *name, const char *host)
{
    const char *p = name + strlen("qtraj-"), tail[] = "-weights.safetensors";
    char *end;
    size_t n = strlen(host);
    if (strncmp(name, "qtraj-", strlen("qtraj-")) != 0 || strncmp(p, host, n) != 0) return 0;
    if (p[n] != '-') return 0;
    long pid = strtol(p + n + 1, &end, 10);
    if (*end != '-') return 0;
    strtol(end + 1, &end, 10);
    return strncmp(end, tail, strlen(tail)) == 0 && pid > 0 ? pid : 0;
}

/* Removes the files that killed processes of this host left; they may be as large as the model. */
static void remove_leftovers(const char *folder, const char *host)
{
    DIR *dir = opendir(folder);
    for (struct dirent *d; dir && (d = readdir(dir)) != NULL;) {
        long pid = process_of(d->d_name, host);
        if (pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH)
            unlinkat(dirfd(dir), d->d_name, 0);
    }
    if (dir) closedir(dir);
}

enum status weights_file_scratch(const char *scratch, int64_t i, char **path, struct err *e)
{
    enum status st = OK;
    char *folder = NULL, host[256] = "";
    int64_t bytes;
    TRY(scratch_find(scratch, 1, &folder, &bytes, e));
    ENSURE(folder, ERR_USAGE,
           "no place for quantized weights: surfaces and second_order keep them on scratch, name a "
           "folder with run.scratch");
    /* Several nodes may share the folder. */
    gethostname(host, sizeof host - 1);
    remove_leftovers(folder, host);
    TRY(mem_format(path, e, "%s/qtraj-%s-%ld-%lld-weights.safetensors", folder, host,
                   (long)getpid(), (long long)i));
done:
    free(folder);
    return st;
}

enum status weights_file_create(const struct checkpoint *c, const char *path, int64_t *n_linears,
                                struct safetensors_out **out, struct err *e)
{
    enum status st = OK;
    struct tensor_description *tensors = NULL;
    struct tensor_shape *shapes = NULL;
    int64_t n = 0, linears = 0;
    TRY(model_parameters(c, &tensors, &n, e));
    TRY(mem_alloc(&shapes, n, sizeof *shapes, path, e));
    for (int64_t i = 0; i < n; i++)
        if (tensors[i].linear)
            shapes[linears++] = (struct tensor_shape){
                tensors[i].name, DTYPE_F32, 2, {tensors[i].shape[0], tensors[i].shape[1]}};
    TRY(safetensors_create(path, shapes, linears, out, e));
    if (n_linears) *n_linears = linears;
done:
    free(tensors);
    free(shapes);
    return st;
}
