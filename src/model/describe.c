#include "model/describe.h"
#include "model/block.h"
#include "util/mem.h"
#include <stdio.h>

enum status model_describe(const json_t *config, const char *file, int64_t layer,
                           struct tensor_description out[DESCRIBE_MAX], int *n, struct err *e)
{
    enum status st = OK;
    struct spec spec;
    struct slot slots[SLOTS_MAX];
    char prefix[64] = "";
    _Static_assert((int)SLOTS_MAX <= (int)DESCRIBE_MAX && (int)OUTER_N <= (int)DESCRIBE_MAX,
                   "room for every tensor");
    TRY(spec_read(config, file, &spec, e));
    *n = layer < 0 ? slots_outside(&spec, slots) : slots_of_block(&spec, slots);
    if (layer >= 0) snprintf(prefix, sizeof prefix, "%s%lld.", spec.arch->layers, (long long)layer);
    for (int i = 0; i < *n; i++) {
        const struct slot *s = &slots[i];
        struct tensor_description *d = &out[i];
        snprintf(d->name, sizeof d->name, "%s%s%s", prefix, s->part, s->suffix);
        d->linear = s->kind == SLOT_WEIGHT;
        d->stage = d->linear ? role_stage(s->role) : 0;
        d->n_dims = s->n_dims;
        for (int k = 0; k < s->n_dims; k++) d->shape[k] = s->n[k];
    }
done:
    return st;
}

enum status model_parameters(const struct checkpoint *c, struct tensor_description **out,
                             int64_t *n, struct err *e)
{
    enum status st = OK;
    struct model m = {.checkpoint = (struct checkpoint *)(uintptr_t)c}; /* only asked for names */
    struct slot slots[SLOTS_MAX];
    int64_t capacity = 0;
    _Static_assert((int)NAME_MAX_LEN <= (int)DESCRIBE_NAME, "room for every name");
    *out = NULL;
    *n = 0;
    TRY(spec_read(checkpoint_config(c), checkpoint_dir(c), &m.spec, e));
    for (int64_t layer = -1; layer < m.spec.shape.layers; layer++) {
        int k = layer < 0 ? slots_outside(&m.spec, slots) : slots_of_block(&m.spec, slots);
        for (int i = 0; i < k; i++) {
            const struct slot *s = &slots[i];
            if (s->buffer) continue;
            TRY(mem_grow(out, *n, &capacity, sizeof **out, e));
            struct tensor_description *d = &(*out)[(*n)++];
            *d = (struct tensor_description){
                .linear = s->kind == SLOT_WEIGHT, .n_dims = s->n_dims, .shape = {s->n[0], s->n[1]}};
            d->stage = d->linear ? role_stage(s->role) : 0;
            slot_name(&m, s, layer, d->name);
        }
    }
done:
    return st;
}

const char *model_stage_name(int stage)
{
    static const char *const names[STAGE_N] = {
        [STAGE_QKV] = "qkv", [STAGE_O] = "o", [STAGE_UP] = "up", [STAGE_DOWN] = "down"};
    return names[stage];
}
