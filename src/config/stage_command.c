/* The key `stage` of a model: the command that fetches a checkpoint, and its placeholders. */
#include "config/sweep.h"
#include "util/mem.h"
#include <stdio.h>

/* Which placeholder the text begins with; -1: none. */
static int placeholder_at(const char *text)
{
    static const char *const names[] = {"{checkpoint}", "{revision}", "{path}", "{hub}"};
    for (int i = 0; i < 4; i++)
        if (strncmp(text, names[i], strlen(names[i])) == 0) return i;
    return -1;
}

enum status stage_resolve(struct model_entry *m, const struct option_scope *scope, struct err *e)
{
    if (!m->stage) return OK;
    for (const char *p = m->stage; (p = strchr(p, '{')) != NULL; p++) {
        const int n = (int)strspn(p + 1, "abcdefghijklmnopqrstuvwxyz_");
        if (n > 0 && p[1 + n] == '}' && placeholder_at(p) < 0)
            return options_fail(scope, "stage", e,
                                "%.*s is not replaced by anything; there are {checkpoint}, "
                                "{revision}, {hub} and {path}",
                                n + 2, p);
    }
    if (!strstr(m->stage, "{path}"))
        return options_fail(scope, "stage", e,
                            "expected {path} among the arguments, the folder to fill");
    if (strstr(m->stage, "{hub}") && !m->hub)
        return options_fail(scope, "hub", e, "missing: stage names {hub}");
    if (!m->tokenizer)
        return options_fail(scope, "tokenizer", e,
                            "missing: cells are planned before stage fetches a checkpoint");
    /* A program that is named with its folder is relative to the sweep file. */
    AUTO_FREE char *path = NULL;
    char *rest = strchrnul(m->stage, '\n'), *whole = NULL;
    const char end = *rest;
    *rest = '\0';
    if (scope->source->folder && strchr(m->stage, '/'))
        PASS(option_path(m->stage, scope->source->folder, &path, e));
    *rest = end;
    if (path) PASS(mem_format(&whole, e, "%s%s", path, rest));
    if (path) free(m->stage), m->stage = whole;
    return OK;
}

enum status stage_command(const struct model_entry *m, int64_t row, const char *folder,
                          json_t **out, struct err *e)
{
    const char *name = m->rows[row].checkpoint, *values[] = {name, name, folder, m->hub};
    for (int64_t i = 0; i < m->n_columns; i++)
        if (strcmp(m->columns[i].name, "revision") == 0 && m->columns[i].values[row][0])
            values[1] = m->columns[i].values[row];
    *out = json_array();
    for (const char *p = m->stage; *p;) {
        char *argument = NULL;
        size_t size;
        FILE *f = open_memstream(&argument, &size);
        NEED(f, ERR_NOMEM, "out of memory for an argument");
        while (*p && *p != '\n') {
            const char *value = placeholder_at(p) < 0 ? NULL : values[placeholder_at(p)];
            if (value)
                fputs(value, f), p = strchr(p, '}') + 1;
            else
                fputc(*p++, f);
        }
        p += *p == '\n';
        fclose(f);
        json_array_append_new(*out, json_string(argument));
        free(argument);
    }
    return json_whole(e);
}
