#include "group/weights_folder.h"
#include "checkpoint/folder_copy.h"
#include "model/describe.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>

struct weights_folder {
    const struct checkpoint *checkpoint;
    json_t *config;
    int64_t copied, n;            /* tensors that are copied; all, the linears behind them */
    struct tensor_shape *tensors; // (n) names are the checkpoint's
    struct folder_out *out;
};

static bool is_linear(const struct tensor_description *list, int64_t n, const char *name)
{
    for (int64_t i = 0; i < n; i++)
        if (list[i].linear && strcmp(list[i].name, name) == 0) return true;
    return false;
}

/* First the tensors that are copied, then the linears in the visit's order. */
static enum status list_tensors(struct weights_folder *f, struct err *e)
{
    enum status st = OK;
    const struct checkpoint *c = f->checkpoint;
    struct tensor_description *list = NULL;
    int64_t n = 0;
    TRY(model_parameters(c, &list, &n, e));
    TRY(mem_zero(&f->tensors, checkpoint_n_tensors(c), sizeof *f->tensors, "tensors", e));
    for (int64_t i = 0; i < checkpoint_n_tensors(c); i++) {
        const struct tensor_entry *t = checkpoint_tensor(c, i);
        if (!is_linear(list, n, t->name)) f->tensors[f->n++] = folder_shape(t);
    }
    f->copied = f->n;
    for (int64_t i = 0; i < n; i++) {
        if (!list[i].linear) continue;
        const struct tensor_entry *t = checkpoint_find(c, list[i].name);
        ENSURE(t, ERR_FORMAT, "%s: no tensor %s", checkpoint_dir(c), list[i].name);
        f->tensors[f->n] = folder_shape(t);
        f->tensors[f->n++].dtype = DTYPE_F32;
    }
done:
    free(list);
    return st;
}

static enum status begin(struct weights_folder *f, const char *tokenizer, const char *path,
                         struct err *e)
{
    PASS(list_tensors(f, e));
    f->config = json_deep_copy(checkpoint_config(f->checkpoint));
    NEED(f->config, ERR_NOMEM, "out of memory for config.json");
    PASS(folder_set_dtype(f->config, "float32", e));
    const struct folder_plan plan = {.config = f->config,
                                     .n = f->n,
                                     .tensors = f->tensors,
                                     .source = checkpoint_dir(f->checkpoint),
                                     .tokenizer = tokenizer};
    PASS(folder_create(path, &plan, &f->out, e));
    for (int64_t i = 0; i < f->copied; i++)
        PASS(folder_copy_tensor(f->out, f->checkpoint, f->tensors[i].name, e));
    return OK;
}

enum status weights_folder_create(const struct checkpoint *c, const char *tokenizer,
                                  const char *path, struct weights_folder **out, struct err *e)
{
    *out = NULL;
    PASS(mem_zero(out, 1, sizeof **out, path, e));
    (*out)->checkpoint = c;
    checkpoint_retain(c);
    return begin(*out, tokenizer, path, e);
}

enum status weights_folder_linear(struct weights_folder *f, const struct linear *l, const float *q,
                                  struct err *e)
{
    return folder_append(f->out, l->name, q, l->rows * l->cols, e);
}

enum status weights_folder_commit(struct weights_folder *f, struct err *e)
{
    return folder_commit(f->out, e);
}

void weights_folder_close(struct weights_folder *f)
{
    if (!f) return;
    folder_close(f->out);
    free(f->tensors);
    json_decref(f->config);
    checkpoint_close((struct checkpoint *)(uintptr_t)f->checkpoint);
    free(f);
}
