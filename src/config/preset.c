/* Sources, read in the packages: IST-DASLab/gptq (llama.py: defaults of its flags; datautils.py),
 * GPTQModel 4.2.5 and 5.8.0 (quantization/config.py, models/base.py: prepare_dataset and quantize,
 * looper/module_looper.py), for the texts the code of arXiv 2510.06213, optimum of July 2024
 * (gptq/quantizer.py, data.py) with AutoGPTQ 0.7, and llm-compressor's
 * examples/awq/awq_one_shot.py of 2025 (its later examples have duo_scaling: both). */
#include "config/preset.h"
#include "options/yaml.h"
#include "util/page.h"
#include <string.h>

#define NAME(id, name, doc) name,
#define DOC(id, name, doc)  doc,
const char *const preset_names[] = {PRESETS(NAME) NULL};
static const char *const docs[] = {PRESETS(DOC)};

/* Blocks of 2048 that the paper's loop takes: range(0, tokens - 2049, 2048). */
#define PAPER_EVALUATION                                                                           \
    "{layout: packed, length: 2048, special_tokens: false, follow: 2, padding: none}"
#define PAPER_RTN "{group_size: 128, symmetric: true, range_search: 0, scale_dtype: f16}"

static const struct rule {
    int preset;
    const char *section, *method; /* method: of those entries alone */
    bool calibrates;
    const char *values;
} rules[] = {
    {PRESET_GPTQ_REFERENCE, "methods", "gptq", true,
     "{group_size: -1, symmetric: false, order: none, damping: 0.01, damping_increment: 0, "
     "block_size: 128, true_sequential: false, static_groups: false, range_search: 0, "
     "hessian_per_token: false, scale_dtype: f32, last_resort: none}"},
    {PRESET_GPTQ_REFERENCE, "methods", "rtn", false,
     "{group_size: -1, symmetric: false, range_search: 0, scale_dtype: f32}"},
    /* The windows' places are drawn by Python's random there: here each document's first. */
    {PRESET_GPTQ_REFERENCE, "calibration", NULL, false,
     "{layout: document, length: 2048, min_length: 2048, samples: 128, special_tokens: true, "
     "padding: none, sort: none}"},
    {PRESET_GPTQ_REFERENCE, "evaluation", NULL, false,
     "{layout: packed, length: 2048, special_tokens: false, follow: 0, padding: none}"},

    {PRESET_GPTQMODEL_4, "methods", "gptq", true,
     "{group_size: 128, symmetric: true, order: activation, damping: 0.05, damping_increment: "
     "0.01, block_size: 128, true_sequential: true, static_groups: false, range_search: 0, "
     "hessian_per_token: true, scale_dtype: f16-packed, last_resort: round}"},
    {PRESET_GPTQMODEL_4, "methods", "rtn", false, PAPER_RTN},
    {PRESET_GPTQMODEL_4, "calibration", NULL, false,
     "{layout: document, length: none, within_positions: false, min_length: 11, documents: 1024, "
     "special_tokens: true, batch: 16, padding: counted, sort: none}"},
    {PRESET_GPTQMODEL_4, "evaluation", NULL, false, PAPER_EVALUATION},

    {PRESET_GPTQMODEL_5, "methods", "gptq", true,
     "{group_size: 128, symmetric: true, order: group, damping: 0.05, damping_increment: 0.01, "
     "block_size: 128, true_sequential: true, static_groups: false, range_search: 0, "
     "hessian_per_token: true, scale_dtype: f16-packed, last_resort: floor}"},
    {PRESET_GPTQMODEL_5, "methods", "rtn", false, PAPER_RTN},
    {PRESET_GPTQMODEL_5, "calibration", NULL, false,
     "{layout: document, length: none, within_positions: true, min_length: 11, documents: 1024, "
     "special_tokens: true, batch: 16, padding: masked, sort: length}"},
    {PRESET_GPTQMODEL_5, "evaluation", NULL, false, PAPER_EVALUATION},

    /* Of arXiv 2411.17691 is known, from its checkpoints on the hub: GPTQ at 2, 3 and 4 bits,
     * stored by transformers, calibrated on "wikitext2"; the sizes of their files are those of
     * groups of 128. Order, damping and the number of sequences are the defaults of the time. Not
     * known: on which documents and how long sequences its loss is (RefinedWeb's), so evaluation is
     * not fixed. Sequences are drawn from the first 1000 rows there: here they are the text's
     * first. */
    {PRESET_TRANSFORMERS_GPTQ, "methods", "gptq", true,
     "{group_size: 128, symmetric: true, order: none, damping: 0.1, damping_increment: 0, "
     "block_size: 128, true_sequential: true, static_groups: false, range_search: 0, "
     "hessian_per_token: false, scale_dtype: f16-packed, last_resort: none}"},
    {PRESET_TRANSFORMERS_GPTQ, "methods", "rtn", false, PAPER_RTN},
    {PRESET_TRANSFORMERS_GPTQ, "calibration", NULL, false,
     "{layout: packed, length: 2048, samples: 128, special_tokens: false, padding: none, "
     "sort: none}"},

    /* There the documents are drawn: here they are the first that are long enough. */
    {PRESET_LLM_COMPRESSOR_AWQ, "methods", "awq", true,
     "{bits: [4], group_size: 128, zero_point: true, duo_scaling: true, clip: false}"},
    {PRESET_LLM_COMPRESSOR_AWQ, "calibration", NULL, false,
     "{layout: document, length: 512, min_length: 512, samples: 256, special_tokens: true, "
     "padding: none, sort: none}"},

    {PRESET_W4A8, "methods", NULL, false, "{bits: [4], activations: {bits: 8}}"},
    {PRESET_W4A4, "methods", NULL, false, "{bits: [4], activations: {bits: 4, clip: 0.9}}"},
    {PRESET_W8A8, "methods", NULL, false, "{bits: [8], activations: {bits: 8}}"},
    {PRESET_W16A16KV4, "methods", NULL, false,
     "{keys: {bits: 4, clip: 0.95, rotation: hadamard}, values: {bits: 4, clip: 0.95}}"},
};
enum { N_RULES = sizeof rules / sizeof *rules };

