/* The part of a visit that writes quantized models as folders (`export`). Rank 0 of the group
 * writes the linears of a variant as they are quantized; a folder gets its name when the variant
 * has been through all blocks. A folder that exists is left as it is. */
#include "engine/inputs.h"
#include "engine/visit_internal.h"
#include "export/export_folder.h"
#include "export/model_card.h"
#include "plan/plan.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/temporary.h"
#include <fnmatch.h>

/* --- its keys of the sweep file --- */

/* Cells whose quantized models are written as folders. */
struct export_entry {
    char *out;                            /* folder of the folders */
    char *format;                         /* as export_form_choose (export/export_folder.h) */
    char *model, *checkpoint, *quantizer; /* shell patterns; NULL: all */
    int64_t bits;                         /* 0: all */
};
struct export_section {
    int64_t n;
    struct export_entry *entries; // (n)
};

static const struct option entry_keys[] = {
    OPTION(export_entry, out, PATH,
           "folder of the models, each OUT/MODEL/CHECKPOINT/QUANTIZER-BITSbit", .required = true),
    OPTION(export_entry, format, TEXT,
           "form of the weights: dequantized (f32), gptq, awq, compressed-tensors, "
           "qtraj (docs/export.md)",
           .otherwise = "dequantized"),
    OPTION(export_entry, model, TEXT, "shell pattern of the trajectories in `models`",
           .otherwise = "all"),
    OPTION(export_entry, checkpoint, TEXT, "shell pattern of the checkpoints (no averages)",
           .otherwise = "all"),
    OPTION(export_entry, quantizer, TEXT, "shell pattern of the names in `methods`",
           .otherwise = "all"),
    OPTION(export_entry, bits, INT, "bit-width of the cells", .unit = "bits", .fallback = "0",
           .otherwise = "all", .low = QUANT_BITS_LEAST, .high = QUANT_BITS_MAX,
           OPTION_SPECIAL(0, NULL)),
};

static enum status finish(void *entry, const struct option_scope *scope, struct err *e)
{
    struct export_entry *x = entry;
    (void)scope;
    return x->format ? OK : mem_string(&x->format, "dequantized", e);
}

static const struct option_table entry_table = {OPTION_ROWS(entry_keys, export_entry),
                                                .finish = finish};
static const struct option keys[] = {
    OPTION_AT("export", export_section, entries, LIST,
              "cells whose quantized models are written to disk",
              .count = offsetof(struct export_section, n), .otherwise = "none",
              .high = SWEEP_ENTRIES_MAX, .table = &entry_table),
};

static const struct export_section *section_of(const struct sweep *s)
{
    return s->sections[MEASURE_export];
}

/* --- which cells, and where to --- */

static bool matches(const char *pattern, const char *name)
{
    return !pattern || fnmatch(pattern, name, 0) == 0;
}

static bool selects(const struct export_entry *x, const char *model, const char *checkpoint,
                    const char *quantizer, int64_t bits)
{
    return matches(x->model, model) && matches(x->checkpoint, checkpoint) &&
           matches(x->quantizer, quantizer) && (!x->bits || x->bits == bits);
}

/* Of a cell of a plan: averages are not exported. */
static bool selects_cell(const struct export_entry *x, const struct plan *p,
                         const struct plan_checkpoint *c, const struct plan_variant *v)
{
    const struct model_entry *m = &p->sweep->models[c->model];
    return v->applicable && !m->rows[c->row].average &&
           selects(x, m->name, plan_name_of(p, c), v->method->name, v->bits);
}

static const struct export_entry *entry_of(const struct plan *p, const struct plan_checkpoint *c,
                                           const struct plan_variant *v)
{
    const struct export_section *s = section_of(p->sweep);
    int64_t i = 0;
    while (i < s->n && !selects_cell(&s->entries[i], p, c, v)) i++;
    return i < s->n ? &s->entries[i] : NULL;
}

/* *folder (the caller frees) = that of a cell. */
static enum status name_folder(const struct export_entry *x, const char *model,
                               const char *checkpoint, const char *quantizer, int64_t bits,
                               char **folder, struct err *e)
{
    return mem_format(folder, e, "%s/%s/%s/%s-%lldbit", x->out, model, checkpoint, quantizer,
                      (long long)bits);
}

/* --- in a plan --- */

