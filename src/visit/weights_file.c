#include "visit/weights_file.h"
#include "model/describe.h"
#include "util/mem.h"
#include <stdlib.h>

enum status weights_file_create(const struct checkpoint *c, const char *path,
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
done:
    free(tensors);
    free(shapes);
    return st;
}
