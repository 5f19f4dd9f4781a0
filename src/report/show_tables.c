/* Results as tables for people. */
#include "report/show.h"
#include "report/text_table.h"
#include "util/mem.h"
#include "util/quantity.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAME, STEP, TOKENS, RATE, PHASE, LOSS, LEFT };

/* The distinct messages of what failed: the i-th is marked with the i-th letter. */
struct notes {
    int64_t n, capacity;
    const char **messages;
    bool pending, not_measured; /* marks that were used and need a word below */
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

/* The letter of a failed record's message. */
static enum status note(struct notes *notes, const char *message, char letter[8], struct err *e)
{
    int64_t i = 0;
    while (i < notes->n && strcmp(notes->messages[i], message) != 0) i++;
    if (i == notes->n) {
        PASS(mem_grow(&notes->messages, notes->n, &notes->capacity, sizeof *notes->messages, e));
        notes->messages[notes->n++] = message;
    }
    letter_of(i, letter);
    return OK;
}

/* --- numbers as people read them --- */

static void percent_text(double value, double error, int decimals, char text[64])
{
    double x = 100 * value, dx = 100 * error;
    if (isnan(x))
        snprintf(text, 64, "nan");
    else if (isinf(x) || fabs(x) >= 1e6)
        snprintf(text, 64, "%.3g", x);
    else if (isnan(dx))
        snprintf(text, 64, "%.*f", decimals, x);
    else
        snprintf(text, 64, "%.*f ± %.*f", decimals, x, decimals, dx);
}

/* --- one table --- */

/* What a table is about. */
struct page {
    const struct show *show;
    struct notes *notes;
    struct row at; /* its model and dataset; checkpoint, bits and quantizer change */
    int64_t n;     /* variants wanted, by quantizer, then bits */
    const struct axis_variant **variants;
    int *decimals; /* of each variant's column */
};

static const struct axis_labels *labels(const struct page *p, int axis)
{
    return &p->show->cube->all.axes.labels[axis];
}

static int64_t n_checkpoints(const struct page *p)
{
    return p->show->cube->all.axes.models[p->at.at[AXIS_MODEL]].n;
}

static void go_to(struct page *p, int64_t checkpoint, int64_t variant)
{
    p->at.at[AXIS_CHECKPOINT] = checkpoint;
    if (variant < 0) return;
    p->at.at[AXIS_BITS] = p->variants[variant]->bits_at;
    p->at.at[AXIS_QUANTIZER] = p->variants[variant]->quantizer_at;
}

/* A grid variable, and which of its elements belongs to the page's place. */
static const struct cube_variable *here(const struct page *p, const char *name, int64_t *i)
{
    const struct cube_variable *x = cube_find(p->show->cube, name);
    *i = cube_place(p->show->cube, x, &p->at);
    return x;
}

static double real_here(const struct page *p, const char *name)
{
    int64_t i;
    return here(p, name, &i)->data.d[i];
}

static const char *text_here(const struct page *p, const char *name)
{
    int64_t i;
    return here(p, name, &i)->data.t[i];
}

static int64_t step_here(const struct page *p)
{
    int64_t i;
    return here(p, "step", &i)->data.i[i];
}

/* Two digits of the column's smallest standard error, so that a column's numbers align. */
static int column_decimals(struct page *p, int64_t variant)
{
    double least = INFINITY;
    for (int64_t c = 0; c < n_checkpoints(p); c++) {
        go_to(p, c, variant);
        double error = real_here(p, "loss_relative_stderr");
        if (error > 0 && error < least) least = error;
    }
    if (isinf(least)) return 2;
    int decimals = 1 - (int)floor(log10(100 * least));
    return decimals < 1 ? 1 : decimals > 3 ? 3 : decimals;
}

static enum status put_head(struct page *p, struct table *t, struct err *e)
{
    static const char *const names[LEFT] = {
        [NAME] = "checkpoint", [STEP] = "step",   [TOKENS] = "tokens",
        [RATE] = "lr",         [PHASE] = "phase", [LOSS] = "loss"};
    bool there[LEFT] = {[NAME] = true, [LOSS] = true};
    for (int64_t c = 0; c < n_checkpoints(p); c++) {
        go_to(p, c, -1);
        there[STEP] |= step_here(p) >= 0;
        there[TOKENS] |= !isnan(real_here(p, "tokens"));
        there[RATE] |= !isnan(real_here(p, "learning_rate"));
        there[PHASE] |= text_here(p, "phase")[0] != '\0';
    }
    PASS(table_add_row(t, e));
    for (int64_t k = 0; k < LEFT; k++)
        if (there[k]) PASS(table_set(t, k, e, "%s", names[k]));
    for (int64_t i = 0; i < p->n; i++)
        PASS(table_set(t, LEFT + i, e, "%s %lld",
                       labels(p, AXIS_QUANTIZER)->texts[p->variants[i]->quantizer_at],
                       (long long)labels(p, AXIS_BITS)->numbers[p->variants[i]->bits_at]));
    t->align_left[NAME] = t->align_left[PHASE] = true;
    return OK;
}

/* Sets a cell of the table to a number, or to the mark of a record without one: its state and its
 * message are the variables of these names. */
static enum status put_result(const struct page *p, struct table *t, int64_t column,
                              const char *number, const char *status, const char *message,
                              struct err *e)
{
    const struct cube_variable *x = cube_find(p->show->cube, status);
    char letter[8];
    switch (x->data.s[cube_place(p->show->cube, x, &p->at)]) {
    case STATE_DONE:
        PASS(table_set(t, column, e, "%s", number));
        break;
    case STATE_FAILED:
        PASS(note(p->notes, text_here(p, message), letter, e));
        PASS(table_set(t, column, e, "%s", letter));
        break;
    case STATE_PENDING:
        p->notes->pending = true;
        PASS(table_set(t, column, e, "…"));
        break;
    default:
        p->notes->not_measured = true;
        PASS(table_set(t, column, e, "-"));
    }
    return OK;
}

static enum status put_checkpoint(const struct page *p, struct table *t, struct err *e)
{
    char text[32];
    int64_t step = step_here(p);
    double tokens = real_here(p, "tokens"), rate = real_here(p, "learning_rate");
    PASS(table_set(t, NAME, e, "%s", text_here(p, "checkpoint_name")));
    if (step >= 0) PASS(table_set(t, STEP, e, "%lld", (long long)step));
    if (!isnan(tokens)) {
        quantity_count(tokens, text);
        PASS(table_set(t, TOKENS, e, "%s", text));
    }
    if (!isnan(rate)) PASS(table_set(t, RATE, e, "%.3g", rate));
    if (text_here(p, "phase")[0]) PASS(table_set(t, PHASE, e, "%s", text_here(p, "phase")));
    snprintf(text, sizeof text, "%.4f", real_here(p, "baseline_loss"));
    return put_result(p, t, LOSS, text, "checkpoint_status", "checkpoint_message", e);
}

static enum status put_checkpoint_row(struct page *p, int64_t checkpoint, struct table *t,
                                      struct err *e)
{
    char text[64];
    PASS(table_add_row(t, e));
    go_to(p, checkpoint, -1);
    PASS(put_checkpoint(p, t, e));
    for (int64_t i = 0; i < p->n; i++) {
        go_to(p, checkpoint, i);
        percent_text(real_here(p, "loss_relative"), real_here(p, "loss_relative_stderr"),
                     p->decimals[i], text);
        PASS(put_result(p, t, LEFT + i, text, "status", "message", e));
    }
    return OK;
}

static enum status print_page(struct page *p, struct err *e)
{
    enum status st = OK;
    struct table t = {0};
    for (int64_t i = 0; i < p->n; i++) p->decimals[i] = column_decimals(p, i);
    fprintf(p->show->out,
            "%s, %s: relative error CE(quantized) / CE - 1 in percent, ± standard error\n\n",
            labels(p, AXIS_MODEL)->texts[p->at.at[AXIS_MODEL]],
            labels(p, AXIS_DATASET)->texts[p->at.at[AXIS_DATASET]]);
    TRY(table_init(&t, LEFT + p->n, LEFT, e));
    TRY(put_head(p, &t, e));
    for (int64_t c = 0; c < n_checkpoints(p); c++) TRY(put_checkpoint_row(p, c, &t, e));
    TRY(table_print(&t, table_page_width(p->show->out), p->show->out, e));
    putc('\n', p->show->out);
done:
    table_free(&t);
    return st;
}

/* --- all of them --- */

static enum status choose_variants(struct page *p, struct err *e)
{
    const struct show *s = p->show;
    const struct axes *a = &s->cube->all.axes;
    PASS(mem_zero(&p->variants, a->n_variants, sizeof *p->variants, "variants", e));
    PASS(mem_zero(&p->decimals, a->n_variants, sizeof *p->decimals, "variants", e));
    for (int64_t q = 0; q < a->labels[AXIS_QUANTIZER].n; q++)
        for (int64_t b = 0; b < a->labels[AXIS_BITS].n; b++)
            for (int64_t i = 0; i < a->n_variants; i++) {
                const struct axis_variant *v = &a->variants[i];
                if (v->quantizer_at == q && v->bits_at == b && v->applicable &&
                    show_wants(s, AXIS_QUANTIZER, q) && show_wants(s, AXIS_BITS, b))
                    p->variants[p->n++] = v;
            }
    return OK;
}

static void print_notes(const struct notes *notes, FILE *out)
{
    for (int64_t i = 0; i < notes->n; i++) {
        char letter[8];
        letter_of(i, letter);
        fprintf(out, "%s  failed: %s\n", letter, notes->messages[i]);
    }
    if (notes->pending) fprintf(out, "…  pending\n");
    if (notes->not_measured) fprintf(out, "-  not applicable\n");
}

enum status show_tables(const struct show *s, struct err *e)
{
    enum status st = OK;
    struct notes notes = {0};
    struct page page = {.show = s, .notes = &notes};
    TRY(choose_variants(&page, e));
    for (int64_t m = 0; m < s->cube->all.axes.labels[AXIS_MODEL].n; m++)
        for (int64_t d = 0; d < s->cube->all.axes.labels[AXIS_DATASET].n; d++) {
            if (!show_wants(s, AXIS_MODEL, m) || !show_wants(s, AXIS_DATASET, d)) continue;
            page.at.at[AXIS_MODEL] = m;
            page.at.at[AXIS_DATASET] = d;
            TRY(print_page(&page, e));
        }
    print_notes(&notes, s->out);
done:
    free(page.variants);
    free(page.decimals);
    free(notes.messages);
    return st;
}
