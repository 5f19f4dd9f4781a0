#include "tokenizer/template.h"
#include "tokenizer/component.h"
#include <stdlib.h>

/* Published files add one or two ids; nested lists could multiply them. */
enum { TEMPLATE_IDS = 256, TEMPLATE_PROCESSING = 1 };

static enum status add_special(struct ids *out, const json_t *tokens, const char *name,
                               int64_t n_ids, struct err *e)
{
    const json_t *list;
    const json_t *token = json_object_get(tokens, name);
    NEED(token, ERR_FORMAT, "post_processor: \"%.80s\" is not among its special_tokens", name);
    PASS(component_array(token, "post_processor", "ids", &list, e));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        NEED(json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) < n_ids,
             ERR_FORMAT, "post_processor: ids of \"%.80s\" must be integers in 0..%lld", name,
             (long long)n_ids - 1);
        int32_t id = (int32_t)json_integer_value(v);
        NEED(out->n < TEMPLATE_IDS, ERR_USAGE, "post_processor: adds more than %d ids",
             TEMPLATE_IDS);
        PASS(ids_add(out, &id, 1, e));
    }
    return OK;
}

/* A later template goes around what the earlier ones made. */
static enum status read_template(void *out, int type, const json_t *o, struct err *e)
{
    struct template *t = out;
    if (type != TEMPLATE_PROCESSING) return OK; /* ByteLevel moves offsets only */
    const json_t *single, *tokens = json_object_get(o, "special_tokens");
    CLEANUP(template_free) struct template own = {0};
    bool text_seen = false;
    PASS(component_array(o, "post_processor", "single", &single, e));
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *piece = json_array_get(single, i);
        const json_t *special = json_object_get(piece, "SpecialToken");
        if (special) {
            const char *name = json_text(special, "id", "");
            PASS(add_special(text_seen ? &own.after : &own.before, tokens, name, t->n_ids, e));
        } else {
            NEED(json_object_get(piece, "Sequence") && !text_seen, ERR_FORMAT,
                 "post_processor: \"single\" must be SpecialTokens and one Sequence");
            text_seen = true;
        }
    }
    NEED(text_seen, ERR_FORMAT, "post_processor: \"single\" has no Sequence");
    PASS(ids_add(&own.before, t->before.id, t->before.n, e));
    PASS(ids_add(&t->after, own.after.id, own.after.n, e));
    NEED(own.before.n <= TEMPLATE_IDS && t->after.n <= TEMPLATE_IDS, ERR_USAGE,
         "post_processor: adds more than %d ids", TEMPLATE_IDS);
    free(t->before.id);
    t->before = own.before;
    own.before = (struct ids){0};
    return OK;
}

enum status template_read(struct template *t, const json_t *value, int64_t n_ids, struct err *e)
{
    static const char *const types[] = {"ByteLevel", "TemplateProcessing", NULL};
    static const struct component component = {
        .where = "post_processor", .list = "processors", .types = types, .read = read_template};
    t->n_ids = n_ids;
    return component_read(&component, value, t, e);
}

void template_free(struct template *t)
{
    free(t->before.id);
    free(t->after.id);
}
