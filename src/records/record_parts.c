#include "records/record_parts.h"
#include <string.h>

enum status parts_keep(const json_t *parts, char **text, struct err *e)
{
    *text = json_dump_whole(parts, JSON_COMPACT);
    NEED(*text, ERR_NOMEM, "out of memory for the parts of a record");
    return OK;
}

void parts_note(json_t *record, const char *text)
{
    json_t *parts = text ? json_loads(text, 0, NULL) : NULL;
    if (parts) json_object_set_new(json_object_get(record, "provenance"), "parts", parts);
}

bool parts_find(const json_t *parts, const json_t *sources, const char *name, const json_t **source)
{
    json_t *one;
    size_t i;
    *source = NULL;
    json_array_foreach(parts, i, one) {
        if (strcmp(json_text(one, "part", ""), name) != 0) continue;
        const json_t *from = json_array_get(sources, i);
        *source = json_is_object(from) ? from : NULL;
        return true;
    }
    return false;
}
