/* Which cells are exported (`export` of the sweep), where to, and how much space that takes. */
#include "engine/weights_folder.h"
#include "plan/plan_internal.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <fnmatch.h>
#include <stdlib.h>

static bool takes(const char *pattern, const char *name)
{
    return !pattern || fnmatch(pattern, name, 0) == 0;
}

static bool selects(const struct export_entry *x, const struct plan *p,
                    const struct plan_checkpoint *c, const struct plan_variant *v)
{
    const struct model_entry *m = &p->sweep->models[c->model];
    const struct trajectory_row *row = &m->rows[c->row];
    return v->applicable && !row->average && takes(x->model, m->name) &&
           takes(x->checkpoint, row->checkpoint) && takes(x->quantizer, v->method->name) &&
           (!x->bits || x->bits == v->bits);
}

/* The first entry that selects the cell; NULL: none. */
static const struct export_entry *entry_of(const struct plan *p, const struct plan_checkpoint *c,
                                           const struct plan_variant *v)
{
    for (int64_t i = 0; i < p->sweep->n_exports; i++)
        if (selects(&p->sweep->exports[i], p, c, v)) return &p->sweep->exports[i];
    return NULL;
}

/* *folder (the caller frees) = where the cell is exported to; NULL: nowhere. */
static enum status folder_of(const struct plan *p, const struct plan_checkpoint *c,
                             const struct plan_variant *v, char **folder, struct err *e)
{
    const struct export_entry *x = entry_of(p, c, v);
    const struct model_entry *m = &p->sweep->models[c->model];
    *folder = NULL;
    if (!x) return OK;
    return mem_format(folder, e, "%s/%s/%s/%s-%lldbit", x->out, m->name, m->rows[c->row].checkpoint,
                      v->method->name, (long long)v->bits);
}

enum status plan_export_find(const struct plan *p, const struct plan_checkpoint *c,
                             const struct plan_variant *v, char **folder, struct err *e)
{
    PASS(folder_of(p, c, v, folder, e));
    if (!*folder || !fsx_is_dir(*folder)) return OK;
    free(*folder);
    *folder = NULL;
    return OK;
}

enum status plan_export_set(const struct plan *p, const struct plan_checkpoint *c,
                            const struct plan_variant *v, const char *folder, struct variant *to,
                            struct err *e)
{
    PASS(mem_string(&to->format, entry_of(p, c, v)->format, e));
    return mem_string(&to->export_to, folder, e);
}

enum status plan_exports_check(const struct plan *p, struct err *e)
{
    for (int64_t k = 0; k < p->sweep->n_exports; k++) {
        const struct export_entry *x = &p->sweep->exports[k];
        int64_t cells = 0;
        for (int64_t j = 0; j < p->n_variants; j++) {
            const struct plan_variant *v = &p->variants[j];
            const struct quant_method *method = quant_find(v->method->method);
            struct weights_form form;
            int64_t of_variant = 0;
            for (int64_t i = 0; i < p->n_checkpoints; i++)
                of_variant += selects(x, p, &p->checkpoints[i], v);
            cells += of_variant;
            if (of_variant == 0) continue;
            PASS(quant_check_weights(method, "export", e));
            const enum status st =
                weights_form_choose(x->format, method, &v->method->options, v->bits, &form, e);
            if (st != OK) err_prefix(e, "export[%lld], %s", (long long)k, v->method->name);
            PASS(st);
        }
        NEED(cells > 0, ERR_USAGE, "export[%lld]: it selects no cell", (long long)k);
    }
    return OK;
}

/* Bytes of the model of a variant: codes, scales and zeros of its linears, other tensors as they
 * are stored. */
static double bytes_of(const struct plan_model *m, const struct plan_variant *v,
                       const struct export_entry *x)
{
    struct weights_form form;
    const double linears = (double)m->sizes.linears * (double)m->sizes.shape.layers;
    const double rest = (double)m->sizes.shape.parameters - linears;
    if (weights_form_choose(x->format, quant_find(v->method->method), &v->method->options, v->bits,
                            &form, NULL) != OK)
        return 0;
    double bits = 32;
    if (form.layout.format != PACKED_NONE) {
        const double scale = form.layout.wide ? 32 : 16, n = (double)form.layout.group_size;
        bits = (double)v->bits + (n > 0 ? (scale + (double)v->bits) / n : 0);
    }
    return linears * bits / 8 + rest * m->bytes_per_weight;
}

enum status plan_exports_left(const struct plan *p, struct plan_exports *out, struct err *e)
{
    *out = (struct plan_exports){0};
    for (int64_t i = 0; p->sweep->n_exports && i < p->n_checkpoints; i++) {
        const struct plan_checkpoint *c = &p->checkpoints[i];
        const struct plan_model *m = &p->costs.models[c->model];
        for (int64_t j = 0; j < p->n_variants; j++) {
            char *folder;
            PASS(plan_export_find(p, c, &p->variants[j], &folder, e));
            if (!folder) continue;
            free(folder);
            out->n++;
            if (m->known)
                out->bytes += bytes_of(m, &p->variants[j], entry_of(p, c, &p->variants[j]));
        }
    }
    return OK;
}
