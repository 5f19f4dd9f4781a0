/* qtraj quantize: one checkpoint by one method at one width. */
#include "checkpoint/checkpoint.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/single.h"
#include "config/preset.h"
#include "cube/text_table.h"
#include "engine/inputs.h"
#include "engine/weights.h"
#include "export/export_folder.h"
#include "export/model_card.h"
#include "quant/quant.h"
#include "util/log.h"
#include "util/mem.h"
#include <math.h>

struct quantize {
    struct single single; /* first member: its address is the hooks' context */
    const char *dir, *method, *tokenizer;
    const char *weights; /* file for the quantized linears alone */
    const char *folder;  /* folder for the whole model */
    const char *format;  /* of its linears */
    struct export_form form;
    int64_t bits;
    struct method_entry entry;
    struct data_options calibration, evaluation;
    const char *field; /* of both, where their own flags say nothing; so is length */
    int64_t length;
    int preset;
    bool json; /* print JSON */
    struct safetensors_out *file_out;
    struct export_folder *folder_out;
};

static void quantize_free(struct quantize *o)
{
    safetensors_out_close(o->file_out);
    export_folder_close(o->folder_out);
    options_free(&data_table, &o->calibration);
    options_free(&data_table, &o->evaluation);
    single_free(&o->single);
}

/* --- quantized weights on disk --- */

static enum status write_linear(void *context, const struct variant *v, const struct linear *l,
                                const float *q, const struct quant_grids *grids, struct err *e)
{
    struct quantize *o = context;
    (void)v;
    if (o->weights) PASS(safetensors_append(o->file_out, q, l->rows * l->cols, e));
    if (o->folder) PASS(export_folder_linear(o->folder_out, l, q, grids, e));
    return OK;
}

static enum status open_outputs(struct quantize *o, struct err *e)
{
    CLEANUP(checkpoint_close_at) struct checkpoint *c = NULL;
    AUTO_FREE char *found = NULL;
    if (!o->weights && !o->folder) return OK;
    PASS(checkpoint_open(o->dir, &c, e));
    if (o->weights) PASS(weights_file_create(c, o->weights, NULL, &o->file_out, e));
    if (o->folder && !o->tokenizer) PASS(visit_tokenizer(o->dir, &found, e));
    if (o->folder)
        PASS(export_folder_create(c, o->tokenizer ? o->tokenizer : found, o->folder, &o->form,
                                  &o->folder_out, e));
    o->single.hooks.weights = write_linear;
    o->single.hooks.grids = o->form.layout.format != PACKED_NONE;
    return OK;
}

/* --- settings --- */

static bool is_given(const struct data_options *d)
{
    return d->text || d->ids;
}

/* Applies --field and --length to both texts, unless --calibration-length or the like is given. */
static enum status share_flags(const struct quantize *o, struct data_options *d,
                               const char *section, struct err *e)
{
    struct data_options plain;
    options_default(&data_table, &plain);
    PASS(data_options_preset(&plain, o->preset, section, e));
    NEED(o->length >= 2 || o->length == 0, ERR_USAGE, "--length %lld: expected at least 2",
         (long long)o->length);
    if (d->length == LENGTH_AUTO) d->length = o->length ? o->length : plain.length;
    if (d->text && !d->field && o->field) PASS(mem_string(&d->field, o->field, e));
    return OK;
}

static enum status set_up(struct quantize *o, struct err *e)
{
    struct visit *v = &o->single.visit;
    NEED(o->method, ERR_USAGE, "--method is missing; qtraj methods lists them");
    const struct quant_method *method = quant_find(o->method);
    PASS(share_flags(o, &o->calibration, "calibration", e));
    PASS(share_flags(o, &o->evaluation, "evaluation", e));
    PASS(mem_zero(&v->variants, 1, sizeof *v->variants, "variant", e));
    v->n_variants = 1;
    PASS(mem_string(&v->variants[0].key, "", e));
    PASS(single_variant(o->method, &o->entry.options, &o->bits, &o->calibration, v->variants, e));
    if (o->weights) PASS(quant_check_weights(method, "--weights", e));
    if (o->folder) PASS(quant_check_weights(method, "--out", e));
    if (!o->format) o->format = *export_formats();
    PASS(export_form_choose(o->format, method, &o->entry.options, o->bits, &o->form, e));
    if (is_given(&o->calibration)) {
        PASS(data_options_finish(&o->calibration, "calibration-", e));
        v->calibration = o->calibration;
        o->calibration = (struct data_options){0};
    }
    if (is_given(&o->evaluation))
        PASS(single_add_evaluation(&o->single, &o->evaluation, "evaluation-", e));
    return OK;
}

/* --- all of it --- */

