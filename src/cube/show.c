#include "cube/show.h"
#include "cube/cube_build.h"
#include "options/nearest.h"
#include <errno.h>
#include <string.h>

/* The rows of the kind asked for; if none is, of the one that all metrics asked for belong to, so
 * that a sharpness is printed once for each checkpoint and not for each of its cells. */
static enum status choose_kind(const struct show *s, const struct rows **out, struct err *e)
{
    const struct measure *of = NULL;
    const char *name = s->options->kind;
    char advice[200];
    int64_t n = 0;
    for (int64_t i = 0; !name && s->options->metric && i < s->cube->n; i++) {
        const struct cube_variable *x = s->cube->variables[i];
        if (!x->of || !show_wants_metric(s, x->name)) continue;
        /* what is made of several records is in no row of one */
        if ((of && of != x->of) || !x->field) of = &measure_cell;
        if (of == &measure_cell) break;
        of = x->of;
    }
    if (!name) name = of ? of->name : measure_cell.name;
    for (; recorded_names[n]; n++) {
        *out = &s->cube->all.rows[n];
        if (strcmp(recorded_names[n], name) == 0) return OK;
    }
    nearest_advice(name, recorded_names, n, advice, sizeof advice);
    RAISE(ERR_USAGE, "no kind of result %s%s", name, advice);
}

enum status report_show(const struct results_view *v, const struct show_options *o, FILE *out,
                        struct err *e)
{
    CLEANUP(cube_free) struct cube cube = {0};
    const struct rows *rows = NULL;
    struct show s = {.cube = &cube, .options = o, .out = out};
    PASS(inventory_open(v->plan, v, &cube.all, e));
    PASS(cube_add_grid(&cube, e));
    PASS(cube_fill(&cube, v, e));
    PASS(choose_kind(&s, &rows, e));
    PASS(show_check(&s, rows, e));
    if (o->csv || o->json)
        PASS(show_rows(&s, rows, e));
    else if (rows->kind == &measure_cell)
        PASS(show_tables(&s, e));
    else if (rows->kind->spreads)
        PASS(show_spread(&s, rows, e));
    else
        PASS(show_kind(&s, rows, e));
    NEED(fflush(out) == 0 && !ferror(out), ERR_FULL, "cannot write the table: %s", strerror(errno));
    return OK;
}
