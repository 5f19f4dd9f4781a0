/* The commands that print the tables this binary is made of. */
#include "cli/args.h"
#include "cli/cli.h"
#include "config/sweep.h"
#include "model/model.h"
#include "quant/quant.h"
#include "util/json.h"
#include <stdlib.h>

static enum status parse(const char *usage, int argc, char **argv, bool *json, bool *help,
                         struct err *e)
{
    const struct arg table[] = {{"--json", ARG_SWITCH, json, NULL, "for machines"}};
    const struct args args = {.table = table, .n = json ? 1 : 0};
    return args_parse(&args, usage, argc, argv, NULL, 0, 0, NULL, help, e);
}

static void print_json(json_t *json)
{
    json_dumpf(json, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(json);
}

static const char options_usage[] = "options";

static enum status run_options(MPI_Comm world, int argc, char **argv, int *code, struct err *e)
{
    enum status st = OK;
    bool help;
    (void)world;
    (void)code;
    TRY(parse(options_usage, argc, argv, NULL, &help, e));
    if (!help) sweep_print_options(stdout);
done:
    return st;
}

const struct command cmd_options = {
    .name = "options",
    .arguments = options_usage,
    .doc = "every key of a sweep file: type, default, range, meaning",
    .run = run_options,
};

static const char methods_usage[] = "methods [--json]";

static enum status run_methods(MPI_Comm world, int argc, char **argv, int *code, struct err *e)
{
    enum status st = OK;
    bool json = false, help;
    const struct quant_method *m;
    json_t *list = json_array();
    char *options = NULL;
    (void)world;
    (void)code;
    TRY(parse(methods_usage, argc, argv, &json, &help, e));
    for (int i = 0; !help && (m = quant_at(i)) != NULL; i++) {
        bool needs = quant_calibrates(m);
        TRY(quant_option_names(m, &options, e));
        if (!json)
            printf("%-10s bits %lld to %lld%s\n    %s\n    options: %s\n", m->name,
                   (long long)m->bits_min, (long long)m->bits_max,
                   needs ? ", needs calibration" : "", m->doc, options);
        json_t *presets = json_array();
        for (int k = PRESET_NONE + 1; preset_name(k); k++) {
            if (!preset_concerns(k, m->name)) continue;
            if (!json)
                printf("%s%s", json_array_size(presets) ? " " : "    presets: ", preset_name(k));
            json_array_append_new(presets, json_string(preset_name(k)));
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
    if (json && !help) print_json(json_incref(list));
done:
    free(options);
    json_decref(list);
    return st;
}

const struct command cmd_methods = {
    .name = "methods",
    .arguments = methods_usage,
    .doc = "the quantization methods and the options that concern each",
    .run = run_methods,
};

static const char architectures_usage[] = "architectures [--json]";

static enum status run_architectures(MPI_Comm world, int argc, char **argv, int *code,
                                     struct err *e)
{
    enum status st = OK;
    bool json = false, help;
    const struct arch *a;
    json_t *list = json_array();
    (void)world;
    (void)code;
    TRY(parse(architectures_usage, argc, argv, &json, &help, e));
    for (int i = 0; !help && (a = arch_at(i)) != NULL; i++) {
        if (!json) printf("%-12s %s\n", arch_name(a), arch_doc(a));
        json_array_append_new(list,
                              json_pack("{s:s, s:s}", "name", arch_name(a), "doc", arch_doc(a)));
    }
    if (json && !help) print_json(json_incref(list));
done:
    json_decref(list);
    return st;
}

const struct command cmd_architectures = {
    .name = "architectures",
    .arguments = architectures_usage,
    .doc = "the model families that can be read",
    .run = run_architectures,
};
