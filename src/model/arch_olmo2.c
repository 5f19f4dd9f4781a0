/* OLMo 2 (OLMo team 2024): norms after the sublayers, q and k normed over the whole projection.
 * Early uploads call it olmo_1124. */
#include "model/arch_table.h"

const struct arch arch_olmo2 = {
    .name = "olmo2",
    .alias = "olmo_1124",
    .doc = "OLMo 2: RMSNorm after the sublayers, q/k RMSNorm over the projection",
    ARCH_OLMO2,
    .rope = {.theta = 10000, .partial = 1},
};
