/* place: a checkpoint of a plan, as measures see it that make keys and tasks for its records. */
#pragma once
#include "engine/weights.h"

struct place {
    const struct sweep *sweep;
    int64_t model, row; /* in the sweep */
    const struct weights *weights;
    const char *recipe;         /* of the weights (weights_recipe); NULL: a stored checkpoint */
    const struct place *before; /* the checkpoint before in training, or the average before of the
                                   same entry; NULL: none */
};

/* Its label on the cube's checkpoint axis. */
const char *place_name(const struct place *p);
/* Whether the weights are there and differ from those whose digest that field of the record's
 * provenance is. */
bool place_changed(const struct place *p, const json_t *record, const char *field);
