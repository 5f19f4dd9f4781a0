#include "report/show.h"
#include "options/nearest.h"
#include "results/cube_build.h"
#include <errno.h>
#include <string.h>

/* The rows of the kind that was asked for. */
static enum status choose_kind(const struct show *s, const struct rows **out, struct err *e)
{
    const char *name = s->options->kind ? s->options->kind : kind_cell.name;
    char advice[200];
    int64_t n = 0;
    for (; results_kind_names[n]; n++) {
        *out = &s->cube->all.rows[n];
        if (strcmp(results_kind_names[n], name) == 0) return OK;
    }
    nearest_advice(name, results_kind_names, n, advice, sizeof advice);
    RAISE(ERR_USAGE, "no kind of result %s%s", name, advice);
}

enum status report_show(const struct results_view *v, const struct show_options *o, FILE *out,
                        struct err *e)
{
    enum status st = OK;
    struct cube cube = {0};
    struct show s = {.cube = &cube, .options = o, .out = out};
    const struct rows *rows = NULL;
    TRY(inventory_open(results_view_plan(v), v, &cube.all, e));
    TRY(cube_add_grid(&cube, e));
    TRY(choose_kind(&s, &rows, e));
    TRY(show_check(&s, rows, e));
    if (o->csv || o->json)
        TRY(show_rows(&s, rows, e));
    else if (rows->kind == &kind_cell)
        TRY(show_tables(&s, e));
    else
        TRY(show_kind(&s, rows, e));
    ENSURE(fflush(out) == 0 && !ferror(out), ERR_FULL, "cannot write the table: %s",
           strerror(errno));
done:
    cube_free(&cube);
    return st;
}
