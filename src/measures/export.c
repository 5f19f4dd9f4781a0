/* The part of a visit that writes quantized models as folders (`export`). Rank 0 of the group
 * writes the linears of a variant as they are quantized; a folder gets its name when the variant
 * has been through all blocks. A folder that exists is left alone. */
#include "engine/inputs.h"
#include "engine/visit_internal.h"
#include "engine/weights_folder.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/temporary.h"
#include <stdlib.h>

struct export
{
    struct weights_folder **folders; // (variants) NULL: not written by this rank
};

static bool wanted(const struct visit *v)
{
    for (int64_t i = 0; i < v->n_variants; i++)
        if (v->variants[i].export_to) return true;
    return false;
}

static enum status open_state(struct part_context *c, struct err *e)
{
    struct export *s = c->state[MEASURE_export];
    return mem_zero(&s->folders, c->visit->n_variants, sizeof(struct weights_folder *), "folders",
                    e);
}

static enum status open_folder(const struct part_context *c, const struct variant *v,
                               struct weights_folder **out, struct err *e)
{
    enum status st = OK;
    struct weights_form form;
    char *tokenizer = NULL;
    if (fsx_is_dir(v->export_to)) return OK;
    TRY(weights_form_choose(v->format, quant_find(v->method.method), &v->method.options, v->bits,
                            &form, e));
    if (c->visit->tokenizer)
        TRY(mem_string(&tokenizer, c->visit->tokenizer, e));
    else
        TRY(visit_tokenizer(weights_folder(&c->visit->weights), &tokenizer, e));
    TRY(inputs_check_tokenizer(c->visit, tokenizer, e));
    TRY(fsx_make_parent(v->export_to, e));
    temporary_remove_left(v->export_to, TEMPORARY_ALL);
    TRY(weights_folder_create(c->checkpoint, tokenizer, v->export_to, &form, out, e));
done:
    free(tokenizer);
    return st;
}

/* A model that cannot be written so (its sizes do not suit the format) does not fail its cell. */
static enum status begin(struct part_context *c, struct err *e)
{
    struct export *s = c->state[MEASURE_export];
    for (int64_t i = 0; c->group->rank == 0 && i < c->visit->n_variants; i++) {
        const struct variant *v = &c->visit->variants[i];
        struct err own = {0};
        const enum status st = v->export_to ? open_folder(c, v, &s->folders[i], &own) : OK;
        NEED(st == OK || st == ERR_USAGE, st, "%s", own.text);
        if (st == ERR_USAGE) {
            log_warn("%s is not exported: %s", v->export_to, own.text);
            weights_folder_close(s->folders[i]);
            s->folders[i] = NULL;
        }
    }
    return OK;
}

static enum status linear(struct part_context *c, const struct variant *v, const struct linear *l,
                          const float *q, const struct quant_grids *grids, struct err *e)
{
    const struct export *s = c->state[MEASURE_export];
    struct weights_folder *f = s->folders[v - c->visit->variants];
    return f ? weights_folder_linear(f, l, q, grids, e) : OK;
}

static enum status run(struct part_context *c, struct err *e)
{
    const struct export *s = c->state[MEASURE_export];
    for (int64_t i = 0; i < c->visit->n_variants; i++) {
        const struct variant *v = &c->visit->variants[i];
        if (!s->folders[i] || !weights_folder_whole(s->folders[i])) continue; /* it has failed */
        PASS(weights_folder_commit(s->folders[i], e));
        log_info("%s: written, %s", v->export_to, v->format);
    }
    return OK;
}

static enum status emit(struct part_context *c, const struct err *failure, struct err *e)
{
    (void)e;
    const struct export *s = c->state[MEASURE_export];
    for (int64_t i = 0; failure->code != OK && i < c->visit->n_variants; i++)
        if (s->folders[i])
            log_warn("%s is not exported: %s", c->visit->variants[i].export_to, failure->text);
    return OK;
}

static void close_state(struct part_context *c)
{
    struct export *s = c->state[MEASURE_export];
    for (int64_t i = 0; s->folders && i < c->visit->n_variants; i++)
        weights_folder_close(s->folders[i]);
    free(s->folders);
}

const struct measure measure_export = {
    .name = "export",
    .doing = "export",
    .of_model = true,
    .wanted = wanted,
    .state = sizeof(struct export),
    .open = open_state,
    .begin = begin,
    .linear = linear,
    .run = run,
    .emit = emit,
    .close = close_state,
};
