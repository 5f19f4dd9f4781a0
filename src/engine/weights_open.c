/* The table of the kinds of weights, how each is opened, and files of quantized weights. */
#include "checkpoint/derived.h"
#include "engine/part.h"
#include "engine/weights_greedy.h"
#include "memory/states.h"
#include "model/describe.h"
#include "util/mem.h"
#include "util/temporary.h"

typedef enum status opener(const struct weights *w, const struct part_context *context,
                           struct checkpoint *const *parts, struct checkpoint **out, struct err *e);

static enum status open_stored(const struct weights *w, const struct part_context *context,
                               struct checkpoint *const *parts, struct checkpoint **out,
                               struct err *e)
{
    (void)parts;
    if (!context) {
        PASS(checkpoint_open(w->path, out, e));
    } else {
        const struct visit *v = context->visit;
        PASS(reads_open(context->provenance.reads, v->known ? v->known : v->model,
                        w->name ? w->name : w->path, w->path, out, e));
    }
    if (!w->known) return OK;
    const enum status st = checkpoint_known_as(*out, w->config, w->known, e);
    if (st != OK) checkpoint_close(*out);
    return st;
}

/* A sum or an average. */
static enum status open_terms(const struct weights *w, const struct part_context *context,
                              struct checkpoint *const *parts, struct checkpoint **out,
                              struct err *e)
{
    AUTO_FREE struct checkpoint_part *terms = NULL;
    (void)context;
    PASS(mem_alloc(&terms, w->n, sizeof *terms, "a weighted sum", e));
    for (int64_t i = 0; i < w->n; i++)
        terms[i] = (struct checkpoint_part){w->parts[i].coefficient, parts[i]};
    return w->kind == WEIGHTS_SUM ? checkpoint_combine(terms, w->n, out, e)
                                  : checkpoint_average(terms, w->n, w->f32, out, e);
}

/* --- files of quantized weights --- */

enum status weights_file_scratch(const char *scratch, char **path, struct err *e)
{
    AUTO_FREE char *folder = NULL, *name = NULL;
    int64_t bytes;
    PASS(scratch_find(scratch, 1, &folder, &bytes, e));
    NEED(folder, ERR_USAGE,
         "no place for quantized weights: surfaces and second_order keep them on scratch, name a "
         "folder with run.scratch");
    PASS(mem_format(&name, e, "%s/qtraj-weights", folder));
    return temporary_begin(name, path, e);
}

enum status weights_file_create(const struct checkpoint *c, const char *path, int64_t *n_linears,
                                struct safetensors_out **out, struct err *e)
{
    AUTO_FREE struct tensor_description *tensors = NULL;
    AUTO_FREE struct tensor_shape *shapes = NULL;
    int64_t n = 0, linears = 0;
    PASS(model_parameters(c, &tensors, &n, e));
    PASS(mem_alloc(&shapes, n, sizeof *shapes, path, e));
    for (int64_t i = 0; i < n; i++)
        if (tensors[i].linear)
            shapes[linears++] = (struct tensor_shape){
                tensors[i].name, DTYPE_F32, 2, {tensors[i].shape[0], tensors[i].shape[1]}};
    PASS(safetensors_create(path, shapes, linears, out, e));
    if (n_linears) *n_linears = linears;
    return OK;
}

static enum status write_linear(void *context, const struct variant *v, const struct linear *l,
                                const float *q, const struct quant_grids *grids, struct err *e)
{
    (void)v;
    (void)grids;
    return safetensors_append(context, q, l->rows * l->cols, e);
}

/* The engine quantizes the base into a scratch file, which overlays the base until it is closed. */
static enum status open_quantized(const struct weights *w, const struct part_context *context,
                                  struct checkpoint *const *parts, struct checkpoint **out,
                                  struct err *e)
{
    enum status st = OK;
    struct checkpoint *base = parts[0];
    struct safetensors_out *file = NULL;
    char *path = NULL;
    ENSURE(context, ERR_USAGE, "%s: weights are quantized within a visit only",
           checkpoint_dir(base));
    st = weights_file_scratch(context->visit->run.scratch, &path, e);
    if (st == OK) st = weights_file_create(base, path, NULL, &file, e);
    TRY(group_agree(context->group, st, e));
    const struct weights_sink sink = {.context = file, .linear = write_linear};
    TRY(context->engine->quantize(context, base, &w->variant, &sink, e));
    TRY(group_agree(context->group, safetensors_commit(file, e), e));
    TRY(checkpoint_overlay(base, path, out, e));
done:
    safetensors_out_close(file);
    /* The open file stays readable until it is closed. */
    temporary_end(path);
    return st;
}

static enum status open_random(const struct weights *w, const struct part_context *context,
                               struct checkpoint *const *parts, struct checkpoint **out,
                               struct err *e)
{
    (void)context;
    return checkpoint_random(parts[0], w->stream, out, e);
}

const char *const weights_kinds[] = {[WEIGHTS_STORED] = "stored",
                                     [WEIGHTS_SUM] = "sum",
                                     [WEIGHTS_AVERAGE] = "average",
                                     [WEIGHTS_GREEDY] = "greedy",
                                     [WEIGHTS_QUANTIZED] = "quantized",
                                     [WEIGHTS_RANDOM] = "random",
                                     [WEIGHTS_KIND_N] = NULL};

/* parts: the open parts, in the order of w->parts. */
static opener *const kind_open[] = {
    [WEIGHTS_STORED] = open_stored,       [WEIGHTS_SUM] = open_terms,
    [WEIGHTS_AVERAGE] = open_terms,       [WEIGHTS_GREEDY] = weights_open_greedy,
    [WEIGHTS_QUANTIZED] = open_quantized, [WEIGHTS_RANDOM] = open_random};

enum status weights_open_from(const struct weights *w, const struct part_context *context,
                              struct checkpoint *const *parts, struct checkpoint **out,
                              struct err *e)
{
    return kind_open[w->kind](w, context, parts, out, e);
}

enum status weights_open(const struct weights *w, const struct part_context *context,
                         struct checkpoint **out, struct err *e)
{
    enum status st = OK;
    struct checkpoint **parts = NULL;
    const int64_t before = context ? context->provenance.reads->n : 0;
    st = mem_zero(&parts, w->n, sizeof *parts, "sources of weights", e);
    if (context) st = group_agree(context->group, st, e);
    TRY(st);
    for (int64_t i = 0; i < w->n; i++) TRY(weights_open(&w->parts[i], context, &parts[i], e));
    st = weights_open_from(w, context, parts, out, e);
    if (context) st = group_agree(context->group, st, e);
done:
    /* *out retains them. */
    for (int64_t i = 0; parts && i < w->n; i++) checkpoint_close(parts[i]);
    free(parts);
    /* Some ranks may have opened it. */
    if (st != OK && context) reads_drop(context->provenance.reads, before);
    return st;
}

enum status weights_hash(const struct weights *w, char hash[HASH_HEX], struct err *e)
{
    CLEANUP(checkpoint_close_at) struct checkpoint *c = NULL;
    struct weights any = *w; /* shallow: the digest of a greedy soup is the same for any choice */
    any.chosen = true;
    PASS(weights_open(&any, NULL, &c, e));
    memcpy(hash, checkpoint_hash(c), HASH_HEX);
    return OK;
}
