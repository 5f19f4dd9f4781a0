/* Columns of the trajectory tables that the program does not know: they become variables of the
 * cube. */
#include "config/trajectory.h"
#include "cube/cube.h"
#include "plan/plan_internal.h"
#include <string.h>

/* The model's column of that name; NULL: it has none. */
static const struct trajectory_column *column_of(const struct model_entry *m, const char *name)
{
    for (int64_t i = 0; i < m->n_columns; i++)
        if (strcmp(m->columns[i].name, name) == 0) return &m->columns[i];
    return NULL;
}

enum status plan_columns_check(const struct sweep *s, struct err *e)
{
    for (int64_t i = 0; i < s->n_models; i++)
        for (int64_t j = 0; j < s->models[i].n_columns; j++) {
            const struct trajectory_column *c = &s->models[i].columns[j];
            NEED(!cube_reserves(c->name), ERR_USAGE,
                 "%s:%lld: field %lld: %s: the cube has a variable of this name already: give the "
                 "column another one",
                 s->models[i].trajectory, (long long)c->line, (long long)c->field, c->name);
        }
    return OK;
}

/* Whether all that stands in the columns of that name are numbers. */
static bool is_number(const struct sweep *s, const char *name)
{
    for (int64_t i = 0; i < s->n_models; i++) {
        const struct trajectory_column *c = column_of(&s->models[i], name);
        double value;
        for (int64_t j = 0; c && j < c->n; j++)
            if (c->values[j][0] && !trajectory_number(c->values[j], &value)) return false;
    }
    return true;
}

json_t *plan_columns_record(const struct sweep *s)
{
    json_t *list = NULL;
    for (int64_t i = 0; i < s->n_models; i++)
        for (int64_t j = 0; j < s->models[i].n_columns; j++) {
            const char *name = s->models[i].columns[j].name;
            bool known = false;
            for (int64_t k = 0; k < i; k++) known = known || column_of(&s->models[k], name);
            if (known) continue;
            if (!list) list = json_array();
            json_array_append_new(
                list, json_pack("{s:s, s:b}", "name", name, "number", is_number(s, name)));
        }
    return list;
}

json_t *plan_columns_of(const json_t *columns, const struct sweep *s, int64_t model, int64_t row)
{
    const struct model_entry *m = &s->models[model];
    const int64_t of = trajectory_table_row(s, model, row);
    size_t i;
    const json_t *column;
    json_t *values = columns ? json_array() : NULL;
    json_array_foreach(columns, i, column) {
        const struct trajectory_column *c = column_of(m, json_text(column, "name", ""));
        const char *text = c && of >= 0 ? c->values[of] : "";
        double value;
        if (!text[0])
            json_array_append_new(values, json_null());
        else if (json_flag(column, "number") && trajectory_number(text, &value))
            json_array_append_new(values, json_real(value));
        else
            json_array_append_new(values, json_string(text));
    }
    return values;
}
