#include "tokenizer/eos.h"
#include "util/fsx.h"
#include "util/json.h"
#include "util/mem.h"
#include <stdlib.h>

/* In order of precedence: texts before ids, the files of the tokenizer first. */
struct place {
    const char *file, *key;
};
static const struct place eos_places[] = {
    {"tokenizer_config.json", "eos_token"},
    {"special_tokens_map.json", "eos_token"},
    {"config.json", "eos_token_id"},
    {"generation_config.json", "eos_token_id"},
    {0},
};
static const struct place pad_places[] = {
    {"tokenizer_config.json", "pad_token"},
    {"special_tokens_map.json", "pad_token"},
    {0},
};

enum { EOS_BYTES_MAX = 16 << 20 };

void eos_free(struct eos *x)
{
    free(x->token);
    x->token = NULL;
}

/* Reads "</s>", {"content": "</s>"}, 2 or [2, 3]; anything else, null included, names no token. */
static enum status take(const json_t *value, struct eos *out, struct err *e)
{
    if (json_is_array(value)) value = json_array_get(value, 0);
    if (json_is_object(value)) value = json_object_get(value, "content");
    if (json_is_string(value)) return mem_string(&out->token, json_string_value(value), e);
    json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    out->id = id >= 0 && id <= INT32_MAX ? (int32_t)id : -1;
    return OK;
}

static enum status ask(const char *folder, const char *file, const char *key, struct eos *out,
                       struct err *e)
{
    enum status st = OK;
    char *path = NULL;
    json_t *root = NULL;
    TRY(fsx_join(folder, file, &path, e));
    if (!fsx_is_file(path)) goto done;
    TRY(json_read_file(path, EOS_BYTES_MAX, &root, e));
    ENSURE(json_is_object(root), ERR_FORMAT, "%s: expected a JSON object", path);
    out->file = file;
    TRY(take(json_object_get(root, key), out, e));
done:
    json_decref(root);
    free(path);
    return st;
}

/* The first of the places beside the tokenizer.json that names a token; none may. */
static enum status ask_first(const char *path, const struct place *at, struct eos *out,
                             struct err *e)
{
    enum status st = OK;
    char *folder = NULL;
    *out = (struct eos){.id = -1};
    TRY(fsx_parent(path, &folder, e));
    for (; at->file && !out->token && out->id < 0; at++)
        TRY(ask(folder, at->file, at->key, out, e));
done:
    free(folder);
    return st;
}

enum status eos_read(const char *path, struct eos *out, struct err *e)
{
    PASS(ask_first(path, eos_places, out, e));
    NEED(out->token || out->id >= 0, ERR_USAGE,
         "no eos_token in a tokenizer_config.json or special_tokens_map.json, no eos_token_id in "
         "a config.json beside %s: name the token itself",
         path);
    return OK;
}

/* An id of config.json; -1: none. */
static enum status config_id(const char *folder, const char *key, int32_t *id, struct err *e)
{
    struct eos x = {.id = -1};
    enum status st = ask(folder, "config.json", key, &x, e);
    *id = x.token ? -1 : x.id;
    eos_free(&x);
    return st;
}

enum status pad_hint_read(const char *folder, struct pad_hint *out, struct err *e)
{
    *out = (struct pad_hint){-1, -1, -1};
    PASS(config_id(folder, "pad_token_id", &out->pad, e));
    PASS(config_id(folder, "bos_token_id", &out->bos, e));
    return config_id(folder, "eos_token_id", &out->eos, e);
}

enum status pad_read(const char *path, const struct pad_hint *hint, struct eos *out, struct err *e)
{
    enum status st = OK;
    char *folder = NULL;
    struct pad_hint beside;
    if (!hint) {
        TRY(fsx_parent(path, &folder, e));
        TRY(pad_hint_read(folder, &beside, e));
        hint = &beside;
    }
    if (hint->pad >= 0 && hint->pad != hint->bos && hint->pad != hint->eos)
        *out = (struct eos){.id = hint->pad, .file = "config.json"};
    else
        TRY(ask_first(path, pad_places, out, e));
done:
    free(folder);
    return st;
}
