/* Where the files of a visit's tokenizers are. */
#include "engine/inputs.h"
#include "util/fsx.h"
#include "util/mem.h"

enum status visit_tokenizer(const char *checkpoint, char **path, struct err *e)
{
    AUTO_FREE char *file = NULL;
    *path = NULL;
    PASS(mem_format(&file, e, "%s/tokenizer.json", checkpoint));
    if (!fsx_is_file(file)) {
        free(file);
        file = NULL;
        PASS(mem_format(&file, e, "%s/../tokenizer.json", checkpoint));
    }
    if (fsx_is_file(file)) *path = TAKE(file);
    return OK;
}

enum status visit_find_tokenizer(const struct visit *v, bool text, char **path, struct err *e)
{
    char *found;
    if (!text) return mem_string(path, "", e);
    if (v->tokenizer) return mem_string(path, v->tokenizer, e);
    PASS(visit_tokenizer(weights_folder(&v->weights), &found, e));
    NEED(found, ERR_IO,
         "%s: no tokenizer.json there or in the folder above; name one with the sweep file's "
         "models[].tokenizer or --tokenizer",
         weights_folder(&v->weights));
    *path = found;
    return OK;
}

enum status visit_common_tokenizer(const char *name, char **path, struct err *e)
{
    if (fsx_is_dir(name))
        PASS(mem_format(path, e, "%s/tokenizer.json", name));
    else
        PASS(mem_string(path, name, e));
    if (fsx_is_file(*path)) return OK;
    enum status st =
        err_set(e, ERR_IO, __FILE__, __LINE__, "count_tokens: %s: no such file", *path);
    free(*path);
    *path = NULL;
    return st;
}
