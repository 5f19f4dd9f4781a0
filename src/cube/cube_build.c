#include "cube/cube_build.h"
#include "util/mem.h"

static const struct provenance {
    const char *name, *long_name;
    bool of_end, json, volatile_;
    const char *key; /* in the plan or end record; NULL: all of it */
} provenance[] = {
    {"version", "version of qtraj", false, false, false, "version"},
    {"git", "commit of qtraj", false, false, false, "git"},
    {"libraries", "versions of libraries (JSON)", false, true, false, "libraries"},
    {"config", "the resolved sweep (JSON)", false, true, false, "config"},
    {"inputs", "digest of every input file by its path (JSON)", false, true, false, "inputs"},
    {"host", "host of rank 0", false, false, true, "host"},
    {"command", "command of the first run of the plan", false, false, true, "command"},
    {"utc_start", "start of the first run of the plan", false, false, true, "utc"},
    {"utc_end", "end of the last run; empty while one goes on or when it was killed", true, false,
     true, "utc"},
    {"end", "how the last run ended (JSON)", true, true, true, NULL},
    {"plan", "axes, keys and provenance as in the journal (JSON)", false, true, true, NULL},
};

static enum status add_provenance(struct cube *c, const struct results_view *v, struct err *e)
{
    struct cube_variable *x;
    for (size_t i = 0; i < sizeof provenance / sizeof *provenance; i++) {
        const struct provenance *p = &provenance[i];
        const json_t *value = p->of_end ? v->end : v->plan;
        if (p->key) value = json_object_get(value, p->key);
        PASS(cube_add_column(c, "provenance", -1, p->name, FIELD_TEXT, p->long_name, &x, e));
        x->volatile_ = p->volatile_;
        if (p->json)
            PASS(cube_json(c, value, &x->data.t[0], e));
        else
            cube_put(x, 0, value);
    }
    return OK;
}

enum status cube_build(const struct results_view *v, struct cube *out, struct err *e)
{
    const json_t *plan = v->plan;
    char *text;
    *out = (struct cube){.title = json_text(plan, "name", "")};
    PASS(inventory_open(plan, v, &out->all, e));
    PASS(mem_format(&text, e, "qtraj %s, commit %s", json_text(plan, "version", "unknown"),
                    json_text(plan, "git", "unknown")));
    PASS(cube_own(out, text, e));
    out->source = text;
    PASS(mem_format(&text, e, "%s: made by %s", json_text(plan, "utc", ""), out->source));
    PASS(cube_own(out, text, e));
    out->history = text;
    PASS(cube_add_grid(out, e));
    PASS(cube_add_frames(out, e));
    PASS(cube_add_lists(out, e));
    PASS(cube_add_training(out, e));
    PASS(add_provenance(out, v, e));
    PASS(cube_fill(out, v, e));
    return OK;
}
