/* The texts that qtraj init writes. */
#include "cli/init_internal.h"
#include "config/sweep.h"
#include "eval/doubts.h"
#include "model/positions.h"
#include "model/sizes.h"
#include "util/fsx.h"
#include "util/json.h"
#include "util/mem.h"
#include "util/quantity.h"
#include <math.h>
#include <stdio.h>

static enum status add_number(double value, char **text, struct err *e)
{
    AUTO_FREE char *written = NULL;
    if (isnan(value)) return mem_append(text, e, ",");
    json_t *number = json_number_new(value);
    if (number) written = json_write_text(number, JSON_ENCODE_ANY);
    json_decref(number);
    NEED(written, ERR_NOMEM, "out of memory");
    return mem_append(text, e, ",%s", written);
}

/* Appends the row of a trajectory table: name, step, tokens, rate and an empty phase. */
static enum status checkpoint_row(const struct init_checkpoint *f, char **text, struct err *e)
{
    const bool quote = f->name[strcspn(f->name, ",\" #\t")];
    if (quote) PASS(mem_append(text, e, "\""));
    for (const char *p = f->name; *p; p++)
        PASS(mem_append(text, e, quote && *p == '"' ? "\"\"" : "%c", *p));
    if (quote) PASS(mem_append(text, e, "\""));
    if (f->step < 0)
        PASS(mem_append(text, e, ","));
    else
        PASS(mem_append(text, e, ",%lld", (long long)f->step));
    PASS(add_number(f->tokens, text, e));
    PASS(add_number(f->learning_rate, text, e));
    return mem_append(text, e, ",\n");
}

/* *out (the caller frees) = ", field: NAME" for a text of JSON lines: `text`, or else the first
 * field whose value is a string; "" for a plain one. */
static enum status field_of(char *text, char **out, struct err *e)
{
    const struct data_options data = {.text = text};
    json_auto_t *object = NULL;
    json_t *value;
    const char *key, *field = "text";
    AUTO_FREE char *path = NULL, *quoted = NULL;
    PASS(json_of_text(&data, &object, &path, e));
    if (!object) return mem_string(out, "", e);
    json_t *name = json_object_get(object, "text");
    if (!json_is_string(name)) name = NULL;
    json_object_foreach(object, key, value)
        if (!name && json_is_string(value)) {
            name = value;
            field = key;
        }
    name = json_string(field);
    if (name && strcmp(field, "text") != 0) quoted = json_write_text(name, JSON_ENCODE_ANY);
    json_decref(name);
    return mem_format(out, e, ", field: %s", quoted ? quoted : "text");
}

int64_t init_swept(const struct run_folder *r)
{
    return r->own ? r->rows : r->n;
}

/* As the sweep file names the path, in quotes: relative to its folder if it is in there. */
static enum status named(const struct init *o, const char *path, const char *rest, char **out,
                         struct err *e)
{
    const size_t n = strlen(o->folder);
    const bool inside = strncmp(path, o->folder, n) == 0 && path[n] == '/';
    char *whole = NULL;
    PASS(mem_format(&whole, e, "%s%s", inside ? path + n + 1 : path, rest));
    json_t *text = json_string(whole);
    free(whole);
    NEED(text, ERR_USAGE, "%s: its name is no UTF-8", path);
    *out = json_write_text(text, JSON_ENCODE_ANY);
    json_decref(text);
    NEED(*out, ERR_NOMEM, "out of memory");
    return OK;
}

enum status init_table_text(const struct run_folder *r, char **text, struct err *e)
{
    PASS(mem_append(text, e,
                    "# Checkpoints of %s in the order of training, by qtraj init. Steps are from "
                    "trainer_state.json or the names, rates\n# from trainer_state.json or "
                    "scheduler.pt. phase: warmup, stable, decay, ... What is unknown stays empty.\n"
                    "checkpoint,step,tokens,learning_rate,phase\n",
                    r->name));
    for (int64_t i = 0; i < r->n; i++) PASS(checkpoint_row(&r->checkpoints[i], text, e));
    return OK;
}

/* The family and size of the last checkpoint, for people. */
static enum status model_text(const struct run_folder *r, char **text, struct err *e)
{
    AUTO_FREE char *path = NULL;
    char parameters[QUANTITY];
    json_auto_t *config = NULL;
    AUTO_FREE struct model_sizes *sizes = NULL;
    PASS(mem_zero(&sizes, 1, sizeof *sizes, "sizes of a model", e));
    PASS(mem_format(&path, e, "%s/%s/config.json", r->path, r->checkpoints[r->n - 1].name));
    PASS(json_read_file(path, 0, &config, e));
    PASS(model_sizes_read(config, path, sizes, e));
    quantity_count((double)sizes->shape.parameters, parameters);
    return mem_append(text, e, "  # %lld checkpoint%s of %s, %s parameters, %lld positions\n",
                      (long long)init_swept(r), quantity_plural(init_swept(r)),
                      arch_name(sizes->spec.arch), parameters, (long long)positions_usable(config));
}

