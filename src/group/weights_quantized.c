/* Quantized weights as a source: the engine quantizes the base into a file over it. */
#include "checkpoint/derived.h"
#include "group/part.h"
#include "group/weights_file.h"
#include <stdlib.h>
#include <unistd.h>

static enum status write_linear(void *context, const struct variant *v, const struct linear *l,
                                const float *q, struct err *e)
{
    (void)v;
    return safetensors_append(context, q, l->rows * l->cols, e);
}

enum status weights_quantize(const struct weights *w, const struct part_context *context,
                             struct checkpoint *base, struct checkpoint **out, struct err *e)
{
    enum status st = OK;
    struct safetensors_out *file = NULL;
    char *path = NULL;
    ENSURE(context, ERR_USAGE, "%s: weights are quantized within a visit only",
           checkpoint_dir(base));
    st = weights_file_scratch(context->visit->run.scratch, -1, &path, e);
    if (st == OK) st = weights_file_create(base, path, NULL, &file, e);
    TRY(group_agree(context->group, st, e));
    const struct weights_sink sink = {file, write_linear};
    TRY(context->engine->quantize(context, base, &w->variant, &sink, e));
    TRY(group_agree(context->group, safetensors_commit(file, e), e));
    TRY(checkpoint_overlay(base, path, out, e));
done:
    safetensors_out_close(file);
    /* Held open as long as it is needed, without a name. */
    if (path) unlink(path);
    free(path);
    return st;
}
