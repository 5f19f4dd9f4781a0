/* The commands that print tables of the program: options, variables, methods, families. */
#include "cli/args.h"
#include "cli/cli.h"
#include "config/preset.h"
#include "cube/cube_variables.h"
#include "model/model.h"
#include "quant/quant.h"
#include "train/runs.h"
#include "util/mem.h"
#include "util/page.h"

static enum status run_options(struct call *c, struct err *e)
{
    bool json = false, train = false;
    json_t *list = NULL;
    const struct arg table[] = {
        {"--train", ARG_SWITCH, &train, NULL, "the keys of a file of runs, for qtraj train"},
        {"--json", ARG_SWITCH, &json, NULL, "print JSON"},
    };
    const struct args args = {ARGS(table)};
    PASS(args_parse(&args, c, NULL, 0, e));
    if (c->help) return OK;
    if (json && train) PASS(runs_options_json(&list, e));
    if (json) return cli_print_json(train ? list : sweep_options_json(), JSON_INDENT(1), e);
    (train ? runs_print_options : sweep_print_options)(stdout);
    return OK;
}

const struct command cmd_options = {
    .name = "options",
    .arguments = "[--train] [--json]",
    .doc = "list every key of a sweep file, or of runs to train: type, default, range, meaning",
    .run = run_options,
};

/* Commands that take no flag but --json. */
static enum status parse(struct call *c, bool *json, struct err *e)
{
    const struct arg table[] = {{"--json", ARG_SWITCH, json, NULL, "print JSON"}};
    const struct args args = {ARGS(table)};
    return args_parse(&args, c, NULL, 0, e);
}

static enum status run_variables(struct call *c, struct err *e)
{
    bool json = false;
    json_auto_t *list = NULL;
    PASS(parse(c, &json, e));
    if (c->help) return OK;
    PASS(cube_variables(&list, e));
    if (json) {
        PASS(cli_print_json(json_incref(list), JSON_INDENT(1), e));
    } else {
        cube_variables_print(list, stdout);
    }
    return OK;
}

const struct command cmd_variables = {
    .name = "variables",
    .arguments = "[--json]",
    .doc = "list every variable of a cube: axes, type, units, meaning",
    .run = run_variables,
};

/* "    LABEL: WORDS", broken into lines; nothing without words. */
static void print_words(const char *label, const char *words, int64_t width)
{
    enum { INDENT = 4 };
    if (!words[0]) return;
    int n = printf("%*s%s%s", INDENT, "", label, label[0] ? ": " : "");
    page_print(stdout, width, INDENT + 2 * (label[0] != '\0'), n, words);
}

static enum status print_method(const struct quant_method *m, struct err *e)
{
    AUTO_FREE char *options = NULL, *presets = NULL;
    const int64_t width = page_width(stdout, OPTION_PAGE);
    PASS(quant_option_names(m, &options, e));
    PASS(mem_string(&presets, "", e));
    for (int k = PRESET_NONE + 1; preset_names[k]; k++)
        if (preset_concerns(k, m->name))
            PASS(mem_append(&presets, e, "%s%s", presets[0] ? " " : "", preset_names[k]));
    printf("%-11s bits %lld", m->name, (long long)m->bits_min);
    if (m->bits_max > m->bits_min) printf(" to %lld", (long long)m->bits_max);
    printf("%s\n", !quant_calibrates(m, NULL) ? ""
                   : m->calibrates_with       ? ", calibrates with importance"
                                              : ", needs calibration");
    print_words("", m->doc, width);
    print_words("options", options, width);
    print_words("presets", presets, width);
    return OK;
}

static enum status add_method(const struct quant_method *m, json_t *list, struct err *e)
{
    AUTO_FREE char *options = NULL;
    json_auto_t *presets = json_array();
    for (int k = PRESET_NONE + 1; preset_names[k]; k++)
        if (preset_concerns(k, m->name))
            json_array_append_new(presets, json_string(preset_names[k]));
    PASS(quant_option_names(m, &options, e));
    json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I, s:b, s:s, s:O}", "name", m->name,
                                          "doc", m->doc, "bits_min", (json_int_t)m->bits_min,
                                          "bits_max", (json_int_t)m->bits_max, "calibration",
                                          quant_calibrates(m, NULL), "options", options, "presets",
                                          presets));
    return OK;
}

static enum status run_methods(struct call *c, struct err *e)
{
    bool json = false;
    const struct quant_method *m;
    json_auto_t *list = json_array();
    PASS(parse(c, &json, e));
    for (int i = 0; !c->help && (m = quant_at(i)) != NULL; i++)
        PASS(json ? add_method(m, list, e) : print_method(m, e));
    if (json && !c->help) PASS(cli_print_json(json_incref(list), JSON_INDENT(1), e));
    return OK;
}

const struct command cmd_methods = {
    .name = "methods",
    .arguments = "[--json]",
    .doc = "list the quantization methods and the options of each",
    .run = run_methods,
};

static enum status run_architectures(struct call *c, struct err *e)
{
    enum { INDENT = 13 };
    const int64_t width = page_width(stdout, OPTION_PAGE);
    bool json = false;
    const struct arch *a;
    json_auto_t *list = json_array();
    PASS(parse(c, &json, e));
    for (int i = 0; !c->help && (a = arch_at(i)) != NULL; i++) {
        if (!json) printf("%-*s", INDENT, arch_name(a));
        if (!json) page_print(stdout, width, INDENT, INDENT, arch_doc(a));
        json_array_append_new(list,
                              json_pack("{s:s, s:s}", "name", arch_name(a), "doc", arch_doc(a)));
    }
    if (json && !c->help) PASS(cli_print_json(json_incref(list), JSON_INDENT(1), e));
    return OK;
}

const struct command cmd_architectures = {
    .name = "architectures",
    .arguments = "[--json]",
    .doc = "list the model families that can be read",
    .run = run_architectures,
};
