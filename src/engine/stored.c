#include "engine/stored.h"
#include "quant/job.h"
#include "util/mem.h"
#include <math.h>

void stored_close(struct stored *s)
{
    if (!s) return;
    model_block_free(&s->block);
    model_close(s->model);
    checkpoint_close(s->checkpoint);
    free(s);
}

/* Blocks run as those of the run's model m: config.json must say the same of what they are. */
static enum status check_same(const struct stored *s, const struct run *r, struct err *e)
{
    static const char *const keys[] = {"model_type", "num_attention_heads", "num_key_value_heads"};
    const struct model_shape *own = model_shape(s->model), *other = model_shape(r->model);
    const json_t *config = checkpoint_config(r->context->checkpoint);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *a = json_object_get(checkpoint_config(s->checkpoint), keys[i]),
                     *b = json_object_get(config, keys[i]);
        NEED(!a || !b || json_equal(a, b), ERR_SHAPE, "%s: another %s than the checkpoint's",
             checkpoint_dir(s->checkpoint), keys[i]);
    }
    NEED(own->layers == other->layers && own->hidden == other->hidden && own->vocab == other->vocab,
         ERR_SHAPE,
         "%s: %lld layers, hidden size %lld and vocabulary %lld, where the checkpoint has %lld, "
         "%lld and %lld: not the same model?",
         checkpoint_dir(s->checkpoint), (long long)own->layers, (long long)own->hidden,
         (long long)own->vocab, (long long)other->layers, (long long)other->hidden,
         (long long)other->vocab);
    return OK;
}

enum status stored_open(const struct run *r, struct stream *s, struct err *e)
{
    PASS(mem_zero(&s->stored, 1, sizeof *s->stored, "a stored variant", e));
    PASS(checkpoint_open(s->variant->method.path, &s->stored->checkpoint, e));
    PASS(model_open(s->stored->checkpoint, &s->stored->model, e));
    PASS(check_same(s->stored, r, e));
    visit_set_numbers(r->context, s->stored->model);
    return OK;
}

static double squared_distance(const struct linear *a, const struct linear *b)
{
    double sum = 0;
    for (int64_t i = 0; i < a->rows; i++)
        sum += row_distance(a->w + i * a->cols, b->w + i * a->cols, a->cols);
    return sum;
}

/* The stored linear as one of the quantized block's, and its report. */
static enum status take_linear(struct workspace *w, struct stream *s, int i,
                               const struct linear *original, struct linear *own, struct err *e)
{
    const struct tensor_entry *t = checkpoint_find(s->stored->checkpoint, own->name);
    const struct quant_report report = {
        .squared_distance = squared_distance(original, own),
        .error = NAN,
        .relative_error = NAN,
        .damping = NAN,
        .bits_per_weight = t ? checkpoint_bits(s->stored->checkpoint, t) : NAN,
    };
    NEED(own->rows == original->rows && own->cols == original->cols, ERR_SHAPE,
         "%s: %s has other dimensions than the checkpoint's", s->variant->method.path, own->name);
    PASS(stream_note(s, original, &report, e));
    PASS(group_agree(
        w->group,
        shared_products_make(w->group, w->model, own->w, own->rows, own->cols, &w->products[i], e),
        e));
    own->prepared = w->products[i].w;
    return OK;
}

enum status stored_block(struct workspace *w, struct stream *s, const struct block *b,
                         struct block *quantized, struct err *e)
{
    struct block *own = &s->stored->block;
    model_block_free(own);
    PASS(group_agree(w->group, model_block_load(s->stored->model, b->layer, own, e), e));
    NEED(own->n_linears == b->n_linears, ERR_SHAPE, "%s: other linears than the checkpoint's",
         s->variant->method.path);
    *quantized = *own;
    quantized->storage = NULL;
    for (int i = 0; i < b->n_linears; i++)
        PASS(take_linear(w, s, i, &b->linear[i], &quantized->linear[i], e));
    return OK;
}
