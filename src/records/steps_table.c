#include "records/steps_table.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <math.h>

enum { CURVE_ROWS = 500 };

/* The next field of a line. */
static double field(const char **at)
{
    char *end = NULL;
    const bool empty = **at == ',' || **at == '\n';
    const double x = empty ? NAN : strtod(*at, &end);
    if (!empty) *at = end;
    *at += **at == ',';
    return x;
}

bool steps_row_read(const char **at, struct steps_row *out)
{
    const char *line = *at, *end = strchr(line, '\n');
    if (!end) return false;
    const double step = field(&line);
    *out = (struct steps_row){.step = step >= 0 && step < 1e15 ? (int64_t)step : -1};
    out->tokens = field(&line);
    out->rate = field(&line);
    out->loss = field(&line);
    out->z = field(&line);
    out->norm = field(&line);
    out->validation = field(&line);
    out->speed = field(&line);
    if (out->step < 0 || line != end) return false;
    *at = end + 1;
    return true;
}

/* --- curves --- */

enum { STEP, STEPS, TOKENS, RATE, LOSS, NORM, VALIDATION, SPEED, COLUMNS };
const struct field steps_curve_columns[] = {
    [STEP] = {"step", "step", IN_LIST, FIELD_INTEGER, STABLE, "1", "last step of the row"},
    [STEPS] = {"steps", "steps", IN_LIST, FIELD_INTEGER, STABLE, "1", "steps that it is of"},
    [TOKENS] = {"tokens", "tokens", IN_LIST, FIELD_REAL, STABLE, "1",
                "training tokens seen at its end"},
    [RATE] = {"learning_rate", "learning_rate", IN_LIST, FIELD_REAL, STABLE, "1",
              "rate of its last step"},
    [LOSS] = {"loss", "training_loss", IN_LIST, FIELD_REAL, STABLE, "nat",
              "loss of its batches, mean"},
    [NORM] = {"gradient_norm", "training_gradient_norm", IN_LIST, FIELD_REAL, STABLE, "1",
              "norm of the gradient before clipping, mean"},
    [VALIDATION] = {"validation_loss", "validation_loss", IN_LIST, FIELD_REAL, STABLE, "nat",
                    "loss on what is held out, at its last checkpoint"},
    [SPEED] = {"tokens_per_second", "tokens_per_second", IN_LIST, FIELD_REAL, VOLATILE, "1/s",
               "training tokens in a second"},
    [COLUMNS] = {0},
};

/* The next `most` rows as one. Returns how many there were. */
static int64_t take_rows(const char **at, int64_t most, double row[COLUMNS])
{
    struct steps_row x;
    int64_t n = 0;
    memset(row, 0, COLUMNS * sizeof *row);
    row[VALIDATION] = NAN;
    for (; n < most && steps_row_read(at, &x); n++) {
        row[LOSS] += x.loss;
        row[NORM] += x.norm;
        row[SPEED] += 1 / x.speed;
        if (!isnan(x.validation)) row[VALIDATION] = x.validation;
        row[STEP] = (double)x.step;
        row[TOKENS] = x.tokens;
        row[RATE] = x.rate;
    }
    row[STEPS] = (double)n;
    row[LOSS] /= (double)n;
    row[NORM] /= (double)n;
    row[SPEED] = (double)n / row[SPEED];
    return n;
}

/* {} where it has no rows. */
static json_t *curve_of(const char *text)
{
    json_t *out = json_object();
    struct steps_row x;
    double row[COLUMNS];
    int64_t n = 0;
    for (const char *at = text; steps_row_read(&at, &x);) n++;
    for (const char *at = text; take_rows(&at, (n + CURVE_ROWS - 1) / CURVE_ROWS, row);)
        for (int i = 0; i < COLUMNS; i++) {
            const char *name = steps_curve_columns[i].name;
            json_t *list = json_object_get(out, name);
            if (!list) json_object_set_new(out, name, list = json_array());
            json_t *value = steps_curve_columns[i].type == FIELD_INTEGER
                                ? json_integer((json_int_t)row[i])
                                : json_number_new(row[i]);
            json_array_append_new(list, value);
        }
    return out;
}

enum status steps_curve_read(const char *trajectory, json_t **out, struct err *e)
{
    enum status st = OK;
    static const char head[] = STEPS_TABLE_HEAD;
    AUTO_FREE char *folder = NULL, *path = NULL, *text = NULL;
    CLEANUP(err_clear) struct err why = {0};
    *out = NULL;
    PASS(fsx_parent(trajectory, &folder, e));
    PASS(fsx_join(folder, STEPS_TABLE, &path, e));
    st = fsx_is_file(path) ? fsx_read(path, 0, &text, NULL, &why) : ERR_IO;
    NEED(st != ERR_NOMEM, ERR_NOMEM, "%s", why.text);
    st = OK;
    if (!text || strncmp(text, head, sizeof head - 1) != 0) return st;
    *out = curve_of(text + sizeof head - 1);
    return json_whole(e);
}
