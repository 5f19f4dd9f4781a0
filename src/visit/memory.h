/* memory: what a visit takes on a rank, and what is done so that it stays within its bounds.
 *
 * Numbers do not depend on any of this: only where hidden states lie, what is computed twice, and
 * how often the blocks are walked.
 */
#pragma once
#include "util/err.h"
#include "visit/states.h"
#include <stdint.h>

struct memory_plan {
    int64_t range_tokens;      /* sequences go through a block in ranges of about so many tokens */
    int64_t kept_tokens;       /* calibration tokens whose inner activations outlive a pass */
    int64_t wave;              /* variants that walk the blocks together */
    struct states_place place; /* of the hidden states between blocks */
};
