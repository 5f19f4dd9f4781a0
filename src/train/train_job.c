#include "train/train_job.h"
#include "tokenizer/tokenizer.h"
#include "util/num.h"
#include <string.h>

bool train_same_data(const struct recipe *a, const struct recipe *b)
{
    json_auto_t *x = options_to_json(&corpus_options_table, &a->data),
                *y = options_to_json(&corpus_options_table, &b->data);
    return json_equal(x, y) && strcmp(a->tokenizer, b->tokenizer) == 0;
}

enum status train_tokenizer(const struct recipe *r, struct train_source *s, struct err *e)
{
    CLEANUP(tokenizer_close_at) struct tokenizer *t = NULL;
    PASS(tokenizer_open(r->tokenizer, &t, e));
    s->vocab = tokenizer_n_ids(t);
    s->eos = r->data.separator ? tokenizer_find(t, r->data.separator) : -1;
    if (s->eos < 0 && tokenizer_eos(t, &s->eos, NULL) != OK) s->eos = -1;
    return OK;
}

enum status train_settings(const struct train_job *job, const struct run *r, json_t **config,
                           json_t **settings, struct err *e)
{
    static const char *const elsewhere[] = {"name", "output",      "tokenizer", "model",
                                            "data", "checkpoints", "branches",  "then",
                                            "run",  "steps"};
    const struct recipe *recipe = r->recipe;
    const struct train_source *source = &job->sources[recipe - job->runs->recipes];
    PASS(model_config_make(&recipe->model, source->vocab, recipe->batch.length, source->eos, config,
                           e));
    json_t *s = options_to_json(&recipe_table, recipe);
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        json_object_del(s, elsewhere[i]);
    for (size_t i = 0; recipe->optimizer.kind != OPTIMIZER_muon && i < 2; i++) /* as ever */
        json_object_del(json_object_get(s, "optimizer"), i ? "scale" : "adamw_rate");
    json_t *schedule = options_to_json(&schedule_table, &r->schedule);
    json_auto_t *own = json_pack(
        "{s:O, s:s, s:I, s:I, s:b, s:i, s:i, s:o, s:I, s:I, s:s*}", "config", *config, "data",
        source->hash, "data_seed", (json_int_t)recipe->data.seed, "validation",
        (json_int_t)recipe->data.validation, "document_mask", recipe->data.document_mask, "init",
        recipe->model.init, "products", recipe->run.products, "schedule", schedule, "first",
        (json_int_t)r->first, "last", (json_int_t)r->last, "parent", r->left);
    const bool made = s && own && json_object_update(s, own) == 0;
    *settings = s;
    NEED(made, ERR_NOMEM, "out of memory for the settings of a run");
    return OK;
}

int64_t train_group_size(const struct train_job *job, int64_t ranks)
{
    int64_t roots = 0;
    const int64_t given = job->runs->n > 0 ? job->runs->recipes[0].run.ranks : 0;
    for (int64_t i = 0; i < job->runs->n; i++)
        roots += job->wanted[i] && job->runs->runs[i].parent < 0;
    return given ? min64(given, ranks) : max64(ranks / max64(roots, 1), 1);
}
