/* Records of a small sweep: two trajectories of unequal length, three quantizers of which one lacks
 * a width, two texts, and all difficult cases: NaN and infinite results, a failed checkpoint,
 * failed and pending cells, unequal layers, labels beyond ASCII. */
#pragma once
#include "records/results.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static inline json_t *sample_parse(const char *text)
{
    json_error_t error;
    json_t *value = json_loads(text, 0, &error);
    if (!value) fail_msg("%s: %d: %s", text, error.position, error.text);
    return value;
}

static inline json_t *sample_plan(void)
{
    return sample_parse(
        "{\"type\":\"plan\",\"name\":\"sample\",\"version\":\"0.1.0\",\"git\":\"abc\","
        "\"libraries\":{\"blas\":\"x 1.0\"},\"host\":\"node1\",\"command\":\"qtraj run s.yaml\","
        "\"utc\":\"2026-01-02T03:04:05Z\",\"config\":{\"results\":\"s.h5\",\"seed\":0},"
        "\"models\":[{\"name\":\"small\",\"checkpoints\":["
        "{\"name\":\"step100\",\"step\":100,\"tokens\":819200,\"learning_rate\":0.004,"
        "\"phase\":\"stable\",\"kind\":\"stored\",\"recipe\":\"\",\"key\":\"k-a\","
        "\"curvature_key\":\"h-a\"},"
        "{\"name\":\"step200\",\"step\":200,\"tokens\":1638400.0,\"learning_rate\":0.1,"
        "\"phase\":\"stable\",\"kind\":\"stored\",\"recipe\":\"\",\"key\":\"k-b\","
        "\"curvature_key\":\"h-b\",\"movement_key\":\"m-b\"},"
        "{\"name\":\"lawa\",\"step\":-1,\"tokens\":\"nan\",\"learning_rate\":\"nan\","
        "\"phase\":\"\",\"kind\":\"average\",\"recipe\":\"step100 step200\",\"key\":\"k-c\","
        "\"curvature_key\":\"h-c\",\"movement_key\":\"m-c\"}]},"
        "{\"name\":\"gr\\u00f6\\u00dfer\",\"checkpoints\":["
        "{\"name\":\"broken, \\\"one\\\"\",\"step\":7,\"tokens\":2.5e12,\"learning_rate\":3e-05,"
        "\"phase\":\"decay\",\"kind\":\"stored\",\"recipe\":\"\",\"key\":\"k-d\"}]}],"
        "\"bits\":[2,3],\"quantizers\":[\"rtn\",\"gptq\",\"gptq-g64\"],"
        "\"datasets\":[\"faq\",\"c4\"],\"variants\":["
        "{\"bits\":2,\"quantizer\":\"rtn\",\"key\":\"v-1\",\"applicable\":true},"
        "{\"bits\":3,\"quantizer\":\"rtn\",\"key\":\"v-2\",\"applicable\":true},"
        "{\"bits\":2,\"quantizer\":\"gptq\",\"key\":\"v-3\",\"applicable\":true},"
        "{\"bits\":3,\"quantizer\":\"gptq\",\"key\":\"v-4\",\"applicable\":true},"
        "{\"bits\":2,\"quantizer\":\"gptq-g64\",\"key\":\"v-5\",\"applicable\":false},"
        "{\"bits\":3,\"quantizer\":\"gptq-g64\",\"key\":\"v-6\",\"applicable\":true}],"
        "\"surfaces\":[{\"name\":\"plane\",\"plane\":\"quantization\",\"model\":\"small\","
        "\"checkpoint\":\"step200\",\"quantizer\":\"gptq\",\"bits\":3,\"dataset\":\"c4\","
        "\"columns\":2,"
        "\"rows\":3,\"exact\":[\"step200\",\"step100\",\"quantized\"],\"key\":\"s-1\"}],"
        "\"inputs\":{\"text.txt\":\"00ff\"}}");
}

static const char *const sample_checkpoint_keys[] = {"k-a", "k-b", "k-c", "k-d"};
/* The last checkpoint's curvature is not requested, that of the average is pending. */
static const char *const sample_curvature_keys[] = {"h-a", "h-b", "h-c", "h-d"};
/* Movement is requested of the second and the third, for which it failed. */
static const char *const sample_movement_keys[] = {"m-a", "m-b", "m-c", "m-d"};
static const char *const sample_checkpoint_names[] = {"step100", "step200", "lawa",
                                                      "broken, \"one\""};
