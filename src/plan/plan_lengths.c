/* What a sweep's lengths are for each model: `length: auto` follows the model's positions, and keys
 * hash the length that it stands for (docs/decisions/0019-default-length.md). */
#include "plan/plan_internal.h"
#include "util/mem.h"

void plan_lengths_free(struct plan *p)
{
    for (int64_t i = 0; p->lengths && i < p->sweep->n_models; i++) {
        free(p->lengths[i].known);
        for (int64_t k = 0; p->lengths[i].rows && k < p->sweep->models[i].n_stored; k++)
            free(p->lengths[i].rows[k]);
        free(p->lengths[i].rows);
        free(p->lengths[i].variant_keys);
        free(p->lengths[i].texts);
    }
    mem_drop(&p->lengths);
}

/* --- positions --- */

enum status plan_lengths_make(struct plan *p, struct err *e)
{
    for (int64_t i = 0; i < p->sweep->n_models; i++) {
        const struct model_entry *m = &p->sweep->models[i];
        if (p->lengths[i].positions <= 0) p->lengths[i].positions = plan_past_positions(p, m->name);
        NEED(!m->stage || p->lengths[i].positions > 0, ERR_USAGE,
             "%s: no config.json beside %s; cells are planned before `stage` fetches a checkpoint",
             m->name, m->tokenizer);
    }
    return OK;
}

/* --- data --- */

struct data_options plan_data(const struct plan *p, int64_t model, const struct data_options *d)
{
    struct data_options resolved = *d;
    resolved.length = data_options_length(d, model < 0 ? 0 : p->lengths[model].positions);
    return resolved;
}

/* --- keys --- */

enum status plan_lengths_keys(struct plan *p, struct err *e)
{
    const struct data_options *d = &p->sweep->calibration;
    for (int64_t m = 0; m < p->sweep->n_models; m++) {
        /* Where the model's calibration is shorter than that of the others. */
        struct plan_lengths *l = &p->lengths[m];
        json_auto_t *calibration = NULL;
        if (data_options_length(d, l->positions) == data_options_length(d, 0)) continue;
        PASS(plan_calibration_identity(p, m, &calibration, e));
        PASS(mem_zero(&l->variant_keys, p->n_variants, sizeof *l->variant_keys, "keys", e));
        for (int64_t i = 0; i < p->n_variants; i++)
            PASS(plan_variant_key(p, p->variants[i].method, p->variants[i].bits, calibration,
                                  l->variant_keys[i], e));
    }
    return OK;
}

void plan_cell_key(const struct plan *p, const struct plan_checkpoint *c, int64_t i,
                   char key[HASH_HEX])
{
    const struct plan_lengths *l = &p->lengths[c->model];
    results_cell_key(c->key, l->variant_keys ? l->variant_keys[i] : p->variants[i].key, key);
}
