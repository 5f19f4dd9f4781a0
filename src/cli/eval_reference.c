#include "cli/eval_reference.h"
#include "eval/head.h"
#include "eval/metric.h"
#include "util/mem.h"

enum status eval_reference_keep(struct eval_reference *r, const struct model *m,
                                const struct sequences *s, const float *x, struct err *e)
{
    r->tokens = s->offset[s->n];
    r->hidden = model_shape(m)->hidden;
    r->vocab = model_shape(m)->vocab;
    PASS(mem_alloc(&r->ids, r->tokens, sizeof *r->ids, "tokens of the reference", e));
    PASS(mem_alloc(&r->x, r->tokens * r->hidden, sizeof *r->x, "states of the reference", e));
    memcpy(r->ids, s->ids, (size_t)r->tokens * sizeof *r->ids);
    memcpy(r->x, x, (size_t)(r->tokens * r->hidden) * sizeof *r->x);
    return OK;
}

static enum status check_same(const struct eval_reference *r, const struct model *m,
                              const struct sequences *s, struct err *e)
{
    const struct model_shape *shape = model_shape(m);
    NEED(shape->vocab == r->vocab && shape->hidden == r->hidden, ERR_SHAPE,
         "--reference %s: vocabulary %lld and hidden size %lld, where the checkpoint has %lld and "
         "%lld: not the same model?",
         r->dir, (long long)r->vocab, (long long)r->hidden, (long long)shape->vocab,
         (long long)shape->hidden);
    NEED(s->offset[s->n] == r->tokens &&
             memcmp(s->ids, r->ids, (size_t)r->tokens * sizeof *r->ids) == 0,
         ERR_SHAPE,
         "--reference %s: it reads other tokens: give both the same --tokenizer and --length",
         r->dir);
    return OK;
}

enum status eval_reference_compare(struct eval_reference *r, const struct model *m,
                                   const struct sequences *s, const float *x, struct err *e)
{
    enum status st = OK;
    struct checkpoint *c = NULL;
    struct model *full = NULL;
    struct scores scores[2] = {{0}, {0}};
    struct span *spans = NULL;
    TRY(check_same(r, m, s, e));
    TRY(checkpoint_open(r->dir, &c, e));
    TRY(model_open(c, &full, e));
    model_set_products(full, model_products(m));
    model_prepare_f32(full, model_prepares(m));
    model_set_rounding(full, model_rounding(m));
    for (int i = 0; i < 2; i++) TRY(scores_init(&scores[i], s->n, e));
    TRY(mem_alloc(&spans, s->n, sizeof *spans, "spans", e));
    for (int64_t i = 0; i < s->n; i++) spans[i] = head_text_span(s, i);
    TRY(head_compare((const struct model *const[]){full, m}, spans, s->n,
                     (const float *const[]){r->x, x}, scores, e));
    r->numbers = metrics_record(s, 0, s->n, scores[1].sum, scores[0].sum, METRIC_CELL);
    ENSURE(r->numbers, ERR_NOMEM, "out of memory for metrics");
    /* these are of the checkpoint alone */
    static const char *const own[] = {"loss", "perplexity", "bits_per_byte", "sequence_loss"};
    for (int i = 0; i < 4; i++) (void)json_object_del(r->numbers, own[i]);
done:
    free(spans);
    for (int i = 0; i < 2; i++) scores_free(&scores[i]);
    model_close(full);
    checkpoint_close(c);
    return st;
}

void eval_reference_free(struct eval_reference *r)
{
    free(r->ids);
    free(r->x);
    json_decref(r->numbers);
}