/* *out = the tokenizer that the sweep file must name (NULL: each checkpoint has one), in quotes. */
static enum status tokenizer_text(const struct init *o, const struct run_folder *r, char **out,
                                  struct err *e)
{
    const char *any = o->tokenizer_path;
    bool all = !any;
    for (int64_t i = 0; i < r->n; i++) {
        const char *own = r->checkpoints[i].tokenizer;
        all = all && own;
        if (own && !any) any = own;
    }
    if (all) return OK;
    NEED(any, ERR_USAGE, "%s: no tokenizer.json in its checkpoints; name one with --tokenizer",
         r->path);
    return named(o, any, "", out, e);
}

static const struct run_folder *parent_of(const struct init *o, const struct run_folder *r)
{
    for (const struct run_folder *p = o->runs; r->parent && p < o->runs + o->n; p++)
        if (strcmp(p->name, r->parent) == 0) return p;
    return NULL;
}

static enum status run_text(const struct init *o, const struct run_folder *r, char **text,
                            struct err *e)
{
    AUTO_FREE char *name = NULL, *path = NULL, *table = NULL, *tokenizer = NULL, *parent = NULL;
    PASS(model_text(r, text, e));
    PASS(named(o, r->name, "", &name, e));
    PASS(named(o, r->path, "/{checkpoint}", &path, e));
    PASS(named(o, r->own ? r->table : strrchr(r->table, '/') + 1, "", &table, e));
    PASS(tokenizer_text(o, r, &tokenizer, e));
    PASS(mem_append(text, e, "  - name: %s\n    trajectory: %s%s\n    path: %s\n", name, table,
                    r->own ? "" : " # add what is known there", path));
    if (parent_of(o, r)) {
        PASS(named(o, r->parent, "", &parent, e));
        PASS(mem_append(text, e, "    branch_of: %s\n", parent));
    }
    if (tokenizer) PASS(mem_append(text, e, "    tokenizer: %s\n", tokenizer));
    return OK;
}

/* *out (the caller frees) = the keys that say where text i is. */
static enum status source_text(const struct init *o, int64_t i, char **out, struct err *e)
{
    AUTO_FREE char *path = NULL, *field = NULL;
    PASS(field_of(o->text_paths.text[i], &field, e));
    PASS(named(o, o->text_paths.text[i], "", &path, e));
    return mem_format(out, e, "text: %s%s", path, field);
}

/* Appends text i as an entry of the evaluation; several are named as their files. */
static enum status evaluation_text(const struct init *o, int64_t i, char **text, struct err *e)
{
    AUTO_FREE char *source = NULL, *file = NULL, *name = NULL;
    PASS(mem_string(&file, o->text_paths.n > 1 ? strrchr(o->text_paths.text[i], '/') + 1 : "text",
                    e));
    file[1 + strcspn(file + 1, ".")] = '\0';
    PASS(named(o, file, "", &name, e));
    PASS(source_text(o, i, &source, e));
    return mem_append(text, e, "  - {name: %s, %s, length: auto, samples: 64}\n", name, source);
}

enum status init_sweep_text(const struct init *o, char **text, struct err *e)
{
    AUTO_FREE char *name = NULL, *results = NULL, *source = NULL;
    PASS(named(o, o->stem, "", &name, e));
    PASS(named(o, o->stem, ".h5", &results, e));
    PASS(mem_append(text, e,
                    "# By qtraj init. docs/sweep-file.md explains all keys, `qtraj options` lists "
                    "them. Paths are relative to this file.\nname: %s\nresults: %s\nmodels:\n",
                    name, results));
    for (int64_t i = 0; i < o->n; i++) PASS(run_text(o, &o->runs[i], text, e));
    PASS(mem_append(text, e,
                    "bits: [3, 4]\nmethods:\n"
                    "  - {method: rtn, group_size: 128} # round to nearest, without calibration\n"
                    "  # - {method: gptq, group_size: 128} # needs `calibration`\n"
                    "# what the loss is measured on; samples: sequences, at most\n"
                    "evaluation:\n"));
    for (int64_t i = 0; i < o->text_paths.n; i++) PASS(evaluation_text(o, i, text, e));
    PASS(source_text(o, 0, &source, e));
    return mem_append(
        text, e,
        "# the sequences behind those of the evaluation\n"
        "# calibration: {%s, skip: 64, samples: 128}\n"
        "# curvature: {sharpness: lanczos, trace: 8, sequences: 4}\n"
        "# movement: rtn # distance of the weights from those of the checkpoint before\n",
        source);
}

enum status init_print_missing(const struct init *o, struct err *e)
{
    AUTO_FREE char *text = NULL;
    CLEANUP(sweep_free) struct sweep s = {0};
    const bool read = sweep_read(o->out, NULL, 0, &s, NULL) == OK;
    for (const struct run_folder *r = o->runs; read && r < o->runs + o->n; r++) {
        bool there = !r->own;
        for (int64_t i = 0; i < s.n_models; i++)
            there = there || fsx_same(s.models[i].trajectory, r->table);
        if (!there) PASS(run_text(o, r, &text, e));
    }
    if (text) printf("%s lacks these models:\n%s", o->out, text);
    return OK;
}
