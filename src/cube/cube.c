#include "cube/cube.h"
#include "util/mem.h"
#include <math.h>

const size_t cube_element_size[FIELD_TYPES] = {
    [FIELD_REAL] = sizeof(double),
    [FIELD_INTEGER] = sizeof(int64_t),
    [FIELD_STATUS] = sizeof(uint8_t),
    [FIELD_TEXT] = sizeof(char *),
};

/* Elements from `from` on are missing. */
static void fill(struct cube_variable *x, int64_t from)
{
    for (int64_t i = from; i < x->n; i++) {
        if (x->type == FIELD_REAL) x->data.d[i] = NAN;
        if (x->type == FIELD_INTEGER) x->data.i[i] = -1;
        if (x->type == FIELD_STATUS) x->data.s[i] = STATE_NOT_APPLICABLE;
        if (x->type == FIELD_TEXT) x->data.t[i] = "";
    }
}

enum status cube_add_dim(struct cube *c, const char *group, const char *name, int64_t n, int *out,
                         struct err *e)
{
    PASS(mem_grow(&c->dims, c->n_dims, &c->dims_capacity, sizeof *c->dims, e));
    c->dims[c->n_dims] = (struct cube_dim){.group = group, .name = name, .n = n};
    *out = (int)c->n_dims++;
    return OK;
}

enum status cube_add(struct cube *c, const struct cube_variable *like, struct cube_variable **out,
                     struct err *e)
{
    AUTO_FREE struct cube_variable *x = NULL;
    PASS(mem_grow(&c->variables, c->n, &c->capacity, sizeof *c->variables, e));
    PASS(mem_alloc(&x, 1, sizeof *x, "a variable", e));
    *x = *like;
    x->n = 1;
    for (int k = 0; k < x->rank; k++)
        NEED(!__builtin_mul_overflow(x->n, c->dims[x->dims[k]].n, &x->n), ERR_NOMEM,
             "%s: too many elements", x->name);
    PASS(mem_alloc(&x->data.any, x->n, cube_element_size[x->type], x->name, e));
    x->capacity = x->n;
    fill(x, 0);
    *out = c->variables[c->n++] = TAKE(x);
    return OK;
}

enum status cube_extend(struct cube *c, struct cube_variable *x, int64_t n, struct err *e)
{
    const int64_t from = x->n;
    if (n <= from) return OK;
    PASS(mem_grow(&x->data.any, n - 1, &x->capacity, cube_element_size[x->type], e));
    x->n = c->dims[x->dims[0]].n = n;
    fill(x, from);
    return OK;
}

enum status cube_widen(const struct cube *c, struct cube_variable *x, int64_t before, struct err *e)
{
    const int64_t n = c->dims[x->dims[0]].n, after = c->dims[x->dims[1]].n;
    struct cube_variable wide = *x;
    NEED(!__builtin_mul_overflow(n, after, &wide.n), ERR_NOMEM, "%s: too many elements", x->name);
    PASS(mem_alloc(&wide.data.any, wide.n, cube_element_size[x->type], x->name, e));
    wide.capacity = wide.n;
    fill(&wide, 0);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < before; k++) cube_copy(&wide, i * after + k, x, i * before + k);
    free(x->data.any);
    *x = wide;
    return OK;
}

enum status cube_add_column(struct cube *c, const char *group, int dim, const char *name,
                            enum field_type type, const char *long_name, struct cube_variable **out,
                            struct err *e)
{
    const struct cube_variable like = {.group = group,
                                       .name = name,
                                       .type = type,
                                       .rank = dim >= 0,
                                       .dims = {dim},
                                       .units = type == FIELD_INTEGER ? "1" : NULL,
                                       .long_name = long_name};
    return cube_add(c, &like, out, e);
}

enum status cube_add_field(struct cube *c, const struct field *f, const char *group, int rank,
                           const int *dims, struct cube_variable **out, struct err *e)
{
    struct cube_variable like = {.group = group,
                                 .name = f->variable,
                                 .type = f->type,
                                 .rank = rank,
                                 .field = f,
                                 .volatile_ = f->rerun == VOLATILE,
                                 .may_miss = f->type == FIELD_REAL || f->type == FIELD_INTEGER,
                                 .units = f->units,
                                 .long_name = f->long_name};
    memcpy(like.dims, dims, (size_t)rank * sizeof *dims);
    return cube_add(c, &like, out, e);
}

