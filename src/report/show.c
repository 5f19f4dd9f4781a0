#include "report/show.h"
#include "results/cube_build.h"
#include <errno.h>
#include <string.h>

bool show_wants(const struct show *s, int axis, int64_t at)
{
    return s->wanted[axis] < 0 || s->wanted[axis] == at;
}

/* Where the label asked for (NULL, 0: any) lies on an axis. ERR_USAGE lists those that there are.
 */
static enum status choose(struct show *s, int axis, const char *word, const char *text,
                          int64_t number, struct err *e)
{
    const struct axes *a = &s->cube->all.axes;
    const struct axis_labels *l = &a->labels[axis];
    char list[256] = "", one[64];
    s->wanted[axis] = -1;
    if (!text && !number) return OK;
    s->wanted[axis] = axis_find(a, axis, text, number);
    if (s->wanted[axis] >= 0) return OK;
    for (int64_t i = 0; i < l->n; i++) {
        size_t n = strlen(list);
        snprintf(one, sizeof one, "%lld", l->numbers ? (long long)l->numbers[i] : 0);
        snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", l->texts ? l->texts[i] : one);
    }
    snprintf(one, sizeof one, "%lld", (long long)number);
    RAISE(ERR_USAGE, "no %s %s in these results; there are: %s", word, text ? text : one, list);
}

/* The rows of the kind that was asked for. */
static enum status choose_kind(const struct show *s, const struct rows **out, struct err *e)
{
    const char *name = s->options->kind ? s->options->kind : kind_cell.name;
    char list[256] = "";
    for (int i = 0; results_kinds[i]; i++) {
        size_t n = strlen(list);
        *out = &s->cube->all.rows[i];
        if (strcmp(results_kinds[i]->name, name) == 0) return OK;
        snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", results_kinds[i]->name);
    }
    RAISE(ERR_USAGE, "no kind of result %s; there are: %s", name, list);
}

enum status report_show(const struct results_view *v, const struct show_options *o, FILE *out,
                        struct err *e)
{
    enum status st = OK;
    struct cube cube = {0};
    struct show s = {.cube = &cube, .options = o, .out = out};
    const struct rows *rows = NULL;
    memset(s.wanted, -1, sizeof s.wanted);
    TRY(inventory_open(results_view_plan(v), v, &cube.all, e));
    TRY(cube_add_grid(&cube, e));
    TRY(choose(&s, AXIS_MODEL, "model", o->model, 0, e));
    TRY(choose(&s, AXIS_BITS, "bit-width", NULL, o->bits, e));
    TRY(choose(&s, AXIS_QUANTIZER, "quantizer", o->quantizer, 0, e));
    TRY(choose(&s, AXIS_DATASET, "dataset", o->dataset, 0, e));
    TRY(choose_kind(&s, &rows, e));
    if (o->csv || o->json)
        TRY(show_rows(&s, rows, e));
    else
        TRY(show_tables(&s, e));
    ENSURE(fflush(out) == 0 && !ferror(out), ERR_IO, "cannot write the table: %s", strerror(errno));
done:
    cube_free(&cube);
    return st;
}
