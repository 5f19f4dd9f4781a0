#include "visit/weights_file.h"
#include "model/describe.h"
#include "util/mem.h"
#include "visit/states.h"
#include <stdlib.h>
#include <unistd.h>

enum status weights_file_scratch(const struct visit *v, int64_t i, char **path, struct err *e)
{
    enum status st = OK;
    char *folder = NULL, host[256] = "";
    int64_t room;
    TRY(scratch_find(v->run.scratch, 1, &folder, &room, e));
    ENSURE(folder, ERR_USAGE,
           "no place for quantized weights: surfaces and second_order keep them on scratch, name a "
           "folder with run.scratch");
    /* The folder may be one of several nodes. */
    gethostname(host, sizeof host - 1);
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
                tensors[i].name, 2, {tensors[i].shape[0], tensors[i].shape[1]}};
    TRY(safetensors_create(path, shapes, linears, out, e));
    if (n_linears) *n_linears = linears;
done:
    free(tensors);
    free(shapes);
    return st;
}
