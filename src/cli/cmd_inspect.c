/* qtraj inspect: family, shape and tensors of one checkpoint. */
#include "checkpoint/checkpoint.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "model/describe.h"
#include "model/positions.h"
#include "model/sizes.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include <inttypes.h>

struct inspection {
    const char *path;
    char *config_file;
    json_t *config;
    struct model_sizes sizes;
    struct checkpoint *weights; /* NULL: config.json alone */
};

static void inspection_free(struct inspection *o)
{
    checkpoint_close(o->weights);
    json_decref(o->config);
    free(o->config_file);
}

/* If the weights cannot be read, shows the config alone, unless tensors are requested. */
static enum status open_all(struct inspection *o, bool tensors, struct err *e)
{
    const char *ending = strrchr(o->path, '.');
    const bool folder = fsx_is_dir(o->path) || (ending && strcmp(ending, ".gguf") == 0);
    if (folder) {
        PASS(checkpoint_read_config(o->path, &o->config, &o->config_file, e));
    } else {
        PASS(mem_string(&o->config_file, o->path, e));
        PASS(json_read_file(o->config_file, 0, &o->config, e));
    }
    PASS(model_sizes_read(o->config, o->config_file, &o->sizes, e));
    NEED(folder || !tensors, ERR_USAGE, "--tensors: %s is no checkpoint's folder", o->path);
    if (tensors) PASS(checkpoint_open(o->path, &o->weights, e));
    if (!folder || tensors) return OK;
    struct err why = {0};
    const enum status st = checkpoint_open(o->path, &o->weights, &why);
    NEED(st != ERR_NOMEM, st, "%s", why.text);
    if (st != OK) log_warn("%s", why.text);
    return OK;
}

static json_t *shape_json(const int64_t *shape, int n)
{
    json_t *list = json_array();
    for (int k = 0; k < n; k++) json_array_append_new(list, json_integer((json_int_t)shape[k]));
    return list;
}

/* Appends the tensors of a layer (-1: outside the blocks) to the list. */
static enum status describe_all(const struct inspection *o, int64_t layer, json_t *list,
                                struct err *e)
{
    AUTO_FREE struct tensor_description *d = NULL;
    int n;
    PASS(mem_zero(&d, DESCRIBE_MAX, sizeof *d, "descriptions", e));
    PASS(model_describe(o->config, o->config_file, layer, d, &n, e));
    for (int i = 0; i < n; i++) {
        json_t *json = json_pack("{s:s, s:o}", "name", d[i].name, "shape",
                                 shape_json(d[i].shape, d[i].n_dims));
        if (d[i].linear)
            json_object_set_new(json, "stage", json_string(model_stage_name(d[i].stage)));
        json_array_append_new(list, json);
    }
    return OK;
}

static json_t *layers_json(const struct spec *s, uint8_t flag)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < s->shape.layers; i++)
        if (s->flags[i] & flag) json_array_append_new(list, json_integer((json_int_t)i));
    return list;
}

/* What attention sees: positions, windows, and how they are rotated. */
static json_t *attention_json(const struct inspection *o)
{
    static const char *const layers[ROPES_MAX] = {"full_attention", "sliding_attention"};
    const struct spec *s = &o->sizes.spec;
    json_t *ropes = json_array(), *windowed = layers_json(s, LAYER_WINDOW);
    const bool window = json_array_size(windowed) > 0;
    for (int i = 0; i < s->n_ropes; i++) {
        const struct rope_info *f = &s->rope[i].info;
        json_array_append_new(ropes, json_pack("{s:s, s:s, s:f, s:f, s:I}", "layers",
                                               s->n_ropes > 1 ? layers[i] : "all", "type", f->type,
                                               "theta", f->theta, "factor", f->factor, "dimensions",
                                               (json_int_t)(2 * s->rope[i].half)));
    }
    return json_pack("{s:I, s:I, s:o, s:o, s:o}", "positions",
                     (json_int_t)positions_written(o->config), "window",
                     (json_int_t)(window ? s->window : 0), "window_layers", windowed,
                     "no_rope_layers", layers_json(s, LAYER_NO_ROPE), "rope", ropes);
}

static enum status inspect_json(const struct inspection *o, bool tensors, json_t **out,
                                struct err *e)
{
    const struct model_shape *m = &o->sizes.shape;
    json_auto_t *block = json_array(), *outside = json_array(), *stored = json_array();
    PASS(describe_all(o, 0, block, e));
    PASS(describe_all(o, -1, outside, e));
    json_t *json =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:I, s:o, s:O, s:O}",
                  "architecture", arch_name(o->sizes.spec.arch), "vocab_size", (json_int_t)m->vocab,
                  "hidden_size", (json_int_t)m->hidden, "layers", (json_int_t)m->layers, "heads",
                  (json_int_t)m->heads, "kv_heads", (json_int_t)m->kv_heads, "head_dim",
                  (json_int_t)m->head_dim, "intermediate_size", (json_int_t)m->intermediate, "tied",
                  m->tied, "parameters", (json_int_t)m->parameters, "parameters_non_embedding",
                  (json_int_t)m->parameters_non_embedding, "attention", attention_json(o), "block",
                  block, "outside", outside);
    if (o->weights)
        json_object_set_new(json, "weights_hash", json_string(checkpoint_hash(o->weights)));
    for (int64_t i = 0; o->weights && tensors && i < checkpoint_n_tensors(o->weights); i++) {
        const struct tensor_entry *t = checkpoint_tensor(o->weights, i);
        json_array_append_new(stored, json_pack("{s:s, s:s, s:o}", "name", t->name, "dtype",
                                                dtype_name(t->dtype), "shape",
                                                shape_json(t->shape, t->n_dims)));
    }
    if (o->weights && tensors) json_object_set(json, "tensors", stored);
    *out = json;
    return OK;
}

