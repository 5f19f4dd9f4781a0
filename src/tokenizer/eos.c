#include "tokenizer/eos.h"
#include "util/fsx.h"
#include "util/json.h"
#include "util/mem.h"

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

void special_free(struct special *x)
{
    free(x->eos.token);
    free(x->pad.token);
}

/* Reads "</s>", {"content": "</s>"}, 2 or [2, 3]; anything else, null included, names no token. */
static enum status take(const json_t *value, struct eos *out, struct err *e)
{
    if (json_is_array(value)) value = json_array_get(value, 0);
    if (json_is_object(value)) value = json_object_get(value, "content");
    if (json_is_string(value)) return mem_string(&out->token, json_string_value(value), e);
    const double id = json_is_number(value) ? json_number_value(value) : -1;
    out->id = id >= 0 && id <= INT32_MAX ? (int32_t)id : -1;
    return OK;
}

static enum status ask(const char *folder, const char *file, const char *key, struct eos *out,
                       struct err *e)
{
    AUTO_FREE char *path = NULL;
    json_auto_t *root = NULL;
    PASS(fsx_join(folder, file, &path, e));
    if (!fsx_is_file(path)) return OK;
    /* transformers' "no limit" is 1e30 */
    PASS(json_read_as(path, EOS_BYTES_MAX, JSON_DECODE_INT_AS_REAL, NULL, &root, e));
    NEED(json_is_object(root), ERR_FORMAT, "%s: expected a JSON object", path);
    out->file = file;
    return take(json_object_get(root, key), out, e);
}

/* The first of the places in the folder that names a token; none may. */
static enum status ask_first(const char *folder, const struct place *at, struct eos *out,
                             struct err *e)
{
    *out = (struct eos){.id = -1};
    for (; at->file && !out->token && out->id < 0; at++)
        PASS(ask(folder, at->file, at->key, out, e));
    return OK;
}

enum status pad_hint_read(const char *folder, struct pad_hint *out, struct err *e)
{
    static const char *const keys[] = {"pad_token_id", "bos_token_id", "eos_token_id"};
    int32_t *const ids[] = {&out->pad, &out->bos, &out->eos};
    for (int i = 0; i < 3; i++) {
        struct eos x = {.id = -1};
        const enum status st = ask(folder, "config.json", keys[i], &x, e);
        *ids[i] = x.token ? -1 : x.id;
        free(x.token);
        PASS(st);
    }
    return OK;
}

enum status special_read(const char *path, struct special *out, struct err *e)
{
    AUTO_FREE char *folder = NULL, *text = NULL;
    PASS(fsx_parent(path, &folder, e));
    PASS(pad_hint_read(folder, &out->beside, e));
    PASS(ask_first(folder, eos_places, &out->eos, e));
    PASS(ask_first(folder, pad_places, &out->pad, e));
    PASS(mem_format(&text, e, "%d %s\n%d %s", out->eos.id, out->eos.token ? out->eos.token : "",
                    out->pad.id, out->pad.token ? out->pad.token : ""));
    hash_text(text, out->hash);
    return OK;
}