static enum status compute(struct quantize *o, struct err *e)
{
    PASS(set_up(o, e));
    PASS(open_outputs(o, e));
    PASS(single_run(&o->single, o->dir, o->tokenizer, e));
    if (o->weights) PASS(safetensors_commit(o->file_out, e));
    if (!o->folder) return OK;
    /* Gives the folder its card and its name. */
    const struct visit *v = &o->single.visit;
    const json_t *provenance = json_object_get(o->single.cell, "provenance");
    AUTO_FREE char *text = NULL;
    const struct model_card card = {.name = o->dir,
                                    .digest = json_text(provenance, "weights_hash", ""),
                                    .variant = v->variants,
                                    .format = o->format,
                                    .calibration = &v->calibration,
                                    .sequences = json_int(provenance, "calibration_sequences"),
                                    .cell = o->single.cell,
                                    .label = o->single.label};
    PASS(model_card_text(&card, &text, e));
    PASS(export_folder_commit(o->folder_out, text, e));
    if (o->form.layout.format == PACKED_NONE)
        log_info("%s: written. Quantized weights are stored in float32, as they were measured, and "
                 "config.json says so (torch_dtype).",
                 o->folder);
    else
        log_info("%s: written in format %s", o->folder, o->format);
    return OK;
}

/* --- results --- */

/* What column k says of a layer; NaN: the method has none. */
static double number_of(const json_t *layer, int k)
{
    static const char *const fields[] = {"squared_distance", "error", "relative_error"};
    const double x = json_number_get(json_object_get(layer, fields[k]));
    return k == 0 ? sqrt(x) : x;
}

/* A line a layer; a number that no layer has is left out. */
static enum status print_layers(const json_t *layers, struct err *e)
{
    enum { COLUMNS = 3 };
    static const char *const heads[COLUMNS] = {"distance", "error", "relative"};
    CLEANUP(table_free)
    struct table t = {.columns = 1 + COLUMNS, .left = 1, .align_left = {true}};
    size_t i;
    json_t *l;
    table_add_row(&t);
    table_set(&t, 0, "layer");
    for (int k = 0; k < COLUMNS; k++) {
        bool any = false;
        json_array_foreach(layers, i, l) any = any || isfinite(number_of(l, k));
        if (any) table_set(&t, 1 + k, "%s", heads[k]);
    }
    json_array_foreach(layers, i, l) {
        table_add_row(&t);
        table_set(&t, 0, "%s", json_text(l, "name", ""));
        for (int k = 0; k < COLUMNS; k++)
            if (isfinite(number_of(l, k))) table_set(&t, 1 + k, "%.4g", number_of(l, k));
    }
    return table_print(&t, table_page_width(stdout), stdout, e);
}

static enum status print_text(const struct quantize *o, struct err *e)
{
    const json_t *values = json_object_get(o->single.cell, "values");
    const json_t *layers = json_object_get(o->single.cell, "layers");
    const json_t *d = json_object_get(json_object_get(o->single.cell, "datasets"), "evaluation");
    PASS(print_layers(layers, e));
    printf("%s, %lld bits: %.4f bits a weight", o->method, (long long)o->bits,
           json_number_get(json_object_get(values, "bits_per_weight")));
    if (d)
        printf(", loss %.6f, %+.4f ± %.4f %% of the full-precision loss",
               json_number_get(json_object_get(d, "loss")),
               100 * json_number_get(json_object_get(d, "loss_relative")),
               100 * json_number_get(json_object_get(d, "loss_relative_stderr")));
    putchar('\n');
    return OK;
}

/* The layers' numbers, null where the method has none. A new reference, NULL: out of memory. */
static json_t *layers_json(const json_t *layers)
{
    json_t *copy = json_deep_copy(layers), *layer, *value;
    size_t i;
    const char *key;
    json_array_foreach(copy, i, layer)
        json_object_foreach(layer, key, value) {
            if (strcmp(key, "name") != 0 && !json_is_number(value))
                json_object_set_new(layer, key, json_null());
        }
    return copy;
}

static enum status print_json(const struct quantize *o, struct err *e)
{
    static const char *const numbers[] = {
        "loss_delta", "loss_delta_stderr", "loss_relative", "loss_relative_stderr",
        "perplexity", "bits_per_byte",     "kl_divergence", "top1_agreement"};
    const json_t *cell = o->single.cell, *values = json_object_get(cell, "values");
    const json_t *d = json_object_get(json_object_get(cell, "datasets"), "evaluation");
    json_t *out = json_pack("{s:o, s:o, s:o, s:O?, s:O, s:O}", "loss", single_number(cell, "loss"),
                            "baseline_loss", single_number(o->single.checkpoint, "loss"), "layers",
                            layers_json(json_object_get(cell, "layers")), "loss_per_sequence",
                            json_object_get(d, "sequence_loss"), "bits_per_weight",
                            json_object_get(values, "bits_per_weight"), "weight_distance",
                            json_object_get(values, "weight_distance"));
    NEED(out, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_object_set_new(out, numbers[i], single_number(cell, numbers[i]));
    return cli_print_json(out, JSON_COMPACT, e);
}

/* --- the command --- */

/* The value of --name in argv, NULL if it is not there. */
static const char *flag_value(const char *name, int argc, char **argv)
{
    size_t n = strlen(name);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], name, n) != 0) continue;
        if (argv[i][n] == '=') return argv[i] + n + 1;
        if (argv[i][n] == '\0' && i + 1 < argc) return argv[i + 1];
    }
    return NULL;
}