static void print_tensors(const char *title, const json_t *list)
{
    printf("%s\n", title);
    size_t i, k;
    json_t *t, *n;
    json_array_foreach(list, i, t) {
        printf("  %-5s %-52s (", json_text(t, "stage", ""), json_text(t, "name", ""));
        json_array_foreach(json_object_get(t, "shape"), k, n)
            printf(k ? ", %" JSON_INTEGER_FORMAT : "%" JSON_INTEGER_FORMAT, json_integer_value(n));
        printf(")%s%s\n", json_object_get(t, "dtype") ? " " : "", json_text(t, "dtype", ""));
    }
}

/* "24 of 32 layers (0, 1, 2, 4, ...)": the first few */
static void print_layers(const json_t *list, int64_t all)
{
    enum { SHOWN = 8 };
    const size_t n = json_array_size(list);
    printf("%zu of %" PRId64 " layers (", n, all);
    for (size_t i = 0; i < n && i < SHOWN; i++)
        printf("%s%" JSON_INTEGER_FORMAT, i ? ", " : "",
               json_integer_value(json_array_get(list, i)));
    printf(n > SHOWN ? ", ...)" : ")");
}

static void print_attention(const struct inspection *o, const json_t *attention)
{
    const struct spec *s = &o->sizes.spec;
    const json_t *windowed = json_object_get(attention, "window_layers"),
                 *none = json_object_get(attention, "no_rope_layers");
    printf("  %" JSON_INTEGER_FORMAT " positions", (long long)json_int(attention, "positions"));
    for (int i = 0; i < s->n_ropes; i++) {
        const struct rope_info *f = &s->rope[i].info;
        printf("; %sRoPE %s, theta %g", i == ROPE_WINDOW ? "within windows " : "", f->type,
               f->theta);
        if (f->factor != 1) printf(", factor %g", f->factor);
    }
    if (json_array_size(none)) {
        printf("; no RoPE in ");
        print_layers(none, s->shape.layers);
    }
    if (json_array_size(windowed)) {
        printf("; a window of %" PRId64 " tokens in ", s->window);
        print_layers(windowed, s->shape.layers);
    }
    printf("\n");
}

static void print_text(const struct inspection *o, const json_t *json)
{
    const struct model_shape *m = &o->sizes.shape;
    printf("%s: %s\n", o->path, arch_name(o->sizes.spec.arch));
    printf("  %" PRId64 " layers, hidden %" PRId64 ", %" PRId64 " heads of %" PRId64 " (%" PRId64
           " key/value), intermediate %" PRId64 ", vocabulary %" PRId64 "%s\n",
           m->layers, m->hidden, m->heads, m->head_dim, m->kv_heads, m->intermediate, m->vocab,
           m->tied ? ", tied head" : "");
    printf("  %" PRId64 " parameters, %" PRId64 " without embedding and head\n", m->parameters,
           m->parameters_non_embedding);
    print_attention(o, json_object_get(json, "attention"));
    if (o->weights)
        printf("  %" PRId64 " tensors on disk, weights_hash %s\n", checkpoint_n_tensors(o->weights),
               checkpoint_hash(o->weights));
    print_tensors("outside the blocks:", json_object_get(json, "outside"));
    print_tensors("block 0, by stage:", json_object_get(json, "block"));
    if (json_object_get(json, "tensors"))
        print_tensors("tensors on disk:", json_object_get(json, "tensors"));
}

static enum status run(struct call *c, struct err *e)
{
    CLEANUP(inspection_free) struct inspection o = {0};
    bool json = false, tensors = false;
    json_auto_t *out = NULL;
    const struct arg table[] = {
        {"--tensors", ARG_SWITCH, &tensors, NULL, "every tensor on disk too"},
        {"--json", ARG_SWITCH, &json, NULL, "print JSON"},
    };
    const struct args args = {ARGS(table)};
    PASS(args_parse(&args, c, &o.path, 1, e));
    if (c->help) return OK;
    PASS(open_all(&o, tensors, e));
    PASS(inspect_json(&o, tensors, &out, e));
    if (json) return cli_print_json(json_incref(out), JSON_INDENT(1), e);
    print_text(&o, out);
    return OK;
}

const struct command cmd_inspect = {
    .name = "inspect",
    .arguments = "DIR|FILE.gguf|config.json [--tensors] [--json]",
    .doc = "show family, shape, stages and parameter counts of a checkpoint",
    .run = run,
};
