/* tables: the settings of the program, one line a key. */
#pragma once
#include "config/sweep.h"
#include "options/options.h"

extern const struct option_table sweep_table;
extern const struct option_table model_table;
extern const struct option_table method_table;
extern const struct option_table data_table;
extern const struct option_table curvature_section_table;
extern const struct option_table run_table;
extern const struct option_table row_table; /* columns of a trajectory */

/* Takes from the JSON form of an entry of `methods` the options that its method cannot have. */
void method_json_own(json_t *entry);