static enum status folder_of(const struct export_entry *x, const struct plan *p,
                             const struct plan_checkpoint *c, const struct plan_variant *v,
                             char **folder, struct err *e)
{
    return name_folder(x, p->sweep->models[c->model].name, plan_name_of(p, c), v->method->name,
                       v->bits, folder, e);
}

/* *folder (the caller frees) = where the cell is to be exported to; NULL: nowhere, or it is there.
 */
static enum status find_folder(const struct plan *p, const struct plan_checkpoint *c,
                               const struct plan_variant *v, char **folder, struct err *e)
{
    const struct export_entry *x = entry_of(p, c, v);
    *folder = NULL;
    if (!x) return OK;
    PASS(folder_of(x, p, c, v, folder, e));
    if (!fsx_is_dir(*folder)) return OK;
    free(*folder);
    *folder = NULL;
    return OK;
}

/* What cannot be read is made anew. */
static enum status stored(const struct plan *p, const struct plan_checkpoint *c, int64_t variant,
                          char **path, struct err *e)
{
    const struct plan_variant *v = &p->variants[variant];
    const struct export_entry *x = entry_of(p, c, v);
    AUTO_FREE char *folder = NULL;
    char key[HASH_HEX], base[HASH_HEX];
    if (!x || !weights_present(&c->weights)) return OK;
    PASS(folder_of(x, p, c, v, &folder, e));
    plan_cell_key(p, c, variant, key);
    if (weights_hash(&c->weights, base, NULL) != OK || !export_note_fits(folder, key, base))
        return OK;
    *path = TAKE(folder);
    return OK;
}

/* Entry k can hold what it selects of variant v, which adds to *cells. */
static enum status check_variant(const struct plan *p, int64_t k, const struct plan_variant *v,
                                 int64_t *cells, struct err *e)
{
    const struct export_entry *x = &section_of(p->sweep)->entries[k];
    struct export_form form;
    int64_t model = -1, n = 0;
    for (int64_t i = 0; i < p->n_checkpoints; i++) {
        const struct plan_checkpoint *c = &p->checkpoints[i];
        const struct plan_model *m = &p->costs.models[c->model];
        enum status st = OK;
        if (!selects_cell(x, p, c, v)) continue;
        if (n++ == 0) {
            PASS(method_entry_check_weights(v->method, "export", e));
            st = export_form_choose(x->format, quant_find(v->method->method), &v->method->options,
                                    v->bits, &form, e);
        }
        if (st == OK && c->model != model && m->known)
            st = export_form_check(&form, m->config, m->config_file, e);
        model = c->model;
        if (st != OK) err_prefix(e, "export[%lld], %s", (long long)k, v->method->name);
        PASS(st);
    }
    *cells += n;
    return OK;
}

static enum status check(struct plan *p, struct err *e)
{
    for (int64_t k = 0; k < section_of(p->sweep)->n; k++) {
        int64_t cells = 0;
        for (int64_t j = 0; j < p->n_variants; j++)
            PASS(check_variant(p, k, &p->variants[j], &cells, e));
        NEED(cells > 0, ERR_USAGE, "export[%lld]: it selects no cell", (long long)k);
    }
    return OK;
}

/* Bytes of the model of a variant: codes, scales and zeros of its linears, other tensors as they
 * are stored. */
static double bytes_of(const struct plan_model *m, const struct plan_variant *v,
                       const struct export_entry *x)
{
    struct export_form form;
    const double linears = (double)m->sizes.linears * (double)m->sizes.shape.layers;
    const double rest = (double)m->sizes.shape.parameters - linears;
    if (export_form_choose(x->format, quant_find(v->method->method), &v->method->options, v->bits,
                           &form, NULL) != OK)
        return 0;
    double bits = 32;
    if (form.layout.format != PACKED_NONE) {
        const double scale = form.layout.wide ? 32 : 16, n = (double)form.layout.group_size;
        bits = (double)v->bits + (n > 0 ? (scale + (double)v->bits) / n : 0);
    }
    return linears * bits / 8 + rest * m->bytes_per_weight;
}

static enum status disk(const struct plan *p, int64_t *n, double *bytes, struct err *e)
{
    for (int64_t i = 0; section_of(p->sweep)->n && i < p->n_checkpoints; i++) {
        const struct plan_checkpoint *c = &p->checkpoints[i];
        const struct plan_model *m = &p->costs.models[c->model];
        for (int64_t j = 0; j < p->n_variants; j++) {
            char *folder;
            PASS(find_folder(p, c, &p->variants[j], &folder, e));
            if (!folder) continue;
            free(folder);
            ++*n;
            if (m->known) *bytes += bytes_of(m, &p->variants[j], entry_of(p, c, &p->variants[j]));
        }
    }
    return OK;
}

