/* preset: the settings of published protocols, by name.
 *
 * A preset is a set of defaults for the options of a method and for how calibration and evaluation
 * texts are treated. It is named at the top of a sweep file, or in one of those entries, for which
 * it replaces the file's. Keys written beside it take precedence. Results record the values, not
 * the name of the preset (docs/decisions/0012-presets.md). */
#pragma once
#include "config/sweep.h"
#include "options/options.h"

/* In the order of enum preset, NULL after the last. */
extern const char *const preset_names[];

/* Hooks of the tables (option_table.begin) for an entry of `methods`, and for `calibration` or an
 * entry of `evaluation`: apply the preset that concerns it before its keys are read. */
enum status method_begin(void *entry, const struct option_scope *scope, struct err *e);
enum status data_begin(void *entry, const struct option_scope *scope, struct err *e);

/* Fails if methods and calibration of a sweep contradict each other. */
enum status preset_check(const struct sweep *s, const struct option_scope *scope, struct err *e);

/* The preset of that name; -1: there is none. */
int preset_named(const char *name);
/* For the command line: applies the preset's defaults to the options of a method, and to a data
 * source for "calibration" or "evaluation". Options that it does not fix are unchanged. ERR_USAGE,
 * ERR_NOMEM. */
MUST_USE enum status quant_options_preset(struct quant_options *q, int preset, const char *method,
                                          struct err *e);
MUST_USE enum status data_options_preset(struct data_options *d, int preset, const char *section,
                                         struct err *e);

/* Whether the preset fixes options of the method. */
bool preset_concerns(int preset, const char *method);
/* Lists all presets with what they fix. */
void preset_print(FILE *out);
