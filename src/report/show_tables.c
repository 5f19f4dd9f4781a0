/* Results as tables for people. */
#include "report/show.h"
#include "report/text_table.h"
#include "util/mem.h"
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

static enum status note(struct notes *notes, const json_t *record, char letter[8], struct err *e)
{
    enum status st = OK;
    const char *message = json_text(record, "message", "");
    int64_t i = 0;
    while (i < notes->n && strcmp(notes->messages[i], message) != 0) i++;
    if (i == notes->n) {
        TRY(mem_grow(&notes->messages, notes->n, &notes->capacity, sizeof *notes->messages, e));
        notes->messages[notes->n++] = message;
    }
    letter_of(i, letter);
done:
    return st;
}

/* --- numbers as people read them --- */

/* 819200 → 819k, 2.5e12 → 2.5T. */
static void count_text(double count, char text[32])
{
    static const char units[] = " kMBT";
    int unit = 0;
    while (count >= 999.5 && unit < 4) {
        count /= 1000;
        unit++;
    }
    snprintf(text, 32, "%.3g%.*s", count, unit > 0, &units[unit]);
}

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
    const struct axis_model *model;
    const char *dataset;
    int64_t n; /* variants wanted, by quantizer, then bits */
    const struct axis_variant **variants;
    int *decimals; /* of each variant's column */
};

static const json_t *cell_record(const struct page *p, int64_t checkpoint, int64_t variant)
{
    char key[HASH_HEX];
    results_cell_key(p->model->checkpoints[checkpoint].key, p->variants[variant]->key, key);
    return results_view_find(p->show->view, key);
}

static double dataset_number(const json_t *record, const char *dataset, const char *name)
{
    const json_t *datasets = json_object_get(record, "datasets");
    return json_number_get(json_object_get(json_object_get(datasets, dataset), name));
}

/* Two digits of the column's smallest standard error, so that a column's numbers align. */
static int column_decimals(const struct page *p, int64_t variant)
{
    double least = INFINITY;
    for (int64_t c = 0; c < p->model->n; c++) {
        double error =
            dataset_number(cell_record(p, c, variant), p->dataset, "loss_relative_stderr");
        if (error > 0 && error < least) least = error;
    }
    if (isinf(least)) return 2;
    int decimals = 1 - (int)floor(log10(100 * least));
    return decimals < 1 ? 1 : decimals > 3 ? 3 : decimals;
}

static enum status put_head(const struct page *p, struct table *t, struct err *e)
{
    enum status st = OK;
    static const char *const names[LEFT] = {
        [NAME] = "checkpoint", [STEP] = "step",   [TOKENS] = "tokens",
        [RATE] = "lr",         [PHASE] = "phase", [LOSS] = "loss"};
    bool there[LEFT] = {[NAME] = true, [LOSS] = true};
    for (int64_t c = 0; c < p->model->n; c++) {
        const struct axis_checkpoint *from = &p->model->checkpoints[c];
        there[STEP] |= from->step >= 0;
        there[TOKENS] |= !isnan(from->tokens);
        there[RATE] |= !isnan(from->learning_rate);
        there[PHASE] |= from->phase[0] != '\0';
    }
    TRY(table_add_row(t, e));
    for (int64_t k = 0; k < LEFT; k++)
        if (there[k]) TRY(table_set(t, k, e, "%s", names[k]));
    for (int64_t i = 0; i < p->n; i++)
        TRY(table_set(t, LEFT + i, e, "%s %lld",
                      p->show->axes.quantizers[p->variants[i]->quantizer_at],
                      (long long)p->show->axes.bits[p->variants[i]->bits_at]));
    t->align_left[NAME] = t->align_left[PHASE] = true;
done:
    return st;
}

