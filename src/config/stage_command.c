/* The key `stage` of a model: the command that fetches a checkpoint, and its placeholders. */
#include "config/sweep.h"
#include "util/mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACEHOLDERS = 3 };
static const char *const placeholders[PLACEHOLDERS] = {"{checkpoint}", "{revision}", "{path}"};

/* The placeholder that the text begins with; -1: none. */
static int placeholder_at(const char *text)
{
    for (int i = 0; i < PLACEHOLDERS; i++)
        if (strncmp(text, placeholders[i], strlen(placeholders[i])) == 0) return i;
    return -1;
}

/* What is in braces and looks like a placeholder that there is not; "" if there is none. */
static void find_unknown(const char *text, char name[64])
{
    name[0] = '\0';
    for (const char *p = text; (p = strchr(p, '{')) != NULL; p++) {
        const size_t n = strspn(p + 1, "abcdefghijklmnopqrstuvwxyz_");
        if (n == 0 || p[1 + n] != '}' || placeholder_at(p) >= 0) continue;
        snprintf(name, 64, "%.*s", (int)n + 2, p);
        return;
    }
}

/* A program that is named with its folder is relative to the sweep file. */
static enum status place_program(struct model_entry *m, const struct option_scope *scope,
                                 struct err *e)
{
    enum status st = OK;
    char *program = NULL, *path = NULL;
    const char *rest = strchrnul(m->stage, '\n'), *slash = strchr(m->stage, '/');
    if (!scope->source->folder || !slash || slash > rest) return OK;
    TRY(mem_format(&program, e, "%.*s", (int)(rest - m->stage), m->stage));
    TRY(option_path(program, scope->source->folder, &path, e));
    free(program);
    TRY(mem_format(&program, e, "%s%s", path, rest));
    free(m->stage);
    m->stage = program;
    program = NULL;
done:
    free(program);
    free(path);
    return st;
}

enum status stage_resolve(struct model_entry *m, const struct option_scope *scope, struct err *e)
{
    char unknown[64];
    if (!m->stage) {
        if (!m->keep)
            PASS(options_fail(scope, "keep", e,
                              "false concerns what stage fetches, and this model has no stage"));
        return OK;
    }
    find_unknown(m->stage, unknown);
    if (unknown[0])
        PASS(options_fail(scope, "stage", e,
                          "%s is not replaced by anything; there are {checkpoint}, {revision} and "
                          "{path}",
                          unknown));
    if (!strstr(m->stage, "{path}"))
        PASS(
            options_fail(scope, "stage", e,
                         "expected {path} among the arguments, the folder that the command fills"));
    if (!m->tokenizer)
        PASS(options_fail(scope, "tokenizer", e,
                          "missing: cells are planned before stage fetches a checkpoint, so the "
                          "tokenizer must be on disk"));
    return place_program(m, scope, e);
}

/* The row's value of the column `revision`, if the table has one, else its name. */
static const char *revision_of(const struct model_entry *m, int64_t row)
{
    for (int64_t i = 0; i < m->n_columns; i++)
        if (strcmp(m->columns[i].name, "revision") == 0 && m->columns[i].values[row][0])
            return m->columns[i].values[row];
    return m->rows[row].checkpoint;
}

enum status stage_command(const struct model_entry *m, int64_t row, const char *folder,
                          json_t **out, struct err *e)
{
    const char *const values[PLACEHOLDERS] = {m->rows[row].checkpoint, revision_of(m, row), folder};
    *out = json_array();
    for (const char *p = m->stage; *p;) {
        char *argument = NULL;
        size_t size;
        FILE *f = open_memstream(&argument, &size);
        NEED(f, ERR_NOMEM, "out of memory for an argument");
        while (*p && *p != '\n') {
            const int i = placeholder_at(p);
            if (i < 0)
                fputc(*p++, f);
            else
                fputs(values[i], f), p += strlen(placeholders[i]);
        }
        p += *p == '\n';
        fclose(f);
        json_array_append_new(*out, json_string(argument));
        free(argument);
    }
    return json_whole(e);
}
