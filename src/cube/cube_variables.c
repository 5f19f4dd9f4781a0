#include "cube/cube_variables.h"
#include "cube/cube_build.h"
#include "records/view.h"
#include "util/page.h"
#include <string.h>

/* A plan that has every axis: its cube has every variable. */
static const char widest_plan[] =
    "{\"type\":\"plan\",\"models\":[{\"name\":\"\",\"common_tokens\":{},\"training\":{},"
    "\"checkpoints\":[{\"name\":\"\",\"key\":\"\",\"task_key\":\"\"}]}],\"bits\":[2],"
    "\"quantizers\":[\"\"],\"datasets\":[\"\"],\"variants\":[{\"bits\":2,\"quantizer\":\"\","
    "\"key\":\"\",\"activation_bits\":8}],"
    "\"replicates\":[1],"
    "\"tasks\":[{\"name\":\"\",\"key\":\"\"}],\"surfaces\":[]}";

static json_t *describe(const struct cube *c, const struct cube_variable *x)
{
    static const char *const types[] = {[FIELD_REAL] = "real",
                                        [FIELD_INTEGER] = "integer",
                                        [FIELD_STATUS] = "status",
                                        [FIELD_TEXT] = "text"};
    json_t *axes = json_array();
    for (int d = 0; d < x->rank; d++)
        json_array_append_new(axes, json_string(c->dims[x->dims[d]].name));
    return json_pack("{s:s, s:s, s:o, s:s, s:s, s:b, s:s}", "group", x->group, "name", x->name,
                     "axes", axes, "type", types[x->type], "units", x->units ? x->units : "",
                     "volatile", x->volatile_, "long_name", x->long_name);
}

enum status cube_variables(json_t **out, struct err *e)
{
    CLEANUP(results_view_close_at) struct results_view *view = NULL;
    CLEANUP(cube_free) struct cube c = {0};
    json_auto_t *plan = json_loads(widest_plan, 0, NULL);
    *out = json_array();
    NEED(plan, ERR_NOMEM, "out of memory");
    PASS(view_new(&view, e));
    PASS(view_add(view, plan, e));
    PASS(cube_build(view, &c, e));
    for (int64_t i = 0; i < c.n; i++)
        if (!c.variables[i]->from)
            NEED(json_array_append_new(*out, describe(&c, c.variables[i])) == 0, ERR_NOMEM,
                 "out of memory");
    return OK;
}

/* "layers/ (cell, layer)"; the same text for variables that belong under one heading. */
static void heading(const json_t *x, char out[128])
{
    const char *group = json_text(x, "group", "");
    const json_t *axes = json_object_get(x, "axes");
    const char *first = json_string_value(json_array_get(axes, 0));
    int n = snprintf(out, 128, "%s%s", group, group[0] ? "/" : "");
    if (!group[0] && json_array_size(axes) == 1 && strcmp(first, json_text(x, "name", "")) == 0)
        n += snprintf(out, 128, "axes");
    else
        for (size_t d = 0; d < json_array_size(axes); d++)
            n += snprintf(out + n, 128 - (size_t)n, "%s%s",
                          d       ? ", "
                          : n > 0 ? " ("
                                  : "(",
                          json_string_value(json_array_get(axes, d)));
    if (strchr(out, '(')) snprintf(out + n, 128 - (size_t)n, ")");
}

void cube_variables_print(const json_t *variables, FILE *out)
{
    enum { INDENT = 6, PAGE = 80 };
    const size_t n = json_array_size(variables);
    char head[128], other[128];
    for (size_t i = 0; i < n; i++) {
        bool seen = false;
        heading(json_array_get(variables, i), head);
        for (size_t j = 0; j < i && !seen; j++) {
            heading(json_array_get(variables, j), other);
            seen = strcmp(head, other) == 0;
        }
        if (!seen) fprintf(out, "%s%s\n", i ? "\n" : "", head);
        for (size_t j = i; j < n && !seen; j++) {
            heading(json_array_get(variables, j), other);
            if (strcmp(head, other) != 0) continue;
            const json_t *x = json_array_get(variables, j);
            const char *units = json_text(x, "units", "");
            fprintf(out, "  %s: %s%s%s%s\n%*s", json_text(x, "name", ""), json_text(x, "type", ""),
                    units[0] ? ", " : "", units, json_flag(x, "volatile") ? "; volatile" : "",
                    INDENT, "");
            page_print(out, page_width(out, PAGE), INDENT, INDENT, json_text(x, "long_name", ""));
        }
    }
}
