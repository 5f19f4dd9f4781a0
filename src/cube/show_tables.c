/* Results as tables for people. */
#include "cube/show.h"
#include "cube/text_table.h"
#include "util/mem.h"
#include "util/page.h"
#include "util/quantity.h"
#include <math.h>

enum { NAME, STEP, TOKENS, RATE, PHASE, LOSS, LEFT };

/* A message of cells that failed or, in part, of cells that are done but for a measurement. */
struct message {
    const char *text;
    bool in_part;
};

/* The distinct messages: the i-th is marked with the i-th letter. */
struct notes {
    int64_t n, capacity;
    struct message *messages;
    bool pending, not_measured, nan; /* marks that were used and need a word below */
};

/* A..Z, AA..AZ, ...; text holds 8 characters. */
static void letter_of(int64_t i, char text[8])
{
    char reversed[8];
    int n = 0, k = 0;
    for (i++; i > 0 && n < 7; i = (i - 1) / 26) reversed[n++] = (char)('A' + (i - 1) % 26);
    while (n > 0) text[k++] = reversed[--n];
    text[k] = '\0';
}

/* The letter of a record's message. */
static enum status note(struct notes *notes, const char *text, bool in_part, char letter[8],
                        struct err *e)
{
    int64_t i = 0;
    while (i < notes->n &&
           (strcmp(notes->messages[i].text, text) != 0 || notes->messages[i].in_part != in_part))
        i++;
    if (i == notes->n) {
        PASS(mem_grow(&notes->messages, notes->n, &notes->capacity, sizeof *notes->messages, e));
        notes->messages[notes->n++] = (struct message){text, in_part};
    }
    letter_of(i, letter);
    return OK;
}

/* --- numbers as people read them --- */

