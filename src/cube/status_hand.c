#include "cube/status_hand.h"
#include "cube/part_table.h"

/* Adds the visits; part: NULL, of no part. */
static void add(json_t *list, const json_t *visits, const struct part_place *part)
{
    size_t i;
    json_t *one;
    json_array_foreach(visits, i, one)
    {
        char name[48];
        json_t *copy = json_copy(one);
        if (part) {
            snprintf(name, sizeof name, "%lld/%lld", (long long)part->k, (long long)part->n);
            json_object_set_new(copy, "part", json_string(name));
        }
        json_array_append_new(list, copy);
    }
}

json_t *status_hand_json(const struct report_about *about)
{
    json_t *list = json_array();
    const struct part_table *t = about->parts;
    add(list, about->hand, NULL);
    for (int64_t i = 0; t && i < t->parts->n; i++) add(list, t->looks[i].hand, &t->parts->part[i]);
    return list;
}

void status_hand_print(const struct report_about *about, FILE *out)
{
    json_t *list = status_hand_json(about), *one;
    size_t i;
    if (json_array_size(list) > 0) fprintf(out, "in hand:\n");
    json_array_foreach(list, i, one)
    {
        const char *part = json_text(one, "part", NULL), *what = json_text(one, "what", "");
        fprintf(out, "  %s, ", json_text(one, "name", ""));
        if (part) fprintf(out, "part %s, ", part);
        fprintf(out, "rank %lld, since %s%s%s\n",
                (long long)json_integer_value(json_object_get(one, "rank")),
                json_text(one, "since", ""), what[0] ? ": " : "", what);
    }
    json_decref(list);
}
