/* The keys of `surfaces` in the sweep file, and what they name in the rest of it. */
#include "config/sweep.h"
#include "measures/surface.h"
#include "util/mem.h"
#include <fnmatch.h>

/* In the order of enum surface_plane. */
const char *const surface_planes[] = {"quantization", "trajectory", "random", NULL};

static const struct option keys[] = {
    OPTION(surface_entry, name, TEXT, "label of the surface, each only once",
           .otherwise = "the plane"),
    OPTION(surface_entry, plane, CHOICE,
           "through a checkpoint, the one before it and its quantized weights (quantization), the "
           "principal plane of a trajectory's checkpoints (trajectory), or two filter-normalised "
           "random directions (random)",
           .required = true, .fallback = "quantization", .choices = surface_planes),
    OPTION(surface_entry, model, TEXT, "name of the trajectory in `models`",
           .otherwise = "the first"),
    OPTION(surface_entry, checkpoint, TEXT, "the plane's origin (quantization, random)",
           .otherwise = "the trajectory's last", .with = "plane=quantization|random"),
    OPTION(surface_entry, previous, TEXT,
           "the checkpoint that the first axis points to (quantization)",
           .otherwise = "the previous checkpoint", .with = "plane=quantization"),
    OPTION(surface_entry, checkpoints, TEXT,
           "shell pattern of the checkpoints that span the plane (trajectory)",
           .otherwise = "all but averages", .with = "plane=trajectory"),
    OPTION(surface_entry, branches, BOOL,
           "the same of the models that branch from the trajectory (trajectory)",
           .fallback = "false", .with = "plane=trajectory"),
    OPTION(surface_entry, quantizer, TEXT, "name of the method in `methods` (quantization)",
           .otherwise = "the first", .with = "plane=quantization"),
    OPTION(surface_entry, bits, INT, "its bit-width (quantization)", .unit = "bits",
           .fallback = "0", .otherwise = "the method's first", .low = QUANT_BITS_LEAST,
           .high = QUANT_BITS_MAX, OPTION_SPECIAL(0, NULL), .with = "plane=quantization"),
    OPTION(surface_entry, columns, INT,
           "points of the grid along the first axis; 0: only the points that span the plane",
           .unit = "points", .fallback = "21", .low = 2, .high = 1001, OPTION_SPECIAL(0, NULL)),
    OPTION(surface_entry, rows, INT, "points of the grid along the second axis", .unit = "points",
           .fallback = "21", .low = 2, .high = 1001, OPTION_SPECIAL(0, NULL)),
    OPTION(surface_entry, margin, REAL,
           "margin of the grid around the box of the plane's points, as a fraction of the box "
           "(quantization, trajectory)",
           .fallback = "0.25", .minimum = 0, .maximum = 100,
           .with = "columns plane=quantization|trajectory"),
    OPTION(surface_entry, radius, REAL,
           "the grid extends from -radius to radius times each direction (random)", .fallback = "1",
           .minimum = 0, .maximum = 1000, .with = "columns plane=random"),
    OPTION(surface_entry, dataset, TEXT,
           "name of the text in `evaluation` that the loss is measured on",
           .otherwise = "the first"),
    OPTION(surface_entry, samples, INT,
           "maximum number of sequences, the same for all points; 0: all", .unit = "sequences",
           .fallback = "0", .low = 0, .high = INT64_MAX),
};

static enum status finish(void *entry, const struct option_scope *scope, struct err *e)
{
    struct surface_entry *s = entry;
    if ((s->columns == 0) != (s->rows == 0))
        PASS(options_fail(scope, "rows", e, "columns and rows are 0 together or not at all"));
    if (!s->name) PASS(mem_string(&s->name, surface_planes[s->plane], e));
    return OK;
}

const struct option_table surface_table = {OPTION_ROWS(keys, surface_entry), .finish = finish};

/* --- what it names in the rest of the sweep --- */

/* The place of the label among n entries that begin with their name; *label becomes the first one's
 * if it is NULL. */
static enum status find(char **label, const char *key, const char *list, const void *entries,
                        int64_t n, size_t size, const struct option_scope *scope, int64_t *place,
                        struct err *e)
{
    const char *base = entries, *name;
    for (*place = 0; *place < n; ++*place) {
        memcpy(&name, base + (size_t)*place * size, sizeof name);
        if (!*label) PASS(mem_string(label, name, e));
        if (strcmp(*label, name) == 0) return OK;
    }
    return options_fail(scope, key, e, "no entry of %s has the name %s", list, *label);
}

