/* Losses per token of the sweep's common tokenizer (eval/common_tokens.h): of a text's loss per
 * byte, its bytes, and the tokens that the plan has. */
#include "cube/cube_build.h"
#include <math.h>

static const struct field tokens = {"common_tokens",
                                    "common_tokens",
                                    IN_RECORD,
                                    FIELD_INTEGER,
                                    STABLE,
                                    "1",
                                    "tokens of the scored text by the tokenizer of count_tokens"};

/* A loss per common token, and the variables that it is made of. */
static const struct loss {
    struct field field;
    const struct measure *kind;
    const char *per_byte;
} losses[] = {
    {{"", "baseline_loss_common", IN_INNER, FIELD_REAL, STABLE, "nat",
      "full-precision cross-entropy per common token"},
     &measure_checkpoint,
     "baseline_bits_per_byte"},
    {{"", "loss_common", IN_INNER, FIELD_REAL, STABLE, "nat",
      "cross-entropy of the quantized model per common token"},
     &measure_cell,
     "bits_per_byte"},
};
enum { LOSSES = sizeof losses / sizeof *losses };

static const json_t *counts_of(const struct cube *c, int64_t model)
{
    const json_t *models = json_object_get(c->all.axes.plan, "models");
    return json_object_get(json_array_get(models, (size_t)model), tokens.name);
}

enum status cube_add_common(struct cube *c, struct err *e)
{
    struct cube_variable *x;
    const struct axis_labels *texts = &c->all.axes.labels[AXIS_DATASET];
    bool any = false;
    for (int64_t m = 0; m < c->all.axes.labels[AXIS_MODEL].n; m++)
        any = any || counts_of(c, m) != NULL;
    if (!any) return OK;
    PASS(cube_add_field(c, &tokens, "", 2, (int[]){AXIS_MODEL, AXIS_DATASET}, &x, e));
    for (int64_t m = 0; m < c->all.axes.labels[AXIS_MODEL].n; m++)
        for (int64_t d = 0; d < texts->n; d++)
            cube_put(x, m * texts->n + d, json_object_get(counts_of(c, m), texts->texts[d]));
    for (int i = 0; i < LOSSES; i++) {
        int dims[CUBE_RANK], rank = 0;
        for (; losses[i].kind->axes[rank]; rank++)
            dims[rank] = axis_place_of(losses[i].kind->axes[rank]);
        dims[rank++] = AXIS_DATASET;
        PASS(cube_add_field(c, &losses[i].field, "", rank, dims, &x, e));
        x->of = losses[i].kind;
        x->field = NULL; /* filled here, not from records */
        x->coordinates = c->coordinates;
    }
    return OK;
}

void cube_fill_common(struct cube *c)
{
    const struct cube_variable *counts = cube_find(c, tokens.variable),
                               *bytes = cube_find(c, "baseline_bytes");
    for (int i = 0; counts && bytes && i < LOSSES; i++) {
        const struct rows *r = &c->all.rows[measure_place_of(losses[i].kind)];
        const struct cube_variable *per_byte = cube_find(c, losses[i].per_byte);
        struct cube_variable *out = cube_find_in(c, "", losses[i].field.variable);
        for (int64_t k = 0; per_byte && out && k < r->n; k++) {
            const struct row *row = &r->rows[k];
            const int64_t n = counts->data.i[cube_place(c, counts, row)],
                          b = bytes->data.i[cube_place(c, bytes, row)];
            if (n > 0 && b > 0)
                out->data.d[cube_place(c, out, row)] =
                    per_byte->data.d[cube_place(c, per_byte, row)] * M_LN2 * (double)b / (double)n;
        }
    }
}
