#include "model/sizes.h"
#include "model/model_internal.h"

static void sizes_of(const struct spec *spec, struct model_sizes *out)
{
    struct slot slots[SLOTS_MAX];
    int n = slots_of(spec, -1, slots);
    *out = (struct model_sizes){.shape = spec->shape,
                                .spec = *spec,
                                .parallel = spec->parallel,
                                .rope = 2 * spec->n_ropes * spec->rope[0].half};
    acts_widths(spec, &out->in_width, &out->inner_width);
    for (int i = 0; i < n; i++) out->outside += slot_elements(&slots[i]);
    for (int64_t i = 0; i < spec->shape.layers; i++) out->windowed += spec_window(spec, i) > 0;
    n = slots_of(spec, 0, slots);
    out->block = block_floats(slots, n);
    for (int i = 0; i < n; i++) {
        const struct slot *s = &slots[i];
        if (s->kind != SLOT_WEIGHT) continue;
        out->linears += slot_elements(s);
        out->cols[s->stage] = s->n[1];
        out->all_rows[s->stage] += s->n[0];
        if (s->n[0] > out->rows[s->stage]) out->rows[s->stage] = s->n[0];
    }
}

void model_sizes(const struct model *m, struct model_sizes *out)
{
    sizes_of(&m->spec, out);
}

enum status model_sizes_read(const json_t *config, const char *file, struct model_sizes *out,
                             struct err *e)
{
    struct spec spec;
    PASS(spec_read(config, file, &spec, e));
    sizes_of(&spec, out);
    return OK;
}

int64_t model_sizes_acts(const struct model_sizes *s, int64_t tokens, int64_t threads)
{
    int64_t floats = s->in_width + s->inner_width + s->shape.hidden + s->rope;
    return tokens * (floats * (int64_t)sizeof(float) + (int64_t)sizeof(struct tile)) +
           threads * scores_floats(s->shape.head_dim, s->in_width) * (int64_t)sizeof(float);
}