static enum status find_row(const struct model_entry *m, const char *name, const char *key,
                            const struct option_scope *scope, int64_t *place, struct err *e)
{
    for (*place = 0; *place < m->n_rows; ++*place)
        if (strcmp(m->rows[*place].checkpoint, name) == 0) return OK;
    return options_fail(scope, key, e, "no checkpoint of %s has the name %s", m->trajectory, name);
}

bool surface_takes(const struct surface_entry *s, const struct trajectory_row *row)
{
    return s->checkpoints ? fnmatch(s->checkpoints, row->checkpoint, 0) == 0 : !row->average;
}

bool surface_spans(const struct surface_entry *s, const struct model_entry *m)
{
    return strcmp(m->name, s->model) == 0 ||
           (s->branches && m->branch_of && strcmp(m->branch_of, s->model) == 0);
}

static enum status resolve_checkpoints(const struct sweep *sweep, struct surface_entry *s,
                                       const struct model_entry *m,
                                       const struct option_scope *scope, struct err *e)
{
    int64_t row = m->n_stored - 1, n = 0;
    if (s->plane == SURFACE_TRAJECTORY) {
        for (int64_t k = 0; k < sweep->n_models; k++)
            for (int64_t i = 0; surface_spans(s, &sweep->models[k]) && i < sweep->models[k].n_rows;
                 i++)
                n += surface_takes(s, &sweep->models[k].rows[i]);
        if (n < 3)
            PASS(options_fail(scope, "checkpoints", e,
                              "%lld checkpoints of %s; a principal plane needs at least 3",
                              (long long)n, m->trajectory));
        return OK;
    }
    if (s->checkpoint)
        PASS(find_row(m, s->checkpoint, "checkpoint", scope, &row, e));
    else
        PASS(mem_string(&s->checkpoint, m->rows[row].checkpoint, e));
    if (s->plane != SURFACE_QUANTIZATION) return OK;
    if (s->previous)
        PASS(find_row(m, s->previous, "previous", scope, &row, e));
    else if (!trajectory_follows(m, row))
        PASS(options_fail(scope, "checkpoint", e,
                          "%s is the first, there is none before it; `previous` names another",
                          s->checkpoint));
    else
        PASS(mem_string(&s->previous, m->rows[row - 1].checkpoint, e));
    if (strcmp(s->previous, s->checkpoint) == 0)
        PASS(options_fail(scope, "previous", e, "the same as checkpoint: they span no plane"));
    return OK;
}

/* Sets the missing values of an entry and checks its names. */
static enum status resolve(const struct sweep *s, struct surface_entry *entry,
                           const struct option_scope *scope, struct err *e)
{
    int64_t place;
    PASS(find(&entry->model, "model", "models", s->models, s->n_models, sizeof *s->models, scope,
              &place, e));
    PASS(resolve_checkpoints(s, entry, &s->models[place], scope, e));
    PASS(find(&entry->dataset, "dataset", "evaluation", s->evaluations, s->n_evaluations,
              sizeof *s->evaluations, scope, &place, e));
    if (entry->plane != SURFACE_QUANTIZATION) return OK;
    PASS(find(&entry->quantizer, "quantizer", "methods", s->methods, s->n_methods,
              sizeof *s->methods, scope, &place, e));
    if (!entry->bits) entry->bits = s->methods[place].bits[0];
    return OK;
}

_Static_assert(offsetof(struct surface_entry, name) == 0,
               "sweep_check_names reads the first field");

enum status surfaces_check(const struct sweep *s, const struct option_scope *scope, struct err *e)
{
    const struct surfaces_section *all = s->sections[MEASURE_point];
    const struct option_scope list = options_in(scope, "surfaces");
    PASS(sweep_check_names(scope, "surfaces", all->surfaces, all->n, sizeof *all->surfaces, e));
    for (int64_t i = 0; i < all->n; i++) {
        const struct option_scope entry = options_entry(&list, i);
        PASS(resolve(s, &all->surfaces[i], &entry, e));
    }
    return OK;
}
