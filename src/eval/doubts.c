#include "eval/doubts.h"
#include "eval/dataset.h"
#include "eval/jsonline.h"
#include "eval/textfile.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/quantity.h"
#include <stdio.h>

bool doubt_of_length(const char *data, const struct sequences *s, int64_t first, int64_t end,
                     int64_t positions, char *text, size_t size)
{
    int64_t longest = 0, n = 0;
    for (int64_t i = first; i < end; i++) {
        const int64_t length = s->offset[i + 1] - s->offset[i];
        longest = max64(longest, length);
        n += length > positions;
    }
    if (positions < 1 || n == 0) return false;
    snprintf(text, size,
             "%s: %lld of %lld sequences are longer than the model's %lld positions, up to "
             "%lld tokens: predictions beyond position %lld mean little; length: %lld (or auto) "
             "cuts them",
             data, (long long)n, (long long)(end - first), (long long)positions, (long long)longest,
             (long long)positions, (long long)positions);
    return true;
}

bool doubt_of_number(const char *data, const struct data_options *d, int64_t n, char *text,
                     size_t size)
{
    if (n >= d->samples || d->tokens) return false; /* which may be what cuts them */
    snprintf(
        text, size,
        "%s: %lld sequence%s, where samples: %lld asks for more than the text gives: give more "
        "text, or a lower length",
        data, (long long)n, quantity_plural(n), (long long)d->samples);
    return true;
}

void warn_of_length(const char *model, const char *data, const struct sequences *s, int64_t first,
                    int64_t end, int64_t positions)
{
    char text[400];
    if (doubt_of_length(data, s, first, end, positions, text, sizeof text))
        log_warn("%s: %s", model, text);
}

/* --- JSON lines that are read as plain text --- */

/* *object (a new reference) = the first line that is not blank; NULL: it is no JSON object. */
static enum status first_object(const char *path, json_t **object, struct err *e)
{
    CLEANUP(textfile_close_at) struct textfile *f = NULL;
    const char *line;
    size_t n;
    int64_t number, replaced;
    PASS(textfile_open(path, &f, e));
    do PASS(textfile_line(f, &line, &n, &number, e));
    while (line && textfile_is_blank(line, n));
    if (line && line[0] == '{') PASS(jsonline_object(line, n, object, &replaced, e));
    return OK;
}

enum status json_of_text(const struct data_options *d, json_t **object, char **path, struct err *e)
{
    CLEANUP(texts_free) struct texts files = {0};
    struct err why = {0};
    *object = NULL;
    *path = NULL;
    const enum status st = dataset_files(d, &files, &why);
    NEED(st != ERR_NOMEM, ERR_NOMEM, "%s", why.text);
    for (int64_t i = 0; st == OK && !*object && i < files.n; i++)
        if (first_object(files.text[i], object, NULL) == OK && *object)
            PASS(mem_string(path, files.text[i], e));
    return OK;
}

void warn_of_json(const struct data_options *d, json_t *said)
{
    json_auto_t *object = NULL;
    AUTO_FREE char *path = NULL;
    char fields[JSON_KEYS];
    if (!d->text || d->field || json_object_get(said, d->text)) return;
    json_object_set_new(said, d->text, json_true());
    (void)!json_of_text(d, &object, &path, NULL);
    if (!object) return;
    json_keys(object, fields);
    log_warn("%s: its lines are JSON objects, and are read as plain text; `field: NAME` takes the "
             "text (its fields: %s)",
             path, fields);
}
