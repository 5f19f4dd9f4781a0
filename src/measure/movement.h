/* movement: how far a checkpoint's weights are from those of the checkpoint before it in training,
 * in all and by tensor, and beside the step of a quantizer (docs/math/movement.md). */
#pragma once
#include "group/part.h"

struct movement_task {
    char *key;                /* of the record */
    char *from;               /* name of the checkpoint before */
    struct weights before;    /* its weights */
    struct method_entry grid; /* the method whose grid is taken, with its bit-widths */
};
