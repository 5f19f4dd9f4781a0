/* The layout of GPTQ's factor: panel after panel, each what is before it and its own. */
#include "quant/gptq.h"
#include "util/num.h"
#include <string.h>

struct gptq_panel gptq_panel_of(const struct gptq_prepared *p, int64_t k)
{
    struct gptq_panel panel = {.first = k * p->panel_blocks};
    panel.last = min64(panel.first + p->panel_blocks, p->n_blocks);
    panel.begin = gptq_block_at(p, panel.first).begin;
    panel.end = gptq_block_at(p, panel.last - 1).end;
    for (int64_t i = panel.first; i < panel.last; i++)
        panel.reach = max64(panel.reach, gptq_block_at(p, i).reach);
    return panel;
}

int64_t gptq_panel_count(const struct gptq_prepared *p)
{
    return (p->n_blocks + p->panel_blocks - 1) / p->panel_blocks;
}

int64_t gptq_panel_before(const struct gptq_panel *panel)
{
    return (panel->reach - panel->begin) * panel->begin;
}

int64_t gptq_block_own(const struct gptq_panel *panel, const struct gptq_block *b)
{
    int64_t length = b->end - b->begin;
    return (b->reach - b->begin) * (b->begin - panel->begin) + length * length;
}

int64_t gptq_panel_own(const struct gptq_prepared *p, const struct gptq_panel *panel)
{
    int64_t floats = 0;
    for (int64_t i = panel->first; i < panel->last; i++) {
        const struct gptq_block b = gptq_block_at(p, i);
        floats += gptq_block_own(panel, &b);
    }
    return floats;
}

int64_t gptq_panel_own_most(const struct gptq_prepared *p)
{
    int64_t most = 0;
    for (int64_t k = 0; k < gptq_panel_count(p); k++) {
        const struct gptq_panel panel = gptq_panel_of(p, k);
        most = max64(most, gptq_panel_own(p, &panel));
    }
    return most;
}

int64_t gptq_factor_floats(const struct gptq_prepared *p)
{
    int64_t floats = 0;
    for (int64_t k = 0; k < gptq_panel_count(p); k++) {
        const struct gptq_panel panel = gptq_panel_of(p, k);
        floats += gptq_panel_before(&panel) + gptq_panel_own(p, &panel);
    }
    return floats;
}

enum { TILE_I = 32, TILE_J = 64 };

/* to (cols, rows) = r (rows, cols; the given pitch) transposed, in tiles that are copied first:
 * rows of r that are a multiple of 4 KiB apart would displace each other from the cache. */
static void turn(float *to, const double *r, int64_t pitch, int64_t rows, int64_t cols)
{
    float tile[TILE_I][TILE_J + 1];
    for (int64_t i = 0; i < rows; i += TILE_I)
        for (int64_t j = 0; j < cols; j += TILE_J) {
            const int64_t high = min64(TILE_I, rows - i), wide = min64(TILE_J, cols - j);
            for (int64_t a = 0; a < high; a++)
                for (int64_t b = 0; b < wide; b++) tile[a][b] = (float)r[(i + a) * pitch + j + b];
            for (int64_t b = 0; b < wide; b++)
                for (int64_t a = 0; a < high; a++) to[(j + b) * rows + i + a] = tile[a][b];
        }
}

/* r (rows, cols; the given pitch) = from (cols, rows) transposed. */
static void turn_back(double *r, int64_t pitch, const float *from, int64_t rows, int64_t cols)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) r[i * pitch + j] = (double)from[j * rows + i];
}

void gptq_panel_pack(const struct gptq_prepared *p, const struct gptq_panel *panel, float *own,
                     const double *corner, int64_t pitch)
{
    for (int64_t k = panel->first; k < panel->last; k++) {
        const struct gptq_block b = gptq_block_at(p, k);
        int64_t at = b.begin - panel->begin, reach = b.reach - b.begin, length = b.end - b.begin;
        turn(own, corner + at, pitch, at, reach);
        turn(own + at * reach, corner + at * pitch + at, pitch, length, length);
        own += gptq_block_own(panel, &b);
    }
}

void gptq_factor_pack(const struct gptq_prepared *p, const double *r)
{
    int64_t n = p->cols;
    float *to = p->factor;
    for (int64_t k = 0; k < gptq_panel_count(p); k++) {
        const struct gptq_panel panel = gptq_panel_of(p, k);
        int64_t width = panel.reach - panel.begin;
#pragma omp parallel for
        for (int64_t j = 0; j < width; j += TILE_J)
            turn(to + j * panel.begin, r + panel.begin + j, n, panel.begin,
                 min64(width - j, TILE_J));
        to += gptq_panel_before(&panel);
        gptq_panel_pack(p, &panel, to, r + panel.begin * n + panel.begin, n);
        to += gptq_panel_own(p, &panel);
    }
}

void gptq_factor_unpack(const struct gptq_prepared *p, double *r)
{
    int64_t n = p->cols;
    const float *from = p->factor;
    memset(r, 0, (size_t)(n * n) * sizeof *r);
    for (int64_t k = 0; k < gptq_panel_count(p); k++) {
        const struct gptq_panel panel = gptq_panel_of(p, k);
        turn_back(r + panel.begin, n, from, panel.begin, panel.end - panel.begin);
        from += gptq_panel_before(&panel);
        for (int64_t i = panel.first; i < panel.last; i++) {
            const struct gptq_block b = gptq_block_at(p, i);
            int64_t at = b.begin - panel.begin, length = b.end - b.begin;
            double *to = r + panel.begin * n + b.begin;
            turn_back(to, n, from, at, length);
            turn_back(to + at * n, n, from + at * (b.reach - b.begin), length, length);
            from += gptq_block_own(&panel, &b);
        }
    }
}
