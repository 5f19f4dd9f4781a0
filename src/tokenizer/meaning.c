/* What of a tokenizer.json is read, however it is written. */
#include "tokenizer/tokenizer.h"
#include "util/json.h"
#include "util/mem.h"
#include <string.h>

/* Libraries of later versions write merges as pairs, and say what was left out before. */
static bool says_nothing(const json_t *value)
{
    return json_is_null(value) || json_is_false(value) ||
           (json_is_string(value) && json_string_length(value) == 0);
}

static json_t *merge_text(json_t *merge)
{
    const char *a = json_string_value(json_array_get(merge, 0)),
               *b = json_string_value(json_array_get(merge, 1));
    const bool pair = a && b && json_array_size(merge) == 2 && !strchr(a, ' ') && !strchr(b, ' ');
    return pair ? json_sprintf("%s %s", a, b) : json_incref(merge);
}

static json_t *model_of(const json_t *model)
{
    const char *key;
    json_t *value, *out = json_object(), *merges = json_array();
    size_t i;
    json_object_foreach((json_t *)(uintptr_t)model, key, value) {
        if (!says_nothing(value)) json_object_set(out, key, value);
    }
    if (strcmp(json_text(out, "type", ""), "BPE") == 0) json_object_del(out, "type");
    json_array_foreach(json_object_get(model, "merges"), i, value) {
        json_array_append_new(merges, merge_text(value));
    }
    json_object_set_new(out, "merges", merges);
    return out;
}

enum status tokenizer_meaning(const json_t *root, char out[HASH_HEX], struct err *e)
{
    static const char *const read[] = {"added_tokens", "normalizer", "pre_tokenizer", "decoder",
                                       "post_processor"};
    json_auto_t *all = json_pack("{s:o}", "model", model_of(json_object_get(root, "model")));
    for (size_t i = 0; i < sizeof read / sizeof *read; i++) {
        json_t *value = json_object_get(root, read[i]);
        if (value && !json_is_null(value)) json_object_set(all, read[i], value);
    }
    AUTO_FREE char *text = all ? json_dump_whole(all, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    NEED(text, ERR_NOMEM, "out of memory for a tokenizer");
    hash_text(text, out);
    return json_whole(e);
}
