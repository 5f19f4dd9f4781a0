/* Integer grids of quantized linears (struct quant_grids), and the codes of weights on them. */
#include "quant/grid.h"
#include "util/mem.h"
#include <math.h>
#include <stdlib.h>

enum status quant_grid_form_of(const struct quant_method *method, const struct quant_options *o,
                               struct quant_grid_form *out, struct err *e)
{
    NEED(method->describe_grids, ERR_USAGE,
         "the weights of method %s are no codes of integer grids", method->name);
    NEED(o->rotation == ROTATION_NONE, ERR_USAGE,
         "rotation: no packed format has weights that are rotated back");
    NEED(o->codes == CODES_INTEGER, ERR_USAGE, "codes: packed formats have integer codes");
    return method->describe_grids(o, out, e);
}

enum status quant_grids_init(struct quant_grids *g, const struct quant_options *o, int64_t rows,
                             int64_t cols, struct err *e)
{
    const int64_t size = cols > 0 ? grid_group(o, cols) : 1;
    *g = (struct quant_grids){.groups = (cols + size - 1) / size};
    PASS(mem_zero(&g->grid, rows * g->groups * 2, sizeof *g->grid, "grids", e));
    PASS(mem_alloc(&g->group, cols, sizeof *g->group, "groups of columns", e));
    for (int64_t j = 0; j < cols; j++) g->group[j] = (int32_t)(j / size);
    return OK;
}

void quant_grids_free(struct quant_grids *g)
{
    free(g->grid);
    free(g->group);
    *g = (struct quant_grids){0};
}

enum status quant_grids_codes(const struct quant_grids *g, int64_t i, const float *w, int64_t cols,
                              int64_t bits, uint8_t *code, struct err *e)
{
    const double most = (double)((1 << bits) - 1), miss = 0.01;
    for (int64_t j = 0; j < cols; j++) {
        const double *grid = g->grid + (i * g->groups + g->group[j]) * 2;
        double x = (double)w[j];
        if (g->columns) x *= (double)g->columns[j];
        if (g->rows) x /= (double)g->rows[i];
        /* A scale that is rounded to 0 makes all weights of its group 0. */
        const double at = (grid[0] > 0 ? x / grid[0] : 0) + grid[1], near = nearbyint(at);
        NEED(near >= 0 && near <= most && fabs(at - near) < miss, ERR_NUMERIC,
             "the weight in row %lld, column %lld is %g, no code of its grid (%g)", (long long)i,
             (long long)j, (double)w[j], at);
        code[j] = (uint8_t)near;
    }
    return OK;
}
