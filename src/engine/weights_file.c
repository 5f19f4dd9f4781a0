#include "engine/weights_file.h"
#include "memory/states.h"
#include "model/describe.h"
#include "util/mem.h"
#include "util/temporary.h"
#include <stdlib.h>

enum status weights_file_scratch(const char *scratch, char **path, struct err *e)
{
    enum status st = OK;
    char *folder = NULL, *name = NULL;
    int64_t bytes;
    TRY(scratch_find(scratch, 1, &folder, &bytes, e));
    ENSURE(folder, ERR_USAGE,
           "no place for quantized weights: surfaces and second_order keep them on scratch, name a "
           "folder with run.scratch");
    TRY(mem_format(&name, e, "%s/qtraj-weights", folder));
    TRY(temporary_begin(name, path, e));
done:
    free(name);
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
