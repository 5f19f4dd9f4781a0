/* folding: which factors of a stage's input channels other tensors of the block can absorb. */
#pragma once
#include "model/arch.h"

/* Whether the norm before attention and MLP can: there is one, and it has weights. */
static inline bool folding_norm_absorbs(const struct arch *a)
{
    return a->place == NORM_PRE && a->norm != NORM_LAYER_PLAIN;
}
