#include "train/optimizer.h"
#include <stddef.h>

#define OPTIMIZER_AT(name)   &optimizer_##name,
#define OPTIMIZER_NAME(name) #name,
const struct optimizer *const optimizers[OPTIMIZERS_N] = {OPTIMIZERS(OPTIMIZER_AT)};
const char *const optimizer_names[OPTIMIZERS_N + 1] = {OPTIMIZERS(OPTIMIZER_NAME) NULL};