static const char *const sample_variant_keys[] = {"v-1", "v-2", "v-3", "v-4", "v-5", "v-6"};
static const char *const sample_quantizers[] = {"rtn",  "rtn",      "gptq",
                                                "gptq", "gptq-g64", "gptq-g64"};
enum { SAMPLE_CHECKPOINTS = 4, SAMPLE_VARIANTS = 6 };

static inline void sample_set(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key, json_number_new(value));
}

static inline json_t *sample_head(const char *type, const char *key, int checkpoint)
{
    bool failed = checkpoint == 3;
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:{}, s:{}, s:{s:s, s:s, s:s}}", "type", type, "key",
        key, "fingerprint", "ranks 1; blas x", "model",
        failed ? "gr\xc3\xb6\xc3\x9f"
                 "er"
               : "small",
        "checkpoint", sample_checkpoint_names[checkpoint], "status", failed ? "failed" : "done",
        "message", failed ? "model.safetensors: truncated" : "", "values", "datasets", "provenance",
        "host", "node2", "utc_start", "2026-01-02T03:04:06Z", "weights_hash", failed ? "" : "feed");
}

/* Reals that need all 17 digits. */
static inline double sample_value(int seed)
{
    return 1 + sin(seed) / 3;
}

static inline json_t *sample_losses(int seed, int n)
{
    json_t *d = json_object(), *list = json_array();
    sample_set(d, "loss", sample_value(seed));
    sample_set(d, "perplexity", exp(sample_value(seed)));
    sample_set(d, "bits_per_byte", sample_value(seed + 1));
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_number_new(i == 2 ? NAN : sample_value(seed + i)));
    json_object_set_new(d, "sequence_loss", list);
    return d;
}

static inline json_t *sample_checkpoint(int c)
{
    json_t *r = sample_head("checkpoint", sample_checkpoint_keys[c], c);
    json_t *values = json_object_get(r, "values"), *datasets = json_object_get(r, "datasets");
    sample_set(values, "seconds", 0.1 * c);
    if (c == 3) return r;
    json_object_set_new(values, "parameters", json_integer(3000000000 + c));
    sample_set(values, "weight_norm", sample_value(c));
    for (int d = 0; d < 2; d++) {
        json_t *one = sample_losses(10 * c + d, 3 + d);
        sample_set(one, "loss_stderr", 0.01);
        json_object_set_new(one, "tokens", json_integer(1000 + c));
        json_object_set_new(one, "bytes", json_integer(5000 + c));
        json_object_set_new(datasets, d ? "c4" : "faq", one);
    }
    return r;
}

static inline void sample_layers(json_t *record, int seed)
{
    static const char *const names[] = {"layers.0.q", "layers.0.k", "layers.1.q"};
    json_t *layers = json_array();
    for (int l = 0; l < 2 + seed % 2; l++) {
        json_t *layer = json_pack("{s:s}", "name", names[l]);
        sample_set(layer, "squared_distance", sample_value(seed + l));
        if (l != 1) sample_set(layer, "relative_error", l == 0 ? INFINITY : 1e-300);
        json_array_append_new(layers, layer);
    }
    json_object_set_new(record, "layers", layers);
}

/* v: index of the plan's variant. */
static inline json_t *sample_cell(int c, int v)
{
    char key[HASH_HEX];
    results_cell_key(sample_checkpoint_keys[c], sample_variant_keys[v], key);
    json_t *r = sample_head("cell", key, c);
    json_t *datasets = json_object_get(r, "datasets");
    json_object_set_new(r, "bits", json_integer(2 + v % 2));
    json_object_set_new(r, "quantizer", json_string(sample_quantizers[v]));
    if (c == 3 || (c == 1 && v == 2)) {
        json_object_set_new(r, "layers", json_array());
        json_object_set_new(r, "status", json_string("failed"));
        if (c != 3) json_object_set_new(r, "message", json_string("layers.1.q: not finite"));
        return r;
    }
    if (c == 0 && v == 2) /* done nevertheless */
        json_object_set_new(r, "message", json_string("second_order: no room"));
    sample_layers(r, v);
    sample_set(json_object_get(r, "values"), "weight_distance", sample_value(v));
    sample_set(json_object_get(r, "values"), "seconds", 12.5);
    for (int d = 0; d < 2; d++) {
        json_t *one = sample_losses(100 * c + 10 * v + d, 3 + d);
        sample_set(one, "loss_relative", c == 1 && v == 0 ? INFINITY : 0.05 * (v + 1) / (d + 1));
        sample_set(one, "loss_relative_stderr", 0.001 * (v + 1));
        json_object_set_new(datasets, d ? "c4" : "faq", one);
    }
    return r;
}