static enum status put_checkpoint(const struct page *p, int64_t checkpoint, struct table *t,
                                  struct err *e)
{
    enum status st = OK;
    char text[32], letter[8];
    const struct axis_checkpoint *c = &p->model->checkpoints[checkpoint];
    const json_t *record = results_view_find(p->show->view, c->key);
    double loss = dataset_number(record, p->dataset, "loss");
    TRY(table_set(t, NAME, e, "%s", c->name));
    if (c->step >= 0) TRY(table_set(t, STEP, e, "%lld", (long long)c->step));
    if (!isnan(c->tokens)) {
        count_text(c->tokens, text);
        TRY(table_set(t, TOKENS, e, "%s", text));
    }
    if (!isnan(c->learning_rate)) TRY(table_set(t, RATE, e, "%.3g", c->learning_rate));
    if (c->phase[0]) TRY(table_set(t, PHASE, e, "%s", c->phase));
    switch (cube_status_of(record)) {
    case STATUS_DONE:
        TRY(table_set(t, LOSS, e, "%.4f", loss));
        break;
    case STATUS_FAILED:
        TRY(note(p->notes, record, letter, e));
        TRY(table_set(t, LOSS, e, "%s", letter));
        break;
    default:
        p->notes->pending = true;
        TRY(table_set(t, LOSS, e, "…"));
    }
done:
    return st;
}

static enum status put_cell(const struct page *p, int64_t checkpoint, int64_t variant,
                            struct table *t, struct err *e)
{
    enum status st = OK;
    char text[64], letter[8];
    const json_t *record = cell_record(p, checkpoint, variant);
    switch (cube_status_of(record)) {
    case STATUS_DONE:
        percent_text(dataset_number(record, p->dataset, "loss_relative"),
                     dataset_number(record, p->dataset, "loss_relative_stderr"),
                     p->decimals[variant], text);
        TRY(table_set(t, LEFT + variant, e, "%s", text));
        break;
    case STATUS_FAILED:
        TRY(note(p->notes, record, letter, e));
        TRY(table_set(t, LEFT + variant, e, "%s", letter));
        break;
    case STATUS_PENDING:
        p->notes->pending = true;
        TRY(table_set(t, LEFT + variant, e, "…"));
        break;
    default:
        p->notes->not_measured = true;
        TRY(table_set(t, LEFT + variant, e, "-"));
    }
done:
    return st;
}

static enum status print_page(const struct page *p, struct err *e)
{
    enum status st = OK;
    struct table t = {0};
    for (int64_t i = 0; i < p->n; i++) p->decimals[i] = column_decimals(p, i);
    fprintf(p->show->out,
            "%s, %s: relative error CE(quantized) / CE - 1 in percent, ± standard error\n\n",
            p->model->name, p->dataset);
    TRY(table_init(&t, LEFT + p->n, LEFT, e));
    TRY(put_head(p, &t, e));
    for (int64_t c = 0; c < p->model->n; c++) {
        TRY(table_add_row(&t, e));
        TRY(put_checkpoint(p, c, &t, e));
        for (int64_t i = 0; i < p->n; i++) TRY(put_cell(p, c, i, &t, e));
    }
    TRY(table_print(&t, table_page_width(p->show->out), p->show->out, e));
    putc('\n', p->show->out);
done:
    table_free(&t);
    return st;
}

/* --- all of them --- */

static enum status choose_variants(const struct show *s, struct page *p, struct err *e)
{
    enum status st = OK;
    TRY(mem_zero(&p->variants, s->axes.n_variants, sizeof *p->variants, "variants", e));
    TRY(mem_zero(&p->decimals, s->axes.n_variants, sizeof *p->decimals, "variants", e));
    for (int64_t q = 0; q < s->axes.n_quantizers; q++)
        for (int64_t b = 0; b < s->axes.n_bits; b++)
            for (int64_t i = 0; i < s->axes.n_variants; i++) {
                const struct axis_variant *v = &s->axes.variants[i];
                if (v->quantizer_at == q && v->bits_at == b && show_wants_variant(s, v))
                    p->variants[p->n++] = v;
            }
done:
    return st;
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
    TRY(choose_variants(s, &page, e));
    for (int64_t m = 0; m < s->axes.n_models; m++)
        for (int64_t d = 0; d < s->axes.n_datasets; d++) {
            if (!show_wants_model(s, m) || !show_wants_dataset(s, d)) continue;
            page.model = &s->axes.models[m];
            page.dataset = s->axes.datasets[d];
            TRY(print_page(&page, e));
        }
    print_notes(&notes, s->out);
done:
    free(page.variants);
    free(page.decimals);
    free(notes.messages);
    return st;
}