static const struct rule *rule_at(int preset, const char *section, const char *method)
{
    for (int i = 0; i < N_RULES; i++) {
        const struct rule *r = &rules[i];
        if (r->preset != preset || strcmp(r->section, section) != 0) continue;
        if (!r->method || (method && strcmp(r->method, method) == 0)) return r;
    }
    return NULL;
}

/* Applies the preset's rule as if its keys were in the file. */
static enum status apply(int preset, const char *section, const char *method,
                         const struct option_table *t, void *entry, struct err *e)
{
    const struct rule *r = rule_at(preset, section, method);
    if (!r) return OK;
    CLEANUP(node_free_at) struct node *values = NULL;
    const struct node_place place = {.file = preset_names[preset]};
    const struct option_source source = {.code = ERR_USAGE};
    PASS(yaml_read_text(r->values, strlen(r->values), &place, &values, e));
    for (int64_t i = 0; i < values->n; i++) {
        const struct node *value = values->items[i];
        size_t base;
        const struct option *o = options_find(t, value->key, &base);
        const struct option_scope scope = {NULL, value->key, 0, value, &source};
        NEED(o, ERR_USAGE, "preset %s: no option %s", preset_names[preset], value->key);
        PASS(options_read_value(o, &scope, (char *)entry + base, e));
    }
    return OK;
}

/* --- in a sweep file --- */

int preset_named(const char *name)
{
    int i = 0;
    while (preset_names[i] && strcmp(preset_names[i], name) != 0) i++;
    return preset_names[i] ? i : -1;
}

/* The `preset` that stands in this mapping; -1: none, or no name (the reader says so later). */
static int preset_written(const struct node *n)
{
    const struct node *value = n ? node_find(n, "preset") : NULL;
    return value && value->kind == NODE_SCALAR ? preset_named(value->text) : -1;
}

static int preset_of(const struct option_scope *scope)
{
    int own = preset_written(scope->node);
    if (own >= 0) return own;
    while (scope->up) scope = scope->up;
    own = preset_written(scope->node);
    return own >= 0 ? own : PRESET_NONE;
}

enum status method_begin(void *entry, const struct option_scope *scope, struct err *e)
{
    struct method_entry *m = entry;
    const struct node *method = scope->node ? node_find(scope->node, "method") : NULL;
    m->preset = preset_of(scope);
    if (!scope->up || !method || method->kind != NODE_SCALAR) return OK;
    return apply(m->preset, "methods", method->text, &method_table, m, e);
}

enum status data_begin(void *entry, const struct option_scope *scope, struct err *e)
{
    struct data_options *d = entry;
    d->preset = preset_of(scope);
    const char *section = scope->name ? scope->name : scope->up ? scope->up->name : NULL;
    return section ? apply(d->preset, section, NULL, &data_table, d, e) : OK;
}

enum status preset_check(const struct sweep *s, const struct option_scope *scope, struct err *e)
{
    const struct node *list = node_find(scope->node, "methods");
    const struct node *calibration = node_find(scope->node, "calibration");
    bool waived = preset_written(calibration) == PRESET_NONE;
    for (int64_t i = 0; calibration && !waived && i < s->n_methods; i++) {
        const struct method_entry *m = &s->methods[i];
        const struct rule *r = rule_at(m->preset, "methods", m->method);
        if (!r || !r->calibrates || m->preset == s->calibration.preset) continue;
        struct option_scope in_list = {scope, "methods", 0, list, scope->source};
        struct option_scope one = {&in_list, NULL, i, list->items[i], scope->source};
        const char *name = preset_names[m->preset];
        return options_fail(&one, "preset", e,
                            "%s fixes the calibration too, but calibration has the preset %s, and "
                            "a sweep has one calibration: say preset: %s at the top of the file "
                            "(another preset is another sweep), or preset: none at calibration "
                            "and its keys yourself",
                            name, preset_names[s->calibration.preset], name);
    }
    return OK;
}

/* --- on the command line --- */

enum status quant_options_preset(struct quant_options *q, int preset, const char *method,
                                 struct err *e)
{
    NEED(preset < PRESET_W4A8, ERR_USAGE,
         "--preset %s: it quantizes what the model computes, which only a sweep does",
         preset_names[preset]);
    return apply(preset, "methods", method, &quant_table, q, e);
}

enum status data_options_preset(struct data_options *d, int preset, const char *section,
                                struct err *e)
{
    d->preset = preset;
    return apply(preset, section, NULL, &data_table, d, e);
}

/* --- what there is --- */

void preset_print(FILE *out)
{
    fprintf(out, "\npresets: defaults that a published protocol fixes\n");
    for (int i = PRESET_NONE + 1; preset_names[i]; i++) {
        fprintf(out, "  %s: %s\n", preset_names[i], docs[i]);
        for (int j = 0; j < N_RULES; j++) {
            const struct rule *r = &rules[j];
            if (r->preset != i) continue;
            const int n = fprintf(out, "    %s%s%s: ", r->section, r->method ? ", method " : "",
                                  r->method ? r->method : "");
            page_print(out, page_width(out, OPTION_PAGE), 6, n, r->values);
        }
    }
}

bool preset_concerns(int preset, const char *method)
{
    const struct rule *r = rule_at(preset, "methods", method);
    return r && r->method;
}
