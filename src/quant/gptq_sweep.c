/* The column sweep of a matrix: a rank's rows in bands, all columns of a band at once or, with a
 * distributed factor, all bands panel by panel. */
#include "math/linalg.h"
#include "quant/gptq_band.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>
#include <omp.h>

/* Work of a rank: its tiles and the bands that they are in, and the sums of all tiles, of which it
 * fills in its own. */
struct work {
    const struct quant_job *job;
    const struct gptq_prepared *p;
    int64_t first, end, n;         /* this rank's tiles; number of all tiles */
    int64_t first_band, bands_end; /* their bands, of which the first and the last may have tiles of
                                      other ranks */
    int threads;
    struct gptq_scratch *scratch; // (threads)
    int64_t n_bands;
    struct gptq_band *bands; // (n_bands) one per thread, or all
    struct gptq_sums *sums;
};

/* With the whole factor on this rank: each band is swept over all columns before the next. */
static void sweep_bands(struct work *w)
{
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = w->first_band; i < w->bands_end; i++) {
        int thread = omp_get_thread_num();
        struct gptq_band *b = &w->bands[thread];
        const float *next = w->p->factor;
        gptq_band_begin(b, i, w->first, w->end);
        for (int64_t k = 0; k < gptq_panel_count(w->p); k++) {
            struct gptq_panel panel = gptq_panel_of(w->p, k);
            panel.before = next;
            panel.own = next + gptq_panel_before(&panel);
            next = panel.own + gptq_panel_own(w->p, &panel);
            gptq_band_quantize(b, &w->scratch[thread], &panel, NULL);
        }
        gptq_band_end(b, w->sums);
    }
}

/* A received panel of a distributed factor, while the next one is in transfer. */
struct arrival {
    struct dist_panel transfer;
    float *before; /* as in gptq_panel */
    float *own;
    double *corner; // (reach - begin, reach - begin) the panel's last rows
    double *upside; // (widest, widest) the inverse of a block of them
    float *inverse; // (blocks of the panel, widest, widest)
};

static void arrival_free(struct arrival *a)
{
    dist_panel_free(&a->transfer);
    free(a->before);
    free(a->own);
    free(a->corner);
    free(a->upside);
    free(a->inverse);
}

static enum status arrival_make(const struct gptq_prepared *p, struct arrival *a, struct err *e)
{
    int64_t m = p->widest * p->widest, width = p->widest_panel;
    PASS(mem_alloc(&a->before, p->cols * width, sizeof *a->before, "a panel of the factor", e));
    PASS(mem_alloc(&a->own, gptq_panel_own_most(p), sizeof *a->own, "a panel of the factor", e));
    PASS(mem_alloc(&a->corner, width * width, sizeof *a->corner, "a block of the factor", e));
    PASS(mem_alloc(&a->upside, m, sizeof *a->upside, "the inverse of a block", e));
    return mem_alloc(&a->inverse, p->panel_blocks * m, sizeof *a->inverse, "inverses of blocks", e);
}

/* Lays out the panel that has arrived and inverts its diagonal blocks. */
static enum status arrival_use(const struct gptq_prepared *p, const struct gptq_panel *panel,
                               struct arrival *a, struct err *e)
{
    int64_t width = panel->reach - panel->begin;
    if (isnan(p->damping)) { /* no damping sufficed: R = I */
        memset(a->before, 0, (size_t)gptq_panel_before(panel) * sizeof *a->before);
        memset(a->corner, 0, (size_t)(width * width) * sizeof *a->corner);
        for (int64_t i = 0; i < width; i++) a->corner[i * width + i] = 1;
    }
    gptq_panel_pack(p, panel, a->own, a->corner, width);
    for (int64_t i = panel->first; i < panel->last; i++) {
        const struct gptq_block *b = &p->blocks[i];
        int64_t m = b->reach - b->begin;
        float *inverse = a->inverse + (i - panel->first) * p->widest * p->widest;
        PASS(triangular_inverse(a->upside, a->corner, width, b->begin - panel->begin, m, e));
        for (int64_t k = 0; k < m * m; k++) inverse[k] = (float)a->upside[k];
    }
    return OK;
}

/* Starts the transfer of panel k, if it exists. */
static enum status arrival_start(const struct gptq_prepared *p, int64_t k, struct arrival *a,
                                 struct err *e)
{
    if (k >= gptq_panel_count(p)) return OK;
    struct gptq_panel panel = gptq_panel_of(p, k);
    return dist_panel_start(p->dist, panel.begin, panel.reach, &a->transfer, e);
}

/* All bands over one panel of columns, while the next one is transferred. */
static void sweep_panel(struct work *w, const struct gptq_panel *panel, struct arrival *a)
{
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < w->n_bands; i++) {
        int thread = omp_get_thread_num();
        gptq_band_quantize(&w->bands[i], &w->scratch[thread], panel, a->inverse);
        if (thread == 0) dist_panel_progress(&a->transfer);
    }
}

