#include "cli/single.h"
#include "cli/cli.h"
#include "group/provenance.h"
#include "util/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void single_free(struct single *s)
{
    visit_free(&s->visit);
    json_decref(s->checkpoint);
    json_decref(s->cell);
    *s = (struct single){0};
}

enum status single_add_evaluation(struct single *s, struct data_options *d, const char *prefix,
                                  struct err *e)
{
    char *name = NULL;
    int64_t capacity = s->visit.n_evaluations;
    PASS(data_options_finish(d, prefix, e));
    PASS(mem_grow(&s->visit.evaluations, s->visit.n_evaluations, &capacity, sizeof *d, e));
    PASS(mem_string(&name, "evaluation", e)); /* what single_number looks for */
    free(d->name);
    d->name = name;
    s->visit.evaluations[s->visit.n_evaluations++] = *d;
    *d = (struct data_options){0};
    return OK;
}

static enum status keep(void *context, const json_t *record, struct err *e)
{
    struct single *s = context;
    bool cell = strcmp(json_text(record, "type", ""), "cell") == 0;
    json_t **to = cell ? &s->cell : &s->checkpoint;
    NEED(*to = json_deep_copy(record), ERR_NOMEM, "out of memory for a record");
    return provenance_failure(record, e);
}

enum status single_run(struct single *s, const char *dir, const char *tokenizer, struct err *e)
{
    enum status st = OK;
    struct visit_cache cache = {0};
    TRY(mem_string(&s->visit.model, "", e));
    TRY(mem_string(&s->visit.checkpoint, dir, e));
    TRY(mem_string(&s->visit.weights.path, dir, e));
    TRY(mem_string(&s->visit.key, "", e));
    if (tokenizer) TRY(mem_string(&s->visit.tokenizer, tokenizer, e));
    s->hooks.context = s;
    s->hooks.emit = keep;
    s->hooks.memory = cli_memory();
    s->hooks.ranks = 1;
    TRY(visit_run(&s->visit, MPI_COMM_SELF, &cache, &s->hooks, e));
done:
    visit_cache_free(&cache);
    return st;
}

json_t *single_number(const json_t *record, const char *key)
{
    const json_t *datasets = json_object_get(record, "datasets");
    double value = json_number_get(json_object_get(json_object_get(datasets, "evaluation"), key));
    return isfinite(value) ? json_real(value) : json_null();
}
