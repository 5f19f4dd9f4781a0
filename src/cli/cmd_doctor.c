/* qtraj doctor: runs the checks of doctor.h and prints findings, warnings and remedies. */
#include "cli/args.h"
#include "cli/cli.h"
#include "run/doctor.h"
#include "run/startup.h"
#include "util/comm.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <stdio.h>

static void print_text(const struct doctor *d)
{
    const char *heading, *name;
    json_t *section, *value;
    size_t i;
    json_object_foreach(d->findings, heading, section) {
        printf("%s\n", heading);
        json_object_foreach(section, name, value) {
            printf("  %-32s ", name);
            size_t n = strlen(name);
            bool bytes = n > 6 && strcmp(name + n - 6, "_bytes") == 0;
            if (bytes && json_is_number(value))
                printf("%.1f GiB", json_number_value(value) / (1 << 30));
            else if (json_is_string(value))
                printf("%s", json_string_value(value));
            else if (json_is_integer(value))
                printf("%lld", (long long)json_integer_value(value));
            else if (json_is_real(value))
                printf("%.4g", json_real_value(value));
            else
                printf("%s", json_is_true(value) ? "yes" : json_is_false(value) ? "no" : "none");
            putchar('\n');
        }
    }
    json_array_foreach(d->warnings, i, value)
        printf("warning: %s: %s\n  remedy: %s\n", json_text(value, "about", ""),
               json_text(value, "text", ""), json_text(value, "remedy", ""));
    if (i == 0) printf("no warnings\n");
}

static void doctor_free(struct doctor *d)
{
    json_decref(d->findings);
    json_decref(d->warnings);
}

static enum status run(struct call *c, struct err *e)
{
    AUTO_FREE char *folder = NULL;
    bool json = false;
    const char *results = ".", *scratch = NULL;
    struct doctor_ranks ranks = {0};
    CLEANUP(doctor_free) struct doctor d = {0};
    const struct arg table[] = {
        {"--results", ARG_TEXT, &results, "PATH",
         "the results, or the folder that they will be in (default: this folder)"},
        {"--scratch", ARG_TEXT, &scratch, "DIR", "folder of run.scratch (default: as a run's)"},
        {"--json", ARG_SWITCH, &json, NULL, "print JSON"},
    };
    const struct args args = {ARGS(table)};
    PASS(args_parse(&args, c, NULL, 0, e));
    if (c->help) return OK;
    PASS(doctor_ask_ranks(c->world, &ranks, e));
    if (comm_rank(c->world) != 0) return OK;
    ranks.met = startup_seconds();
    ranks.limit = startup_limit(ranks.n);
    d = (struct doctor){.findings = json_object(), .warnings = json_array()};
    /* the folder itself, or that of the file that is or will be there */
    PASS(fsx_is_dir(results) ? mem_string(&folder, results, e) : fsx_parent(results, &folder, e));
    doctor_check_versions(&d);
    PASS(doctor_check_blas(&d, &ranks, e));
    doctor_check_products(&d, &ranks);
    doctor_check_ranks(&d, &ranks);
    doctor_check_memory(&d, &ranks);
    doctor_check_limits(&d);
    doctor_check_disks(&d, folder, scratch);
    doctor_check_locale(&d);
    if (json) {
        PASS(cli_print_json(json_pack("{s:O, s:O}", "findings", d.findings, "warnings", d.warnings),
                            JSON_INDENT(1), e));
    } else {
        print_text(&d);
    }
    c->code = json_array_size(d.warnings) ? EXIT_WARNINGS : EXIT_DONE;
    return OK;
}

const struct command cmd_doctor = {
    .name = "doctor",
    .arguments = "[--results PATH] [--scratch DIR] [--json]",
    .doc = "find what would slow or break a run on this machine, with remedies",
    .all_ranks = true,
    .rank_0_waits = true,
    .run = run,
};
