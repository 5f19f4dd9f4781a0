/* preset: what published protocols fix, by name.
 *
 * A preset is a set of defaults for a method's options, for the calibration's and the evaluation's
 * data treatment. It stands at the top of a sweep file, or at one of those entries, which then has
 * it instead of the file's. Keys written beside it win. What results hold are the values, not the
 * preset's name (docs/decisions/0012-presets.md). */
#pragma once
#include "config/sweep.h"
#include "options/options.h"

/* In the order of enum preset, NULL behind the last. */
extern const char *const preset_names[];

/* Hooks of the tables (option_table.begin): the preset that holds for an entry of `methods`, for
 * `calibration` or an entry of `evaluation`, put into the entry before its own keys are. */
enum status method_begin(void *entry, const struct option_scope *scope, struct err *e);
enum status data_begin(void *entry, const struct option_scope *scope, struct err *e);

/* That methods and calibration of a sweep do not contradict each other. */
enum status preset_check(const struct sweep *s, const struct option_scope *scope, struct err *e);