enum status cube_add_count(struct cube *c, int dim, const char *long_name, struct err *e)
{
    struct cube_variable *x;
    PASS(cube_add_column(c, c->dims[dim].group, dim, c->dims[dim].name, FIELD_INTEGER, long_name,
                         &x, e));
    x->is_scale = true;
    for (int64_t i = 0; i < x->n; i++) x->data.i[i] = i;
    return OK;
}

enum status cube_own(struct cube *c, char *text, struct err *e)
{
    AUTO_FREE char *taken = text;
    PASS(mem_grow(&c->owned, c->n_owned, &c->owned_capacity, sizeof *c->owned, e));
    c->owned[c->n_owned++] = TAKE(taken);
    return OK;
}

enum status cube_json(struct cube *c, const json_t *value, const char **out, struct err *e)
{
    *out = "";
    if (!value) return OK;
    char *text = json_dump_whole(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    NEED(text, ERR_NOMEM, "out of memory for a JSON text");
    PASS(cube_own(c, text, e));
    *out = text;
    return OK;
}

void cube_put(struct cube_variable *x, int64_t i, const json_t *value)
{
    if (x->type == FIELD_REAL) x->data.d[i] = json_number_get(value);
    if (x->type == FIELD_INTEGER && json_is_integer(value))
        x->data.i[i] = json_integer_value(value);
    if (x->type == FIELD_TEXT && json_is_string(value)) x->data.t[i] = json_string_value(value);
}

void cube_copy(struct cube_variable *x, int64_t i, const struct cube_variable *from, int64_t j)
{
    const size_t size = cube_element_size[x->type];
    if (j >= 0)
        memcpy((char *)x->data.any + (size_t)i * size,
               (const char *)from->data.any + (size_t)j * size, size);
}

enum status cube_put_copy(struct cube *c, struct cube_variable *x, int64_t i, const json_t *value,
                          struct err *e)
{
    char *copy;
    const char *text = json_string_value(value);
    if (x->type != FIELD_TEXT || !text) {
        cube_put(x, i, value);
        return OK;
    }
    if (i > 0 && strcmp(x->data.t[i - 1], text) == 0) { /* as most are */
        x->data.t[i] = x->data.t[i - 1];
        return OK;
    }
    PASS(mem_string(&copy, text, e));
    PASS(cube_own(c, copy, e));
    x->data.t[i] = copy;
    return OK;
}

struct cube_variable *cube_find_in(const struct cube *c, const char *group, const char *name)
{
    for (int64_t i = 0; i < c->n; i++)
        if (strcmp(c->variables[i]->group, group) == 0 && strcmp(c->variables[i]->name, name) == 0)
            return c->variables[i];
    return NULL;
}

const struct cube_variable *cube_find(const struct cube *c, const char *name)
{
    return cube_find_in(c, "", name);
}

bool cube_is_along(const struct cube_variable *x, const struct measure *k)
{
    for (int d = 0; d < x->rank; d++)
        if (!measure_has_axis(k, results_axes[x->dims[d]])) return false;
    return true;
}

int64_t cube_place(const struct cube *c, const struct cube_variable *x, const struct row *row)
{
    int64_t place = 0;
    for (int k = 0; k < x->rank; k++) {
        if (row->at[x->dims[k]] < 0) return -1;
        place = place * c->dims[x->dims[k]].n + row->at[x->dims[k]];
    }
    return place;
}

void cube_free(struct cube *c)
{
    for (int64_t i = 0; i < c->n; i++) {
        free(c->variables[i]->data.any);
        free(c->variables[i]);
    }
    for (int64_t i = 0; i < c->n_owned; i++) free(c->owned[i]);
    inventory_close(&c->all);
    free(c->dims);
    free(c->variables);
    free(c->owned);
    *c = (struct cube){0};
}
