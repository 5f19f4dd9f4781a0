#include "task/lines.h"
#include "eval/jsonline.h"
#include "eval/textfile.h"
#include "tokenizer/buf.h"
#include "util/fsx.h"
#include "util/mem.h"

void lines_free(struct lines *r)
{
    for (int64_t i = 0; i < r->n; i++) free(r->line[i].text);
    free(r->line);
    free(r->path);
    *r = (struct lines){0};
}

/* *path (the caller frees; NULL: there is none) = the file of that name. */
static enum status find(const char *folder, const char *name, char **path, struct err *e)
{
    static const char *const endings[] = {"", ".gz", ".zst"};
    *path = NULL;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        PASS(mem_format(path, e, "%s/%s.jsonl%s", folder, name, endings[i]));
        if (fsx_is_file(*path)) return OK;
        mem_drop(path);
    }
    return OK;
}

bool lines_exist(const char *folder, const char *name)
{
    AUTO_FREE char *path = NULL;
    return find(folder, name, &path, NULL) == OK && path;
}

static enum status add(struct lines *r, const char *line, size_t n, int64_t number, struct err *e)
{
    char *copy;
    PASS(mem_grow(&r->line, r->n, &r->capacity, sizeof *r->line, e));
    PASS(bytes_copy(&copy, line, n, r->path, e));
    r->line[r->n++] = (struct line){.text = copy, .n = n, .number = number};
    return OK;
}

enum status lines_read(const char *folder, const char *name, int64_t limit, struct lines *out,
                       struct err *e)
{
    CLEANUP(lines_free) struct lines r = {0};
    CLEANUP(textfile_close_at) struct textfile *f = NULL;
    const char *line;
    size_t n;
    int64_t number;
    PASS(find(folder, name, &r.path, e));
    NEED(r.path, ERR_IO, "%s/%s.jsonl: there is no such file, nor one with .gz or .zst behind it",
         folder, name);
    PASS(textfile_open(r.path, &f, e));
    while (limit == 0 || r.n < limit) {
        PASS(textfile_line(f, &line, &n, &number, e));
        if (!line) break;
        if (!textfile_is_blank(line, n)) PASS(add(&r, line, n, number, e));
    }
    NEED(r.n > 0, ERR_FORMAT, "%s: no rows", r.path);
    PASS(textfile_hash(f, r.hash, e));
    *out = r;
    r = (struct lines){0};
    return OK;
}

enum status line_open(const struct lines *r, int64_t i, json_t **out, struct err *e)
{
    enum status st = OK;
    int64_t replaced = 0;
    *out = NULL;
    TRY(jsonline_object(r->line[i].text, r->line[i].n, out, &replaced, e));
    ENSURE(replaced == 0, ERR_FORMAT, "not UTF-8, or \\u and half of a surrogate pair");
done:
    if (st == OK) return OK;
    json_drop(out);
    line_blame(r, i, e);
    return st;
}

void line_blame(const struct lines *r, int64_t i, struct err *e)
{
    err_prefix(e, "%s:%lld", r->path, (long long)r->line[i].number);
}