/* c: 0, with all tables but the density, or 1: failed. */
static inline json_t *sample_curvature(int c)
{
    json_t *r = sample_head("curvature", sample_curvature_keys[c], c);
    json_t *values = json_object_get(r, "values"), *provenance = json_object_get(r, "provenance");
    json_object_del(r, "datasets");
    json_object_set_new(provenance, "subset", json_string("mat2d"));
    if (c == 1) {
        json_object_set_new(r, "tables", json_object());
        json_object_set_new(r, "status", json_string("failed"));
        json_object_set_new(r, "message", json_string("product 3 of Lanczos is not finite"));
        return r;
    }
    sample_set(values, "sharpness", -sample_value(c));
    sample_set(values, "sharpness_residual", 0.05);
    json_object_set_new(values, "sharpness_converged", json_integer(0));
    sample_set(values, "trace", 1234.5);
    sample_set(values, "trace_stderr", 56.3);
    json_object_set_new(values, "products", json_integer(28));
    json_object_set_new(r, "tables",
                        json_pack("{s:{s:[ss], s:[ii], s:[ii], s:[ff], s:[fs], s:[fs]},"
                                  " s:{s:[s], s:[i], s:[i], s:[f], s:[f]}}",
                                  "tensors", "tensor", "embed", "layers.0.q", "layer", -1, 0,
                                  "elements", 512, 64, "gradient_norm", 0.1, 0.3, "trace", 1e300,
                                  "nan", "trace_stderr", 0.5, "inf", "traces", "kind", "", "layer",
                                  0, "elements", 64, "trace", 3.25, "trace_stderr", 0.125));
    return r;
}

/* c: 1, or 2: failed. */
static inline json_t *sample_movement(int c)
{
    json_t *r = sample_head("movement", sample_movement_keys[c], c);
    json_object_del(r, "datasets");
    json_object_set_new(r, "before", json_string(sample_checkpoint_names[c - 1]));
    json_object_set_new(r, "grid", json_string("gptq"));
    if (c == 2) {
        json_object_set_new(r, "bits", json_object());
        json_object_set_new(r, "status", json_string("failed"));
        json_object_set_new(r, "message", json_string("model.safetensors: truncated"));
        return r;
    }
    sample_set(json_object_get(r, "values"), "distance", sample_value(c));
    sample_set(json_object_get(r, "values"), "relative", 0.25);
    json_object_set_new(r, "bits",
                        json_pack("{s:{s:f, s:f}, s:{s:f, s:s}}", "2", "step", 0.125, "in_steps",
                                  0.75, "3", "step", 0.0625, "in_steps", "inf"));
    json_object_set_new(r, "tables",
                        json_pack("{s:{s:[s], s:[i], s:[i], s:[i], s:[f], s:[f]},"
                                  " s:{s:[s], s:[i], s:[i], s:[f], s:[f]}}",
                                  "tensors", "tensor", "layers.0.q", "layer", 0, "elements", 64,
                                  "quantized", 1, "squared_distance", 2.25, "squared_norm", 36.0,
                                  "grids", "tensor", "layers.0.q", "layer", 0, "bits", 2, "step",
                                  0.125, "in_steps", 1.5));
    return r;
}

enum { SAMPLE_POINTS = 9 };

/* k: index of the point in the plan's surface, exact points first. */
static inline void sample_point_key(int k, char key[HASH_HEX])
{
    static const char *const exact[] = {"step200", "step100", "quantized"};
    struct results_point place = {.columns = 2, .rows = 3};
    if (k < 3)
        place.label = exact[k];
    else {
        place.i = (k - 3) % 2;
        place.j = (k - 3) / 2;
    }
    results_point_key("s-1", &place, key);
}

