#include "engine/place.h"
#include <string.h>

const char *place_name(const struct place *p)
{
    return p->sweep->models[p->model].rows[p->row].checkpoint;
}

bool place_changed(const struct place *p, const json_t *record, const char *field)
{
    const char *recorded = json_text(json_object_get(record, "provenance"), field, "");
    char now[HASH_HEX];
    return recorded[0] && weights_present(p->weights) &&
           weights_hash(p->weights, now, NULL) == OK && strcmp(now, recorded) != 0;
}