/* Its setup is a copy of the section. */
static const struct option_table setup_table = {OPTION_ROWS(keys, export_section)};

static enum status of_cell(const struct plan *p, const struct plan_checkpoint *c, int64_t variant,
                           struct visit *v, bool *asks, struct err *e)
{
    char *folder;
    PASS(find_folder(p, c, &p->variants[variant], &folder, e));
    *asks = folder != NULL;
    free(folder);
    if (!*asks || v->setup[MEASURE_export]) return OK;
    json_auto_t *copy = options_to_json(&setup_table, section_of(p->sweep));
    enum status st = mem_zero(&v->setup[MEASURE_export], 1, setup_table.size, "a setup", e);
    if (st == OK) st = options_from_json(&setup_table, copy, v->setup[MEASURE_export], e);
    return st;
}

/* Adds the losses to the cards: the visit that wrote a folder need not be that which scored the
 * cell. */
static enum status ended(const struct plan *p, struct journal *j, struct err *e)
{
    CLEANUP(results_view_close_at) struct results_view *view = NULL;
    if (section_of(p->sweep)->n == 0) return OK;
    PASS(results_view_of_journal(j, VIEW_BY_LINE, &view, e));
    for (int64_t i = 0; i < p->n_checkpoints * p->n_variants; i++) {
        const struct plan_checkpoint *c = &p->checkpoints[i / p->n_variants];
        const struct plan_variant *v = &p->variants[i % p->n_variants];
        const struct export_entry *x = entry_of(p, c, v);
        AUTO_FREE char *folder = NULL;
        json_auto_t *cell = NULL, *texts = json_object();
        char key[HASH_HEX];
        struct err own = {0};
        if (!x) continue;
        PASS(folder_of(x, p, c, v, &folder, e));
        plan_cell_key(p, c, i % p->n_variants, key);
        PASS(results_view_read(view, key, &cell, e));
        NEED(texts, ERR_NOMEM, "labels of texts: out of memory");
        for (int64_t k = 0; k < p->sweep->n_evaluations; k++)
            json_object_set_new(texts, p->lengths[c->model].texts[k],
                                json_string(p->sweep->evaluations[k].name));
        if (cell && model_card_complete(folder, cell, texts, &own) != OK)
            log_warn("%s has no losses in its README.md: %s", folder, own.text);
    }
    return OK;
}

/* --- in a visit --- */

struct export
{
    struct export_folder **folders; // (variants) NULL: not written by this rank
    char **paths;                   // (variants) of them
};

/* NULL: the variant is not exported. */
static const struct export_entry *entry_in(const struct visit *visit, const struct variant *v)
{
    const struct export_section *t = visit->setup[MEASURE_export];
    for (int64_t i = 0; t && v->replicate == 0 && i < t->n; i++)
        if (selects(&t->entries[i], visit->model, visit->checkpoint, v->method.name, v->bits))
            return &t->entries[i];
    return NULL;
}

static bool takes(const struct visit *v, const struct variant *variant)
{
    return entry_in(v, variant) != NULL;
}

static enum status open_state(struct part_context *c, struct err *e)
{
    struct export *s = c->state[MEASURE_export];
    PASS(mem_zero(&s->folders, c->visit->n_variants, sizeof(struct export_folder *), "folders", e));
    return mem_zero(&s->paths, c->visit->n_variants, sizeof *s->paths, "folders", e);
}

static enum status open_folder(const struct part_context *c, const struct variant *v,
                               const struct export_entry *x, const char *path,
                               struct export_folder **out, struct err *e)
{
    struct export_form form;
    AUTO_FREE char *tokenizer = NULL;
    if (fsx_is_dir(path)) return OK;
    PASS(export_form_choose(x->format, quant_find(v->method.method), &v->method.options, v->bits,
                            &form, e));
    if (c->visit->tokenizer)
        PASS(mem_string(&tokenizer, c->visit->tokenizer, e));
    else
        PASS(visit_tokenizer(weights_folder(&c->visit->weights), &tokenizer, e));
    PASS(inputs_check_tokenizer(c->visit, tokenizer, e));
    PASS(fsx_make_parent(path, e));
    temporary_remove_left(path, TEMPORARY_ALL);
    return export_folder_create(c->checkpoint, tokenizer, path, &form, out, e);
}