/* Applies the preset first, so that other flags override it wherever they are. */
static enum status start_from_preset(struct quantize *o, int argc, char **argv, struct err *e)
{
    const char *preset = flag_value("--preset", argc, argv);
    const char *method = flag_value("--method", argc, argv);
    options_default(&quant_table, &o->entry.options);
    options_default(&data_table, &o->calibration);
    options_default(&data_table, &o->evaluation);
    if (preset && preset_named(preset) >= 0)
        o->preset = preset_named(preset); /* else an error later */
    PASS(quant_options_preset(&o->entry.options, o->preset, method ? method : "", e));
    PASS(data_options_preset(&o->calibration, o->preset, "calibration", e));
    PASS(data_options_preset(&o->evaluation, o->preset, "evaluation", e));
    o->calibration.length = o->evaluation.length = LENGTH_AUTO;
    return OK;
}

/* What needs a forward pass. */
static const char passes[] =
    "--calibration-text --calibration-ids --evaluation-text --evaluation-ids";
static const struct arg_with with[] = {
    {"--field", "--calibration-text --evaluation-text"},
    {"--length", "--calibration-text --evaluation-text"},
    {"--tokenizer", "--calibration-text --evaluation-text --calibration-padding --out"},
    {"--format", "--out"},
    {"--products", passes},
    {"--rounding", passes},
    {NULL, NULL}};

static enum status run(struct call *c, struct err *e)
{
    CLEANUP(quantize_free) struct quantize o = {0};
    struct arg_choice method = {.words = quant_names()}, format = {.words = export_formats()},
                      preset = {.words = preset_names}, products = {.words = products_words},
                      rounding = {.words = rounding_words};
    const struct arg table[] = {
        {"--method", ARG_CHOICE, &method, "M", "qtraj methods lists them"},
        {"--preset", ARG_CHOICE, &preset, "P", "a protocol's defaults (`qtraj options`)"},
        {"--bits", ARG_INTEGER, &o.bits, "B", "1 to 8 (the method's, if it has only one)"},
        {"--field", ARG_TEXT, &o.field, "NAME", "field of a JSON line, of both texts"},
        {"--length", ARG_INTEGER, &o.length, "N",
         "tokens of a sequence, of both texts (2048, or the model's positions)"},
        {"--tokenizer", ARG_TEXT, &o.tokenizer, "FILE", "tokenizer.json (DIR's own)"},
        {"--out", ARG_TEXT, &o.folder, "OUT",
         "write the quantized model to a new folder that transformers loads"},
        {"--format", ARG_CHOICE, &format, "F",
         "of its weights: dequantized (in f32), gptq, awq, compressed-tensors, qtraj "
         "(docs/export.md)"},
        {"--weights", ARG_TEXT, &o.weights, "FILE",
         "write only the quantized matrices to a safetensors file (for tests; no model)"},
        {"--products", ARG_CHOICE, &products, "KIND", "how forward passes multiply (f32)"},
        {"--rounding", ARG_CHOICE, &rounding, "TYPE", "to which they round each result (f32)"},
        {"--json", ARG_SWITCH, &o.json, NULL, "print JSON"},
    };
    PASS(start_from_preset(&o, c->argc, c->argv, e));
    const struct arg_keys keys[] = {
        {"the method's options (qtraj methods says which it has):", &quant_table, "",
         &o.entry.options, NULL},
        {"the text that calibrates:", &data_calibration_table, "calibration-", &o.calibration,
         "--calibration-text --calibration-ids"},
        {"the text that is scored:", &data_scored_table, "evaluation-", &o.evaluation,
         "--evaluation-text --evaluation-ids"},
    };
    const struct args args = {ARGS(table), ARGS_KEYS(keys), .with = with};
    PASS(args_parse(&args, c, &o.dir, 1, e));
    if (c->help) return OK;
    o.method = method.word, o.format = format.word;
    single_numbers(&o.single, products.word, rounding.word);
    PASS(compute(&o, e));
    return o.json ? print_json(&o, e) : print_text(&o, e);
}

const struct command cmd_quantize = {
    .name = "quantize",
    .arguments = "DIR --method M [--bits B] [--calibration-text FILE] [--out OUT] ...",
    .doc = "quantize one checkpoint, report its loss and layer errors",
    .run = run,
};