/* The sixth failed. */
static inline json_t *sample_point(int k)
{
    static const char *const exact[] = {"step200", "step100", "quantized"};
    char key[HASH_HEX];
    sample_point_key(k, key);
    json_t *r = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:{}, s:{s:s}}", "type", "point",
                          "key", key, "fingerprint", "ranks 1; blas x", "surface", "plane", "point",
                          k < 3 ? exact[k] : "", "status", k == 5 ? "failed" : "done", "message",
                          k == 5 ? "not finite" : "", "values", "provenance", "host", "node3");
    if (k == 5) return r;
    json_t *values = json_object_get(r, "values");
    sample_set(values, "a", sample_value(k));
    sample_set(values, "b", -sample_value(k + 1));
    sample_set(values, "loss", k == 7 ? INFINITY : sample_value(k + 2));
    sample_set(values, "share_1", NAN);
    return r;
}

/* Appends the records of a run: plan, checkpoints with their cells; the average is pending except
 * for its checkpoint record and its movement. */
static inline void sample_fill(struct journal *j)
{
    json_t *r = sample_plan();
    assert_int_equal(journal_append(j, r, NULL), OK);
    json_decref(r);
    for (int c = 0; c < SAMPLE_CHECKPOINTS; c++) {
        r = sample_checkpoint(c);
        assert_int_equal(journal_append(j, r, NULL), OK);
        json_decref(r);
        for (int v = 0; v < SAMPLE_VARIANTS && c != 2; v++) {
            if (v == 4) continue;
            r = sample_cell(c, v);
            assert_int_equal(journal_append(j, r, NULL), OK);
            json_decref(r);
        }
        if (c < 2) {
            r = sample_curvature(c);
            assert_int_equal(journal_append(j, r, NULL), OK);
            json_decref(r);
        }
        if (c == 1 || c == 2) {
            r = sample_movement(c);
            assert_int_equal(journal_append(j, r, NULL), OK);
            json_decref(r);
        }
    }
    for (int k = 0; k < SAMPLE_POINTS - 1; k++) { /* the last is pending */
        r = sample_point(k);
        assert_int_equal(journal_append(j, r, NULL), OK);
        json_decref(r);
    }
}

static inline void sample_end(struct journal *j)
{
    json_t *r = json_pack("{s:s, s:s, s:s, s:i}", "type", "end", "status", "done", "utc",
                          "2026-01-02T04:00:00Z", "exit_code", 1);
    assert_int_equal(journal_append(j, r, NULL), OK);
    json_decref(r);
}

/* A folder that the test removes with sample_remove. */
static inline char *sample_folder(void)
{
    char name[] = "/tmp/qtraj-results-XXXXXX";
    assert_non_null(mkdtemp(name));
    return strdup(name);
}

static inline void sample_remove(char *folder)
{
    char *command = NULL;
    assert_int_equal(mem_format(&command, NULL, "rm -rf '%s'", folder), OK);
    assert_int_equal(system(command), 0);
    free(command);
    free(folder);
}

/* How many files the folder holds, hidden ones included. */
static inline int sample_files(const char *folder)
{
    char *command;
    int n = -1;
    assert_int_equal(mem_format(&command, NULL, "ls -A '%s' | wc -l", folder), OK);
    FILE *f = popen(command, "r");
    assert_int_equal(fscanf(f, "%d", &n), 1);
    pclose(f);
    free(command);
    return n;
}

static inline char *sample_path(const char *folder, const char *name)
{
    char *path = NULL;
    assert_int_equal(fsx_join(folder, name, &path, NULL), OK);
    return path;
}

/* folder/name.journal with the sample in it. */
static inline struct results_view *sample_view(const char *folder, bool ended)
{
    struct journal *j = NULL;
    struct results_view *v = NULL;
    struct err e = {0};
    char *path = sample_path(folder, "sample.journal");
    assert_int_equal(journal_open(path, &j, &e), OK);
    if (journal_n(j) == 0) sample_fill(j);
    if (ended) sample_end(j);
    assert_int_equal(journal_sync(j, &e), OK);
    assert_int_equal(results_view_of_journal(j, VIEW_ALL, &v, &e), OK);
    journal_close(j);
    free(path);
    return v;
}
