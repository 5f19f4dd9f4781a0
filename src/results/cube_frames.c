/* The frames checkpoints/, cells/ and curvature/: flat columns of one length, one row a
 * (checkpoint, dataset), (cell, dataset) or checkpoint, taken from the grid; and sequences/, the
 * flat array that the first two point into. */
#include "results/cube.h"
#include "util/mem.h"
#include <string.h>

/* One of the frames while it is made. */
struct frame {
    struct cube *cube;
    const struct axes *axes;
    const struct cube_rows *rows;
    const char *group;
    enum cube_dim_place dim;
};

static enum status add_column(const struct frame *f, const char *name, enum cube_type type,
                              const char *units, const char *long_name, struct cube_variable **out,
                              struct err *e)
{
    const struct cube_variable like = {.group = f->group,
                                       .name = name,
                                       .type = type,
                                       .rank = 1,
                                       .dims = {f->dim},
                                       .units = units,
                                       .long_name = long_name};
    return cube_add(f->cube, &like, out, e);
}

static enum status add_numbers(const struct frame *f, struct err *e)
{
    enum status st = OK;
    struct cube_variable *row, *cell;
    bool of_cells = f->dim == DIM_CELL_ROW;
    TRY(add_column(f, "row", CUBE_INTEGER, "1", "number of the row", &row, e));
    row->is_scale = true;
    for (int64_t i = 0; i < f->rows->n; i++) row->data.i[i] = i;
    if (f->dim == DIM_CURVATURE_ROW) goto done;
    TRY(add_column(f, of_cells ? "cell" : "checkpoint_number", CUBE_INTEGER, "1",
                   of_cells ? "number of the cell, as in layers/" : "number of the checkpoint",
                   &cell, e));
    for (int64_t i = 0; i < f->rows->n; i++) {
        cell->data.i[i] = f->rows->rows[i].cell;
    }
done:
    return st;
}

/* The label of each row on one axis. */
static enum status add_label(const struct frame *f, enum cube_dim_place axis, struct err *e)
{
    enum status st = OK;
    struct cube_variable *x;
    const struct axes *a = f->axes;
    bool number = axis == DIM_CHECKPOINT || axis == DIM_BITS;
    TRY(add_column(f, f->cube->dims[axis].name, number ? CUBE_INTEGER : CUBE_TEXT,
                   number ? "1" : NULL, "label on the axis of that name", &x, e));
    for (int64_t i = 0; i < f->rows->n; i++) {
        int64_t at = f->rows->rows[i].at[axis];
        if (at < 0) continue;
        if (axis == DIM_MODEL) x->data.t[i] = a->models[at].name;
        if (axis == DIM_CHECKPOINT) x->data.i[i] = at;
        if (axis == DIM_BITS) x->data.i[i] = a->bits[at];
        if (axis == DIM_QUANTIZER) x->data.t[i] = a->quantizers[at];
        if (axis == DIM_DATASET) x->data.t[i] = a->datasets[at];
    }
done:
    return st;
}

/* A grid variable seen along the rows. */
static enum status add_gathered(const struct frame *f, const struct cube_variable *from,
                                struct err *e)
{
    enum status st = OK;
    struct cube_variable *x;
    TRY(add_column(f, from->name, from->type, from->units, from->long_name, &x, e));
    x->volatile_ = from->volatile_;
    x->may_miss = from->may_miss;
    for (int64_t i = 0; i < f->rows->n; i++) {
        int64_t at = cube_place(f->cube, from, &f->rows->rows[i]);
        if (at < 0) continue;
        if (from->type == CUBE_DOUBLE) x->data.d[i] = from->data.d[at];
        if (from->type == CUBE_INTEGER) x->data.i[i] = from->data.i[at];
        if (from->type == CUBE_STATUS) x->data.s[i] = from->data.s[at];
        if (from->type == CUBE_TEXT) x->data.t[i] = from->data.t[at];
    }
done:
    return st;
}

static bool is_column(const struct frame *f, const struct cube_variable *x)
{
    bool of_cell = x->rank > 2 && x->dims[2] == DIM_BITS;
    if (f->dim == DIM_CURVATURE_ROW) return x->in_cells || x->of_curvature;
    return f->dim == DIM_CELL_ROW ? of_cell || x->in_cells : !of_cell;
}

static enum status add_all_gathered(const struct frame *f, struct err *e)
{
    enum status st = OK;
    for (int64_t i = 0, n = f->cube->n; i < n; i++) {
        const struct cube_variable *x = f->cube->variables[i];
        if (x->group[0] != '\0' || x->is_scale) continue;
        if (is_column(f, x)) TRY(add_gathered(f, x, e));
    }
done:
    return st;
}

