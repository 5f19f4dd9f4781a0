/* The input is a sweep file and, after NUL bytes, its trajectory (trajectory.csv beside it) and up
 * to two overrides. */
#include "config/sweep.h"
#include "fuzz.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64], sweep_path[96], trajectory_path[96];

static void remove_folder(void)
{
    unlink(sweep_path);
    unlink(trajectory_path);
    rmdir(folder);
}

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "%s/qtraj-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    fuzz_expect(mkdtemp(folder) != NULL, "a folder");
    snprintf(sweep_path, sizeof sweep_path, "%s/sweep.yaml", folder);
    snprintf(trajectory_path, sizeof trajectory_path, "%s/trajectory.csv", folder);
    atexit(remove_folder);
}

static void write_file(const char *path, const char *text, size_t n)
{
    FILE *f = fopen(path, "wb");
    fuzz_expect(f && fwrite(text, 1, n, f) == n && fclose(f) == 0, "a file");
}

/* Settings survive a round trip through JSON. */
static void round_trip(const struct sweep *s)
{
    json_t *all = sweep_to_json(s);
    fuzz_expect(all != NULL, "a sweep as JSON");
    json_decref(all);
    for (int64_t i = 0; i < s->n_methods; i++) {
        struct err e = {0};
        struct method_entry again;
        json_t *json = method_entry_to_json(&s->methods[i]);
        fuzz_expect(options_from_json(&method_table, json, &again, &e) == OK,
                    "a method from its JSON");
        json_t *second = method_entry_to_json(&again);
        fuzz_expect(json_equal(json, second), "the same method from its JSON");
        options_free(&method_table, &again);
        json_decref(json);
        json_decref(second);
    }
    for (int64_t i = 0; i < s->n_evaluations; i++) {
        struct err e = {0};
        struct data_options again;
        json_t *json = data_options_to_json(&s->evaluations[i]);
        fuzz_expect(options_from_json(&data_table, json, &again, &e) == OK,
                    "a dataset from its JSON");
        options_free(&data_table, &again);
        json_decref(json);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char plain[] = "checkpoint,step\na,1\nb,2\n";
    char *part[4] = {0};
    size_t length[4] = {0};
    struct sweep s;
    struct err e = {0};
    if (!folder[0]) make_folder();
    int parts = fuzz_split(data, size, 4, part, length);
    write_file(sweep_path, part[0], length[0]);
    write_file(trajectory_path, parts > 1 ? part[1] : plain,
               parts > 1 ? length[1] : sizeof plain - 1);
    const char *overrides[2] = {part[2], part[3]};
    enum status st = sweep_read(sweep_path, overrides, parts > 2 ? parts - 2 : 0, &s, &e);
    fuzz_expect_status(st, &e);
    fuzz_expect(st == OK || st == ERR_USAGE || st == ERR_IO || st == ERR_FORMAT,
                "a fault of the file at worst");
    if (st == OK) round_trip(&s);
    sweep_free(&s);
    free(part[0]);
    return 0;
}