static int compare_reals(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* How the numbers of a column are written, so that they align. */
struct form {
    int decimals; /* -1: four digits each */
    bool bytes;   /* with a unit instead */
};

const char show_default_metric[] = "loss_relative";

double show_scale(const char *metric)
{
    return strcmp(metric, show_default_metric) == 0 ? 100 : 1;
}

static void number_text(const struct form *form, double x, double error, char text[64])
{
    if (form->bytes && isfinite(x)) {
        quantity_count(x, text);
        return;
    }
    if (isnan(x)) {
        snprintf(text, 64, "nan");
        return;
    }
    if (isinf(x) || fabs(x) >= 1e6 || form->decimals < 0) {
        snprintf(text, 64, "%.4g", x);
        return;
    }
    const double unit = pow(10, -form->decimals);
    if (fabs(x) < unit / 2) x = 0; /* no "-0.000" */
    if (isnan(error))
        snprintf(text, 64, "%.*f", form->decimals, x);
    else
        snprintf(text, 64, "%.*f ± %.*f", form->decimals, x, form->decimals, error);
}

/* --- states on texts --- */

/* The rows of a kind by their places in its variable along the texts. */
struct places {
    const struct rows *rows;
    const struct cube_variable *x; /* NULL: the cube has none */
    int64_t *row;                  // (x->n)
};

static enum status find_places(const struct show *s, const struct measure *kind, const char *name,
                               struct places *out, struct err *e)
{
    *out = (struct places){.rows = &s->cube->all.rows[measure_place_of(kind)],
                           .x = cube_find(s->cube, name)};
    if (!out->x) return OK;
    PASS(mem_zero(&out->row, out->x->n, sizeof *out->row, "states", e));
    for (int64_t i = 0; i < out->rows->n; i++) {
        const int64_t at = cube_place(s->cube, out->x, &out->rows->rows[i]);
        if (at >= 0) out->row[at] = i;
    }
    return OK;
}

/* --- one table --- */

/* What a table is about. */
struct page {
    const struct show *show;
    struct notes *notes;
    const struct cube_variable *x, *error; /* the metric, its standard error (NULL: none) */
    struct row at; /* its model and dataset; checkpoint, bits and quantizer change */
    int64_t n;     /* variants of a table, by quantizer and bits */
    const struct axis_variant **variants;
    struct form *forms; /* of each variant's column */
    struct places cells, checkpoints;
};

static const struct axis_labels *labels(const struct page *p, int axis)
{
    return &p->show->cube->all.axes.labels[axis];
}

static const struct axis_model *model_of(const struct page *p)
{
    return &p->show->cube->all.axes.models[p->at.at[AXIS_MODEL]];
}

static bool wants_checkpoint(const struct page *p, int64_t c)
{
    return show_wants_label(p->show, "checkpoint", model_of(p)->checkpoints[c].name);
}

static void go_to(struct page *p, int64_t checkpoint, int64_t variant)
{
    p->at.at[AXIS_CHECKPOINT] = checkpoint;
    if (variant < 0) return;
    p->at.at[AXIS_BITS] = p->variants[variant]->bits_at;
    p->at.at[AXIS_QUANTIZER] = p->variants[variant]->quantizer_at;
}

/* A number at the page's place; NaN: it is not there. */
static double number_here(const struct page *p, const char *name)
{
    return show_number(p->show, cube_find(p->show->cube, name), &p->at);
}

static const char *text_here(const struct page *p, const char *name)
{
    const struct cube_variable *x = cube_find(p->show->cube, name);
    return x->data.t[cube_place(p->show->cube, x, &p->at)];
}

/* The decimals that show n digits of x. */
static int decimals_of(double x, int n)
{
    enum { MOST = 6 };
    int decimals = n - 1 - (int)floor(log10(x));
    return decimals < 0 ? 0 : decimals > MOST ? MOST : decimals;
}

/* Two digits of the column's middle standard error; without one, five digits of its greatest
 * number, unless the least would be lost. */
static struct form form_of(struct page *p, int64_t variant, double *errors)
{
    const double scale = show_scale(p->x->name);
    double least = INFINITY, most = 0;
    int64_t n = 0;
    for (int64_t c = 0; c < model_of(p)->n; c++) {
        if (!wants_checkpoint(p, c)) continue;
        go_to(p, c, variant);
        double x = fabs(scale * show_number(p->show, p->x, &p->at)),
               error = scale * show_number(p->show, p->error, &p->at);
        if (x > 0 && x < least) least = x;
        if (x > most && isfinite(x)) most = x;
        if (error > 0 && isfinite(error)) errors[n++] = error;
    }
    if (p->x->units && strcmp(p->x->units, "byte") == 0) return (struct form){.bytes = true};
    if (p->x->type == FIELD_INTEGER) return (struct form){0};
    if (n) {
        qsort(errors, (size_t)n, sizeof *errors, compare_reals);
        return (struct form){.decimals = decimals_of(errors[n / 2], 2)};
    }
    if (most == 0) return (struct form){.decimals = 4};
    if (most >= 1e6 || least < 1e-4 * most || most < 1e-2) return (struct form){.decimals = -1};
    return (struct form){.decimals = decimals_of(most, 5)};
}

static void put_head(struct page *p, struct table *t)
{
    static const char *const names[LEFT] = {
        [NAME] = "checkpoint", [STEP] = "step",   [TOKENS] = "tokens",
        [RATE] = "lr",         [PHASE] = "phase", [LOSS] = "loss"};
    bool there[LEFT] = {[NAME] = true, [LOSS] = p->at.at[AXIS_DATASET] >= 0};
    for (int64_t c = 0; c < model_of(p)->n; c++) {
        go_to(p, c, -1);
        there[STEP] |= !isnan(number_here(p, "step"));
        there[TOKENS] |= !isnan(number_here(p, "tokens"));
        there[RATE] |= !isnan(number_here(p, "learning_rate"));
        there[PHASE] |= text_here(p, "phase")[0] != '\0';
    }
    table_add_row(t);
    for (int64_t k = 0; k < LEFT; k++)
        if (there[k]) table_set(t, k, "%s", names[k]);
    for (int64_t i = 0; i < p->n; i++)
        table_set(t, LEFT + i, "%s %lld",
                  labels(p, AXIS_QUANTIZER)->texts[p->variants[i]->quantizer_at],
                  (long long)labels(p, AXIS_BITS)->numbers[p->variants[i]->bits_at]);
    t->align_left[NAME] = t->align_left[PHASE] = true;
}

/* The state of the record here, on the page's text if it is of one. status: the variable of its
 * state. *why is set if it is not that of the text. */
static enum result_state state_here(const struct page *p, const struct places *of,
                                    const char *status, const char **why)
{
    const struct cube_variable *x = cube_find(p->show->cube, status);
    const enum result_state state = x->data.s[cube_place(p->show->cube, x, &p->at)];
    const int64_t at = of->x && state == STATE_DONE ? cube_place(p->show->cube, of->x, &p->at) : -1;
    if (at < 0) return state;
    const struct row *row = &of->rows->rows[of->row[at]];
    const enum result_state own = row_state_here(of->rows, row, NULL);
    if (own != STATE_DONE) row_state_here(of->rows, row, why);
    return own;
}

/* Sets a cell of the table to a number, or to the mark of a record without one: its state and its
 * message are the variables of these names. */
static enum status put_result(const struct page *p, struct table *t, int64_t column,
                              const char *number, const struct places *of, const char *status,
                              const char *message, struct err *e)
{
    const char *why = text_here(p, message);
    char letter[8];
    switch (state_here(p, of, status, &why)) {
    case STATE_DONE:
        p->notes->nan |= strcmp(number, "nan") == 0;
        if (why[0]) PASS(note(p->notes, why, true, letter, e));
        table_set(t, column, "%s%s%s", number, why[0] ? " " : "", why[0] ? letter : "");
        break;
    case STATE_FAILED:
        PASS(note(p->notes, why, false, letter, e));
        table_set(t, column, "%s", letter);
        break;
    case STATE_PENDING:
        p->notes->pending = true;
        table_set(t, column, "…");
        break;
    default:
        p->notes->not_measured = true;
        table_set(t, column, "-");
    }
    return OK;
}

static enum status put_checkpoint(const struct page *p, struct table *t, struct err *e)
{
    char text[QUANTITY];
    double step = number_here(p, "step"), tokens = number_here(p, "tokens");
    double rate = number_here(p, "learning_rate");
    table_set(t, NAME, "%s", text_here(p, "checkpoint_name"));
    if (!isnan(step)) table_set(t, STEP, "%.0f", step);
    if (!isnan(tokens)) {
        quantity_count(tokens, text);
        table_set(t, TOKENS, "%s", text);
    }
    if (!isnan(rate)) {
        quantity_plain(rate, 3, text);
        table_set(t, RATE, "%s", text);
    }
    if (text_here(p, "phase")[0]) table_set(t, PHASE, "%s", text_here(p, "phase"));
    if (p->at.at[AXIS_DATASET] < 0) return OK;
    snprintf(text, sizeof text, "%.4f", number_here(p, "baseline_loss"));
    return put_result(p, t, LOSS, text, &p->checkpoints, "checkpoint_status", "checkpoint_message",
                      e);
}

static enum status print_table(struct page *p, struct err *e)
{
    CLEANUP(table_free) struct table t = {.columns = LEFT + p->n, .left = LEFT};
    AUTO_FREE double *errors = NULL;
    PASS(mem_zero(&errors, model_of(p)->n, sizeof *errors, "errors", e));
    for (int64_t i = 0; i < p->n; i++) p->forms[i] = form_of(p, i, errors);
    put_head(p, &t);
    for (int64_t c = 0; c < model_of(p)->n; c++)
        if (wants_checkpoint(p, c)) {
            const double scale = show_scale(p->x->name);
            char text[64];
            table_add_row(&t);
            go_to(p, c, -1);
            PASS(put_checkpoint(p, &t, e));
            for (int64_t i = 0; i < p->n; i++) {
                go_to(p, c, i);
                number_text(&p->forms[i], scale * show_number(p->show, p->x, &p->at),
                            scale * show_number(p->show, p->error, &p->at), text);
                PASS(put_result(p, &t, LEFT + i, text, &p->cells, "status", "message", e));
            }
        }
    putc('\n', p->show->out);
    return table_print(&t, table_page_width(p->show->out), p->show->out, e);
}

/* --- all of them --- */

static bool wants_bits(const struct page *p, int64_t bits_at)
{
    char bits[24];
    snprintf(bits, sizeof bits, "%lld", (long long)labels(p, AXIS_BITS)->numbers[bits_at]);
    return show_wants_label(p->show, "bits", bits);
}

/* Adds the variants of a quantizer that are wanted, by bits. */
static void add_variants(struct page *p, int64_t quantizer)
{
    const struct axes *a = &p->show->cube->all.axes;
    for (int64_t b = 0; b < a->labels[AXIS_BITS].n; b++) {
        if (!wants_bits(p, b)) continue;
        for (int64_t i = 0; i < a->n_variants; i++) {
            const struct axis_variant *v = &a->variants[i];
            if (v->quantizer_at == quantizer && v->bits_at == b && v->applicable)
                p->variants[p->n++] = v;
        }
    }
}

/* The tables of a model, a dataset and a metric: one of each quantizer, or one of all if a single
 * width was asked for. */
static enum status print_page(struct page *p, struct err *e)
{
    const struct axis_labels *quantizers = labels(p, AXIS_QUANTIZER);
    int64_t widths = 0, tables = 0;
    for (int64_t b = 0; b < labels(p, AXIS_BITS)->n; b++) widths += wants_bits(p, b);
    p->n = 0;
    for (int64_t q = 0; q < quantizers->n; q++) {
        if (show_wants_label(p->show, "quantizer", quantizers->texts[q])) add_variants(p, q);
        if (p->n == 0 || (widths == 1 && q + 1 < quantizers->n)) continue;
        if (!tables++) {
            const bool percent = show_scale(p->x->name) != 1, plain = strcmp(p->x->units, "1") == 0;
            const int64_t dataset = p->at.at[AXIS_DATASET];
            FILE *out = p->show->out;
            AUTO_FREE char *title = NULL;
            PASS(mem_format(
                &title, e, "%s%s%s: %s: %s%s%s%s%s%s",
                labels(p, AXIS_MODEL)->texts[p->at.at[AXIS_MODEL]], dataset < 0 ? "" : ", ",
                dataset < 0 ? "" : labels(p, AXIS_DATASET)->texts[dataset], p->x->name,
                p->x->long_name, percent ? ", in percent" : "", plain ? "" : " (",
                plain ? "" : p->x->units, plain ? "" : ")", p->error ? ", ± standard error" : ""));
            page_print(out, table_page_width(out), 0, 0, title);
        }
        PASS(print_table(p, e));
        p->n = 0;
    }
    if (tables) putc('\n', p->show->out);
    return OK;
}

/* The pages of a model and a metric, one if the metric is not of datasets. */
static enum status print_model(struct page *p, struct err *e)
{
    const struct axis_labels *datasets = labels(p, AXIS_DATASET);
    bool of_dataset = false, any = false;
    for (int64_t c = 0; c < model_of(p)->n; c++) any = any || wants_checkpoint(p, c);
    if (!any) return OK;
    for (int k = 0; k < p->x->rank; k++) of_dataset = of_dataset || p->x->dims[k] == AXIS_DATASET;
    for (int64_t d = 0; d < datasets->n; d++) {
        if (!show_wants_label(p->show, "dataset", datasets->texts[d])) continue;
        p->at.at[AXIS_DATASET] = of_dataset ? d : -1;
        PASS(print_page(p, e));
        if (!of_dataset) break;
    }
    return OK;
}

static bool is_asked(const struct show *s, const struct cube_variable *x)
{
    bool number = x->type == FIELD_REAL || x->type == FIELD_INTEGER;
    if (!s->options->metric) return strcmp(x->name, show_default_metric) == 0;
    return x->of && number && cube_is_along(x, &measure_cell) && show_wants_metric(s, x->name);
}

enum status show_tables(const struct show *s, struct err *e)
{
    enum status st = OK;
    const struct axes *a = &s->cube->all.axes;
    struct notes notes = {0};
    char name[128];
    struct page page = {.show = s, .notes = &notes};
    TRY(mem_zero(&page.variants, a->n_variants, sizeof *page.variants, "variants", e));
    TRY(mem_zero(&page.forms, a->n_variants, sizeof *page.forms, "variants", e));
    TRY(find_places(s, &measure_cell, "loss", &page.cells, e));
    TRY(find_places(s, &measure_checkpoint, "baseline_loss", &page.checkpoints, e));
    for (int64_t m = 0; m < a->labels[AXIS_MODEL].n; m++) {
        if (!show_wants_label(s, "model", a->labels[AXIS_MODEL].texts[m])) continue;
        page.at.at[AXIS_MODEL] = m;
        for (int64_t k = 0; k < s->cube->n; k++) {
            if (!is_asked(s, s->cube->variables[k])) continue;
            page.x = s->cube->variables[k];
            snprintf(name, sizeof name, "%s_stderr", page.x->name);
            page.error = cube_find(s->cube, name);
            TRY(print_model(&page, e));
        }
    }
    for (int64_t i = 0; i < notes.n; i++) {
        char letter[8];
        letter_of(i, letter);
        fprintf(s->out, "%s  %s: %s\n", letter,
                notes.messages[i].in_part ? "scored, but not measured in full" : "failed",
                notes.messages[i].text);
    }
    if (notes.pending) fprintf(s->out, "…  pending\n");
    if (notes.not_measured) fprintf(s->out, "-  not applicable\n");
    if (notes.nan) fprintf(s->out, "nan  not a number, or not measured\n");
done:
    free(page.variants);
    free(page.forms);
    free(page.cells.row);
    free(page.checkpoints.row);
    free(notes.messages);
    return st;
}