static enum status add_identity(const struct frame *f, struct err *e)
{
    enum status st = OK;
    struct cube_variable *key, *fingerprint, *provenance;
    TRY(add_column(f, "key", CUBE_TEXT, NULL, "digest of settings and inputs", &key, e));
    TRY(add_column(f, "fingerprint", CUBE_TEXT, NULL, "what the last bits may depend on",
                   &fingerprint, e));
    TRY(add_column(f, "provenance", CUBE_TEXT, NULL, "host, times and paths (JSON)", &provenance,
                   e));
    provenance->volatile_ = true;
    for (int64_t i = 0; i < f->rows->n; i++) {
        const struct cube_row *row = &f->rows->rows[i];
        fingerprint->data.t[i] = json_text(row->record, "fingerprint", "");
        if (i > 0 && row[-1].cell == row->cell) {
            key->data.t[i] = key->data.t[i - 1];
            provenance->data.t[i] = provenance->data.t[i - 1];
            continue;
        }
        char *copy;
        TRY(mem_string(&copy, row->key, e));
        TRY(cube_own(f->cube, copy, e));
        key->data.t[i] = copy;
        TRY(cube_json(f->cube, json_object_get(row->record, "provenance"), &provenance->data.t[i],
                      e));
    }
done:
    return st;
}

/* --- sequences --- */

static const json_t *sequence_loss(const struct axes *a, const struct cube_row *row)
{
    if (row->at[DIM_DATASET] < 0) return NULL;
    const json_t *datasets = json_object_get(row->record, "datasets");
    return json_object_get(json_object_get(datasets, a->datasets[row->at[DIM_DATASET]]),
                           "sequence_loss");
}

/* Every row's start and count in sequences/loss, behind what is already there. */
static enum status add_spans(const struct frame *f, struct err *e)
{
    enum status st = OK;
    struct cube_variable *start, *count;
    TRY(add_column(f, "sequence_start", CUBE_INTEGER, "1",
                   "place of the row's first sequence in sequences/loss", &start, e));
    TRY(add_column(f, "sequence_count", CUBE_INTEGER, "1",
                   "the row's number of sequences in sequences/loss", &count, e));
    for (int64_t i = 0; i < f->rows->n; i++) {
        int64_t n = (int64_t)json_array_size(sequence_loss(f->axes, &f->rows->rows[i]));
        start->data.i[i] = f->cube->dims[DIM_SEQUENCE].n;
        count->data.i[i] = n;
        f->cube->dims[DIM_SEQUENCE].n += n;
    }
done:
    return st;
}

static enum status add_sequences(struct cube *c, const struct axes *a,
                                 const struct cube_rows *const parts[2], struct err *e)
{
    enum status st = OK;
    struct cube_variable *x;
    int64_t at = 0;
    const struct cube_variable like = {
        .group = "sequences",
        .name = "loss",
        .type = CUBE_DOUBLE,
        .rank = 1,
        .dims = {DIM_SEQUENCE},
        .may_miss = true,
        .units = "nat",
        .long_name = "cross-entropy per token of each sequence, rows of checkpoints/, then cells/"};
    TRY(cube_add(c, &like, &x, e));
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < parts[k]->n; i++) {
            const json_t *list = sequence_loss(a, &parts[k]->rows[i]);
            for (size_t s = 0; s < json_array_size(list); s++)
                x->data.d[at++] = json_number_get(json_array_get(list, s));
        }
done:
    return st;
}

static enum status add_frame(const struct frame *f, struct err *e)
{
    enum status st = OK;
    TRY(add_numbers(f, e));
    enum cube_dim_place last = f->dim == DIM_CURVATURE_ROW ? DIM_CHECKPOINT : DIM_DATASET;
    for (enum cube_dim_place axis = DIM_MODEL; axis <= last; axis++)
        if (f->dim == DIM_CELL_ROW || (axis != DIM_BITS && axis != DIM_QUANTIZER))
            TRY(add_label(f, axis, e));
    TRY(add_all_gathered(f, e));
    TRY(add_identity(f, e));
    if (f->dim != DIM_CURVATURE_ROW) TRY(add_spans(f, e));
done:
    return st;
}

enum status cube_build_frames(struct cube *c, const struct axes *a,
                              const struct cube_rows *checkpoints, const struct cube_rows *cells,
                              const struct cube_rows *curvature, struct err *e)
{
    enum status st = OK;
    const struct cube_rows *const parts[2] = {checkpoints, cells};
    TRY(add_frame(&(struct frame){c, a, checkpoints, "checkpoints", DIM_CHECKPOINT_ROW}, e));
    TRY(add_frame(&(struct frame){c, a, cells, "cells", DIM_CELL_ROW}, e));
    TRY(add_frame(&(struct frame){c, a, curvature, "curvature", DIM_CURVATURE_ROW}, e));
    TRY(add_sequences(c, a, parts, e));
done:
    return st;
}
