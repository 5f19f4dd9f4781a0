/* Writes the journal of a long sweep without running it, through the program's own plan and writer:
 *   bench_journal SWEEP.yaml [SEQUENCES [LAYERS]]
 * Every record that the plan asks for is done, with all its numbers, the losses of SEQUENCES
 * sequences (32) and the errors of LAYERS layers (7). The numbers are made up. */
#include "bench.h"
#include "plan/plan.h"
#include "records/results.h"
#include "records/rows.h"
#include "records/scores.h"
#include "util/fsx.h"
#include <unistd.h>

struct writer {
    struct journal *journal;
    int64_t sequences, layers, n;
};

/* All digits, as measured numbers have them. */
static double number(struct writer *w)
{
    return 1 + sin((double)++w->n) / 3;
}

static void set_fields(struct writer *w, const struct field *f, enum field_place place,
                       json_t *object)
{
    for (; f->name; f++) {
        if (f->place != place || f->type == FIELD_TEXT) continue;
        json_object_set_new(object, f->name,
                            f->type == FIELD_INTEGER ? json_integer((json_int_t)++w->n)
                                                     : json_real(number(w)));
    }
}

static json_t *make_inner(struct writer *w, const struct measure *k)
{
    json_t *inner = json_object(), *list = json_array();
    set_fields(w, k->fields, IN_INNER, inner);
    for (int64_t i = 0; i < w->sequences; i++) json_array_append_new(list, json_real(number(w)));
    json_object_set_new(inner, "sequence_loss", list);
    return inner;
}

static json_t *make_list(struct writer *w, const struct record_list *l)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < w->layers; i++) {
        json_t *part = json_object();
        json_object_set_new(part, l->label,
                            json_sprintf("model.layers.%lld.mlp.down_proj.weight", (long long)i));
        set_fields(w, l->fields, IN_LIST, part);
        json_array_append_new(list, part);
    }
    return list;
}

/* The record of rows i to next: one row per label of the inner axis. */
static void write_record(struct writer *w, const struct rows *r, int64_t i, int64_t next)
{
    struct err e = {0};
    const struct measure *k = r->kind;
    json_t *values = json_object(), *inner = json_object();
    json_t *record =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:{s:s, s:s, s:s, s:s}}", "type", k->name, "key",
                  r->rows[i].key, "status", "done", "message", "", "fingerprint",
                  "qtraj 0.1.0; ranks 1; OpenBLAS", "values", values, "provenance", "host", "node1",
                  "utc_start", "2026-01-02T03:04:05Z", "utc_end", "2026-01-02T03:04:09Z", "inputs",
                  "00112233445566778899aabbccddeeff");
    set_fields(w, k->fields, IN_VALUES, values);
    must(row_identify(r, &r->rows[i], record, &e), &e);
    for (int64_t j = i; j < next && k->inner; j++) {
        char number[ROW_NUMBER];
        const char *label = row_inner_label(r, &r->rows[j], number);
        if (!label) continue;
        json_object_set_new(inner, label, make_inner(w, k));
        scores_note(json_object_get(record, "provenance"), label, label, false, NULL, NULL);
    }
    if (k->inner) json_object_set(record, k->inner->plan, inner);
    if (k->list) json_object_set_new(record, k->list->name, make_list(w, k->list));
    must(journal_append(w->journal, record, &e), &e);
    json_decref(inner);
    json_decref(record);
}

static void write_all(struct writer *w, const struct plan *plan)
{
    struct err e = {0};
    struct inventory all;
    json_t *record;
    must(plan_record(plan, "bench_journal", &record, &e), &e);
    must(journal_append(w->journal, record, &e), &e);
    json_decref(record);
    must(plan_inventory(plan, NULL, &all, &e), &e);
    for (int k = 0; recorded_measures[k]; k++)
        for (int64_t i = 0, next; i < all.rows[k].n; i = next)
            write_record(w, &all.rows[k], i, next = rows_next(&all.rows[k], i));
    must(journal_sync(w->journal, &e), &e);
    inventory_close(&all);
}

int main(int argc, char **argv)
{
    struct err e = {0};
    struct sweep sweep;
    struct plan plan;
    struct writer w = {.sequences = 32, .layers = 7};
    char *path;
    MPI_Init(&argc, &argv);
    if (argc < 2) must(err_set(&e, ERR_USAGE, __FILE__, __LINE__, "which sweep file?"), &e);
    if (argc > 2) w.sequences = strtoll(argv[2], NULL, 10);
    if (argc > 3) w.layers = strtoll(argv[3], NULL, 10);
    must(sweep_read(argv[1], NULL, 0, &sweep, &e), &e);
    must(plan_make(&sweep, false, &plan, &e), &e);
    must(journal_path(sweep.results, &path, &e), &e);
    unlink(path);
    must(journal_open(path, &w.journal, &e), &e);
    write_all(&w, &plan);
    printf("%s: %lld records\n", path, (long long)journal_n(w.journal));
    journal_close(w.journal);
    free(path);
    plan_free(&plan);
    sweep_free(&sweep);
    MPI_Finalize();
    return 0;
}
