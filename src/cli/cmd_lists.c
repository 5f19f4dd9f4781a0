/* The commands that print tables of the program: options, methods, families. */
#include "cli/args.h"
#include "cli/cli.h"
#include "config/preset.h"
#include "model/model.h"
#include "quant/quant.h"
#include <stdlib.h>

/* Commands that take no flag but --json. */
static enum status parse(struct call *c, bool *json, struct err *e)
{
    const struct arg table[] = {{"--json", ARG_SWITCH, json, NULL, "for machines"}};
    const struct args args = {ARGS(table)};
    return args_parse(&args, c, NULL, 0, e);
}

static enum status run_options(struct call *c, struct err *e)
{
    bool json = false;
    PASS(parse(c, &json, e));
    if (c->help) return OK;
    if (json) return cli_print_json(sweep_options_json(), JSON_INDENT(1), e);
    sweep_print_options(stdout);
    return OK;
}

const struct command cmd_options = {
    .name = "options",
    .arguments = "[--json]",
    .doc = "list every key of a sweep file: type, default, range, meaning",
    .run = run_options,
};

static enum status run_methods(struct call *c, struct err *e)
{
    enum status st = OK;
    bool json = false;
    const struct quant_method *m;
    json_t *list = json_array();
    char *options = NULL;
    TRY(parse(c, &json, e));
    for (int i = 0; !c->help && (m = quant_at(i)) != NULL; i++) {
        bool needs = quant_calibrates(m);
        TRY(quant_option_names(m, &options, e));
        if (!json)
            printf("%-10s bits %lld to %lld%s\n    %s\n    options: %s\n", m->name,
                   (long long)m->bits_min, (long long)m->bits_max,
                   needs ? ", needs calibration" : "", m->doc, options);
        json_t *presets = json_array();
        for (int k = PRESET_NONE + 1; preset_names[k]; k++) {
            if (!preset_concerns(k, m->name)) continue;
            if (!json)
                printf("%s%s", json_array_size(presets) ? " " : "    presets: ", preset_names[k]);
            json_array_append_new(presets, json_string(preset_names[k]));
        }
        if (!json && json_array_size(presets)) putchar('\n');
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:I, s:I, s:b, s:s, s:o}", "name", m->name,
                                        "doc", m->doc, "bits_min", (json_int_t)m->bits_min,
                                        "bits_max", (json_int_t)m->bits_max, "calibration", needs,
                                        "options", options, "presets", presets));
        free(options);
        options = NULL;
    }
    if (json && !c->help) TRY(cli_print_json(json_incref(list), JSON_INDENT(1), e));
done:
    free(options);
    json_decref(list);
    return st;
}

const struct command cmd_methods = {
    .name = "methods",
    .arguments = "[--json]",
    .doc = "list the quantization methods and the options of each",
    .run = run_methods,
};

static enum status run_architectures(struct call *c, struct err *e)
{
    enum status st = OK;
    bool json = false;
    const struct arch *a;
    json_t *list = json_array();
    TRY(parse(c, &json, e));
    for (int i = 0; !c->help && (a = arch_at(i)) != NULL; i++) {
        if (!json) printf("%-12s %s\n", arch_name(a), arch_doc(a));
        json_array_append_new(list,
                              json_pack("{s:s, s:s}", "name", arch_name(a), "doc", arch_doc(a)));
    }
    if (json && !c->help) TRY(cli_print_json(json_incref(list), JSON_INDENT(1), e));
done:
    json_decref(list);
    return st;
}

const struct command cmd_architectures = {
    .name = "architectures",
    .arguments = "[--json]",
    .doc = "list the model families that can be read",
    .run = run_architectures,
};
