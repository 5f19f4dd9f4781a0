/* Checks tensors of a checkpoint that its model has no slot for. Old exports contain buffers, which
 * are ignored. A bias that the config rules out, or a layer beyond the last, means that config.json
 * and weights belong to different models. */
#include "model/model_internal.h"
#include "util/log.h"
#include "util/words.h"
#include <stdlib.h>
#include <string.h>

/* Buffers that follow from the config: RoPE tables, causal masks, and the value of masked scores.
 */
static const char *const buffers[] = {"rotary_emb.inv_freq", ".attention.bias",
                                      ".attention.masked_bias"};

/* Whether name is part + suffix; false if part is NULL. */
static bool is(const char *name, const char *part, const char *suffix)
{
    size_t n = part ? strlen(part) : 0;
    return part && strncmp(name, part, n) == 0 && strcmp(name + n, suffix) == 0;
}

/* Whether it is a weight or bias that models of the family may have, whatever this config says. */
static bool of_family(const struct arch *a, const char *name, bool in_block)
{
    const char *const block[] = {a->attn_norm,     a->mlp_norm,     a->q_norm,
                                 a->k_norm,        a->q_norm_alias, a->k_norm_alias,
                                 a->attn_sub_norm, a->mlp_sub_norm};
    const char *const outside[] = {a->embed, a->final_norm, a->head};
    const char *const *parts = in_block ? block : outside;
    size_t n = in_block ? sizeof block / sizeof *block : sizeof outside / sizeof *outside;
    for (size_t i = 0; i < n; i++)
        if (is(name, parts[i], ".weight") || is(name, parts[i], ".bias")) return true;
    for (int role = 0; in_block && role < ROLE_N; role++)
        if (is(name, a->linear[role], ".weight") || is(name, a->linear[role], ".bias")) return true;
    return false;
}

/* Splits "model.layers.3.mlp..." into layer 3 and "mlp..."; false for tensors outside the blocks.
 */
static bool split_layer(const struct arch *a, const char **name, int64_t *layer)
{
    size_t n = strlen(a->layers);
    char *end;
    if (strncmp(*name, a->layers, n) != 0) return false;
    size_t digits = strspn(*name + n, "0123456789");
    if (digits == 0 || digits > 9 || (*name)[n + digits] != '.') return false;
    *layer = strtoll(*name + n, &end, 10);
    *name = end + 1;
    return true;
}

/* *unknown = it is neither in a slot nor a known buffer. */
static enum status check_one(const struct model *m, const char *whole, bool *unknown, struct err *e)
{
    const struct arch *a = m->spec.arch;
    struct slot slots[SLOTS_MAX];
    const char *name = whole;
    bool known = false; /* a buffer, or in a slot */
    int64_t layer = -1, layers = m->spec.shape.layers;
    bool in_block = split_layer(a, &name, &layer);
    int n = slots_of(&m->spec, layer, slots);
    bool tied_head =
        m->spec.shape.tied && (is(name, a->head, ".weight") || is(name, a->head_alias, ".weight"));
    *unknown = false;
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        known = known || words_end(whole, buffers[i]);
    if (known || tied_head) return OK;
    NEED(layer < layers, ERR_FORMAT,
         "%s: tensor %s is of layer %lld, but config.json has %lld layers (num_hidden_layers): "
         "they are not of one model",
         checkpoint_dir(m->checkpoint), whole, (long long)layer, (long long)layers);
    for (int i = 0; i < n; i++)
        known = known || is(name, slots[i].part, slots[i].suffix) ||
                is(name, slots[i].alias, slots[i].suffix);
    if (known) return OK;
    NEED(!of_family(a, name, in_block), ERR_FORMAT,
         "%s: tensor %s is stored, but by config.json this model has none: a key of it "
         "(attention_bias, mlp_bias, ...) is wrong or missing",
         checkpoint_dir(m->checkpoint), whole);
    *unknown = true;
    return OK;
}

enum status leftover_check(const struct model *m, struct err *e)
{
    const char *first = NULL;
    long long n = 0;
    for (int64_t i = 0; i < checkpoint_n_tensors(m->checkpoint); i++) {
        const char *name = checkpoint_tensor(m->checkpoint, i)->name;
        bool unknown;
        PASS(check_one(m, name, &unknown, e));
        if (unknown && n++ == 0) first = name;
    }
    if (n > 0)
        log_warn("%s: %lld tensors that no %s has are ignored, the first is %s",
                 checkpoint_dir(m->checkpoint), n, m->spec.arch->name, first);
    return OK;
}