/* A model that cannot be written so (its sizes do not suit the format) does not fail its cell. */
static enum status begin(struct part_context *c, struct err *e)
{
    struct export *s = c->state[MEASURE_export];
    const struct visit *visit = c->visit;
    for (int64_t i = 0; c->group->rank == 0 && i < visit->n_variants; i++) {
        const struct variant *v = &visit->variants[i];
        const struct export_entry *x = entry_in(visit, v);
        struct err own = {0};
        if (!x) continue;
        PASS(name_folder(x, visit->model, visit->checkpoint, v->method.name, v->bits, &s->paths[i],
                         e));
        const enum status st = open_folder(c, v, x, s->paths[i], &s->folders[i], &own);
        NEED(st == OK || st == ERR_USAGE, st, "%s", own.text);
        if (st == ERR_USAGE) {
            log_warn("%s is not exported: %s", s->paths[i], own.text);
            export_folder_close(s->folders[i]);
            s->folders[i] = NULL;
        }
    }
    return OK;
}

static enum status linear(struct part_context *c, const struct variant *v, const struct linear *l,
                          const float *q, const struct quant_grids *grids, struct err *e)
{
    const struct export *s = c->state[MEASURE_export];
    struct export_folder *f = s->folders[v - c->visit->variants];
    return f ? export_folder_linear(f, l, q, grids, e) : OK;
}

/* Gives the folder of variant i its card and its name. */
static enum status commit(const struct part_context *c, int64_t i, struct err *e)
{
    const struct export *s = c->state[MEASURE_export];
    const struct variant *v = &c->visit->variants[i];
    const struct data_options *calibration = &c->visit->calibration;
    const struct sequences *sequences = NULL;
    AUTO_FREE char *text = NULL, *name = NULL;
    if (calibration->text || calibration->ids)
        PASS(visit_sequences_get(c->cache, c->visit, calibration, &sequences, e));
    PASS(mem_format(&name, e, "%s/%s", c->visit->model, c->visit->checkpoint));
    const struct model_card card = {.name = name,
                                    .digest = checkpoint_hash(c->checkpoint),
                                    .variant = v,
                                    .format = entry_in(c->visit, v)->format,
                                    .calibration = calibration,
                                    .sequences = sequences ? sequences->n : 0,
                                    .inputs = c->visit->inputs};
    PASS(model_card_text(&card, &text, e));
    PASS(export_folder_commit(s->folders[i], text, e));
    /* Packed AWQ rounds once more than what was measured. */
    if (strcmp(v->method.method, "awq") != 0 || strcmp(card.format, "dequantized") == 0)
        PASS(export_note_write(s->paths[i], v->key, checkpoint_hash(c->checkpoint), e));
    log_info("%s: written, %s", s->paths[i], card.format);
    return OK;
}

static enum status run(struct part_context *c, struct err *e)
{
    const struct export *s = c->state[MEASURE_export];
    for (int64_t i = 0; i < c->visit->n_variants; i++) {
        if (!s->folders[i] || !export_folder_whole(s->folders[i])) continue; /* it has failed */
        PASS(commit(c, i, e));
    }
    return OK;
}

static enum status emit(struct part_context *c, const struct err *failure, struct err *e)
{
    (void)e;
    const struct export *s = c->state[MEASURE_export];
    for (int64_t i = 0; failure->code != OK && i < c->visit->n_variants; i++)
        if (s->folders[i]) log_warn("%s is not exported: %s", s->paths[i], failure->text);
    return OK;
}

static void close_state(struct part_context *c)
{
    struct export *s = c->state[MEASURE_export];
    for (int64_t i = 0; s->folders && i < c->visit->n_variants; i++)
        export_folder_close(s->folders[i]);
    for (int64_t i = 0; s->paths && i < c->visit->n_variants; i++) free(s->paths[i]);
    free(s->folders);
    free(s->paths);
}

const struct measure measure_export = {
    .name = "export",
    .section = {OPTION_ROWS(keys, export_section)},
    .plan = check,
    .of_cell = of_cell,
    .stored = stored,
    .disk = disk,
    .ended = ended,
    .doing = "export",
    .of_model = true,
    .setup = &setup_table,
    .grids = true,
    .takes = takes,
    .state = sizeof(struct export),
    .open = open_state,
    .begin = begin,
    .linear = linear,
    .run = run,
    .emit = emit,
    .close = close_state,
};
