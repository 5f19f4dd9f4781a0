/* steps_table: steps.csv, a row for each step of a run, which `qtraj train` leaves beside
 * trajectory.csv. Local. */
#pragma once
#include "records/measures.h"

#define STEPS_TABLE "steps.csv"
#define STEPS_TABLE_HEAD                                                                           \
    "step,tokens,learning_rate,loss,z_loss,gradient_norm,validation_loss,tokens_per_second\n"

/* NaN: not known, an empty field. */
struct steps_row {
    int64_t step;
    double tokens, rate, loss, z, norm, validation, speed;
};
/* Reads the row that begins at *at, which is then behind it. false: the text has ended, or the row
 * is not whole. */
bool steps_row_read(const char **at, struct steps_row *out);

/* The columns of a curve, in its JSON and in the cube; one without a name is behind the last. */
extern const struct field steps_curve_columns[];
/* *out (a new reference) = the table beside the trajectory table of that path, thinned: {COLUMN:
 * [...]} with at most 500 rows of as many steps each. "step", "tokens" and "learning_rate" are
 * those of the last step, "validation_loss" ("nan": none) the last one, "steps" is how many they
 * are, and the others are means. NULL: there is no such table, or another program's. ERR_NOMEM.
 */
MUST_USE enum status steps_curve_read(const char *trajectory, json_t **out, struct err *e);
