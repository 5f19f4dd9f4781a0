/* tables: the options tables of the sweep file's sections, each in the file of its section. */
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

/* Removes from the JSON form of an entry of `methods` the options that its method does not have. */
void method_json_own(json_t *entry);
