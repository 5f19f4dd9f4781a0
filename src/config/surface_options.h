/* surface_options: an entry of `surfaces`: a loss surface that a sweep asks for. */
#pragma once
#include "options/options.h"

enum surface_plane {
    SURFACE_QUANTIZATION, /* through a checkpoint, the one before it, and the quantized one */
    SURFACE_TRAJECTORY,   /* the principal plane of a trajectory's checkpoints */
    SURFACE_RANDOM        /* two filter-normalised random directions from a checkpoint */
};

/* After sweep_read, members that concern the plane are never NULL or 0. */
struct surface_entry {
    char *name;
    int plane; /* enum surface_plane */
    char *model;
    char *checkpoint;  /* quantization, random */
    char *previous;    /* quantization */
    char *checkpoints; /* trajectory: shell pattern; NULL: all */
    char *quantizer;   /* quantization: a label of `methods` */
    int64_t bits;      /* likewise */
    int64_t columns, rows;
    double margin;   /* quantization, trajectory: of the points' box, on every side */
    double radius;   /* random */
    char *dataset;   /* a label of `evaluation` */
    int64_t samples; /* sequences of it at most; 0: all */
};

/* "quantization", "trajectory", "random". */
const char *surface_plane_name(int plane);

/* For the sweep's table. */
extern const struct option_table surface_table;
struct sweep;
/* Fills in what entry i leaves out and checks the names in it. ERR_USAGE with its place; ERR_NOMEM.
 */
MUST_USE enum status surface_resolve(struct sweep *s, int64_t i, const struct option_scope *scope,
                                     struct err *e);