/* With a distributed factor: all bands are swept over one panel before the next. A rank that cannot
 * use a panel takes part in the transfers of the others nevertheless, so that the ranks need not
 * wait for each other after each panel in order to agree. */
static enum status sweep_panels(struct work *w, struct err *e)
{
    enum status st = OK, used = OK;
    const struct gptq_prepared *p = w->p;
    CLEANUP(arrival_free) struct arrival a = {0};
    PASS(team_agree(w->job->team, arrival_make(p, &a, e), e));
    PASS(dist_panel_make(p->dist, p->widest_panel, &a.transfer, e));
    PASS(arrival_start(p, 0, &a, e));
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = w->first_band; i < w->bands_end; i++)
        gptq_band_begin(&w->bands[i - w->first_band], i, w->first, w->end);
    for (int64_t k = 0; k < gptq_panel_count(p); k++) {
        struct gptq_panel panel = gptq_panel_of(p, k);
        panel.before = a.before;
        panel.own = a.own;
        enum status arrived =
            dist_panel_finish(p->dist, &a.transfer, a.before, a.corner, used == OK ? e : NULL);
        if (used == OK) used = arrived == OK ? arrival_use(p, &panel, &a, e) : arrived;
        PASS(arrival_start(p, k + 1, &a, e));
        if (used == OK) sweep_panel(w, &panel, &a);
    }
    PASS(team_agree(w->job->team, used, e));
    for (int64_t i = 0; i < w->n_bands; i++) gptq_band_end(&w->bands[i], w->sums);
    return st;
}

static enum status sweep_room(struct work *w, struct err *e)
{
    PASS(mem_zero(&w->sums, w->n, sizeof *w->sums, "sums of tiles", e));
    PASS(mem_zero(&w->scratch, w->threads, sizeof *w->scratch, "scratch of threads", e));
    PASS(mem_zero(&w->bands, w->n_bands, sizeof *w->bands, "tiles of weights", e));
    for (int i = 0; i < w->threads; i++) PASS(gptq_scratch_make(w->job, &w->scratch[i], e));
    for (int64_t i = 0; i < w->n_bands; i++) PASS(gptq_band_make(w->job, &w->bands[i], e));
    return OK;
}

static void sweep_free(struct work *w)
{
    for (int i = 0; w->scratch && i < w->threads; i++) gptq_scratch_free(&w->scratch[i]);
    for (int64_t i = 0; w->bands && i < w->n_bands; i++) gptq_band_free(&w->bands[i]);
    free(w->scratch);
    free(w->bands);
    free(w->sums);
}

int64_t gptq_sweep_bytes(const struct quant_options *o, const struct quant_extent *x)
{
    int64_t cols = x->cols, block = min64(o->block_size, cols), tiles = gptq_band_tiles(cols);
    int64_t extra = o->group_size > block ? o->group_size : 0;
    int64_t widest = min64(block + extra, cols);
    int64_t panel = min64(gptq_panel_blocks(block, cols) * block + extra, cols);
    int64_t own = (tile_count(x->rows) + x->ranks - 1) / x->ranks;
    int64_t bands = x->distributed ? (own + tiles - 1) / tiles + (tiles > 1) : x->threads;
    int64_t scratch = (panel + widest) * tiles * GPTQ_PITCH + (2 * widest + 3 * block) * TILE_ROWS;
    return (bands * tiles * cols * GPTQ_PITCH + x->threads * scratch) * (int64_t)sizeof(float);
}

enum status gptq_sweep(const struct quant_job *job, struct gptq_sums *sums, struct err *e)
{
    enum { SUMS = sizeof *sums / sizeof(double) };
    CLEANUP(sweep_free)
    struct work w = {.job = job,
                     .p = job->prepared,
                     .n = tile_count(job->rows),
                     .threads = omp_get_max_threads()};
    int64_t row, end;
    team_own_rows(job->team, job->rows, &row, &end);
    w.first = row / TILE_ROWS;
    w.end = tile_count(end);
    int64_t tiles = w.p->band_tiles;
    w.first_band = w.first / tiles;
    w.bands_end = w.end > w.first ? (w.end + tiles - 1) / tiles : w.first_band;
    w.n_bands = w.p->dist ? w.bands_end - w.first_band : w.threads;
    *sums = (struct gptq_sums){0};
    for (int64_t i = 0; job->grids && i < job->cols; i++)
        job->grids->group[w.p->order ? w.p->order[i] : i] = (int32_t)gptq_group_of(w.p, i);
    PASS(team_agree(job->team, sweep_room(&w, e), e));
    if (w.p->dist)
        PASS(sweep_panels(&w, e));
    else
        sweep_bands(&w);
    PASS(team_gather(job->team, (double *)w.sums, SUMS, TILE_ROWS, job->rows, e));
    for (int64_t i = 0; i < w.n; i++) {
        sums->loss += w.sums[i].loss;
        sums->weight += w.sums[i].weight;
        sums->loss_plain += w.sums[i].loss_plain;
        sums->weight_plain += w.sums[i].weight_plain;
    }
    return OK;
}
