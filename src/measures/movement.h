/* movement: the setup of measuring how far a checkpoint is from the one before it. */
#pragma once
#include "config/sweep.h"
#include "engine/weights.h"

struct movement_setup {
    char *from;               /* name of the checkpoint before */
    struct weights before;    /* its weights */
    struct method_entry grid; /* the method whose grid is taken, with its bit-widths */
    char *parts; /* of its record, if finished ones have some of them (parts.h); NULL: none has */
};

extern const struct measure_parts movement_parts; /* movement_parts.c */
