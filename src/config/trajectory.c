#include "config/trajectory.h"
#include "options/nearest.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct option row_columns[] = {
    OPTION(trajectory_row, checkpoint, TEXT, "name of the checkpoint, each only once",
           .required = true),
    OPTION(trajectory_row, step, INT, "optimizer steps done", .unit = "steps", .fallback = "-1",
           .otherwise = "unknown", .low = 0, .high = INT64_MAX),
    OPTION(trajectory_row, tokens, REAL, "training tokens seen", .unit = "tokens",
           .fallback = "nan", .otherwise = "unknown", .minimum = 0, .maximum = INFINITY),
    OPTION(trajectory_row, learning_rate, REAL, "learning rate at that step", .fallback = "nan",
           .otherwise = "unknown", .minimum = 0, .maximum = INFINITY),
    OPTION(trajectory_row, phase, TEXT, "part of the schedule: warmup, stable, decay, ...",
           .otherwise = "unknown"),
};
const struct option_table row_table = {OPTION_ROWS(row_columns, trajectory_row)};

enum { COLUMNS_MAX = 16, TABLE_BYTES = 16 << 20 };

struct fields {
    int64_t n;
    char *text[COLUMNS_MAX]; /* inside the line */
};

struct table {
    const char *path;
    int64_t line;                             /* from 1 */
    int64_t n_columns;                        /* 0: the header is still to come */
    const struct option *column[COLUMNS_MAX]; /* of field i */
    int64_t n, capacity;
    struct trajectory_row *rows;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* A quoted field whose opening quote is at p - 1; unescaped in place. Returns what follows the
 * closing quote, NULL if there is none. */
static char *take_quoted(char *p)
{
    char *to = p;
    for (;; p++) {
        if (!*p) return NULL;
        if (*p == '"' && *++p != '"') break;
        *to++ = *p;
    }
    /* p is at least one behind to, so that the field's end does not hit what follows. */
    *to = '\0';
    return p;
}

/* Up to the comma or the end; blanks around it are dropped. Returns where the field ended. */
static char *take_plain(char *p)
{
    char *end = p + strcspn(p, ","), *last = end;
    while (last > p && is_blank(last[-1])) last--;
    if (last < end) *last = '\0';
    return end;
}

/* Cuts a line at its commas. */
static const char *split(char *line, struct fields *f)
{
    f->n = 0;
    for (char *p = line;; p++) {
        if (f->n == COLUMNS_MAX) return "more columns than a trajectory has";
        while (is_blank(*p)) p++;
        bool quoted = *p == '"';
        f->text[f->n++] = quoted ? ++p : p;
        char *end = quoted ? take_quoted(p) : take_plain(p);
        if (!end) return "a quote that is not closed on its line";
        while (is_blank(*end)) end++;
        bool more = *end == ',';
        if (!more && *end) return "text after a closing quote";
        *end = '\0';
        if (!more) return NULL;
        p = end;
    }
}

static enum status take_header(struct table *t, const struct fields *f, struct err *e)
{
    const char *names[COLUMNS_MAX];
    bool checkpoint = false;
    for (int64_t i = 0; i < row_table.n; i++) names[i] = row_table.options[i].name;
    for (int64_t i = 0; i < f->n; i++) {
        char shown[NODE_SHOWN];
        text_show(f->text[i], shown, sizeof shown);
        size_t base;
        const struct option *o = options_find(&row_table, f->text[i], &base);
        const char *near = nearest_name(f->text[i], names, row_table.n);
        NEED(o || !near, ERR_USAGE, "%s: unknown column, did you mean %s?", shown, near);
        NEED(o, ERR_USAGE,
             "%s: unknown column; the first line names the columns, known are checkpoint, step, "
             "tokens, learning_rate, phase",
             shown);
        for (int64_t j = 0; j < i; j++)
            NEED(t->column[j] != o, ERR_USAGE, "%s: the column is there twice", shown);
        t->column[i] = o;
        checkpoint = checkpoint || o == row_table.options;
    }
    NEED(checkpoint, ERR_USAGE, "the header has no column checkpoint");
    t->n_columns = f->n;
    return OK;
}

/* A name becomes part of a path: it may descend, not climb. */
static bool climbs(const char *name)
{
    for (const char *p = name;;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.') return true;
        if (!p[n]) return false;
        p += n + 1;
    }
}

static enum status take_cell(const struct option *o, const char *text, struct trajectory_row *row,
                             struct err *e)
{
    enum status st = OK;
    struct node *node = NULL;
    struct option_source source = {.code = ERR_USAGE};
    if (!*text && !o->required) return OK;
    /* Text whatever it looks like ("null" is a fine name); spreadsheets quote numbers at will. */
    TRY(node_new_scalar(text, true, NULL, &node, e));
    node->quoted = o->type == OPTION_TEXT;
    struct option_scope scope = {NULL, o->name, 0, node, &source};
    TRY(options_read_value(o, &scope, row, e));
    ENSURE(!o->required || !climbs(text), ERR_USAGE, "%s: no .. in a checkpoint's name", o->name);
done:
    node_free(node);
    return st;
}

static enum status take_row(struct table *t, const struct fields *f, struct err *e)
{
    enum status st = OK;
    struct trajectory_row row;
    options_default(&row_table, &row);
    ENSURE(f->n == t->n_columns, ERR_USAGE, "expected %lld fields as in the header, found %lld",
           (long long)t->n_columns, (long long)f->n);
    for (int64_t i = 0; i < f->n; i++) TRY(take_cell(t->column[i], f->text[i], &row, e));
    if (!row.phase) TRY(mem_string(&row.phase, "", e));
    TRY(mem_grow(&t->rows, t->n, &t->capacity, sizeof *t->rows, e));
    row.line = t->line;
    t->rows[t->n++] = row;
    memset(&row, 0, sizeof row);
done:
    options_free(&row_table, &row);
    return st;
}

static enum status take_line(struct table *t, char *line, struct err *e)
{
    enum status st = OK;
    struct fields f = {0};
    size_t n = strlen(line);
    if (n && line[n - 1] == '\r') line[n - 1] = '\0';
    char *start = line + strspn(line, " \t");
    if (*start == '\0' || *start == '#') return OK;
    const char *fault = split(start, &f);
    ENSURE(!fault, ERR_USAGE, "%s", fault);
    TRY(t->n_columns ? take_row(t, &f, e) : take_header(t, &f, e));
done:
    if (st != OK) err_prefix(e, "%s:%lld", t->path, (long long)t->line);
    return st;
}

static int by_name(const void *a, const void *b)
{
    const struct trajectory_row *x = *(struct trajectory_row *const *)a;
    const struct trajectory_row *y = *(struct trajectory_row *const *)b;
    int order = strcmp(x->checkpoint, y->checkpoint);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

static enum status check_unique(const struct table *t, struct err *e)
{
    enum status st = OK;
    const struct trajectory_row **sorted = NULL;
    TRY(mem_zero(&sorted, t->n, sizeof *sorted, "checkpoint names", e));
    for (int64_t i = 0; i < t->n; i++) sorted[i] = &t->rows[i];
    qsort(sorted, (size_t)t->n, sizeof *sorted, by_name);
    for (int64_t i = 1; i < t->n; i++) {
        char shown[NODE_SHOWN];
        text_show(sorted[i]->checkpoint, shown, sizeof shown);
        ENSURE(strcmp(sorted[i - 1]->checkpoint, sorted[i]->checkpoint) != 0, ERR_USAGE,
               "%s:%lld: checkpoint: %s is already on line %lld", t->path,
               (long long)sorted[i]->line, shown, (long long)sorted[i - 1]->line);
    }
done:
    free(sorted);
    return st;
}

enum status trajectory_read(const char *path, struct trajectory_row **rows, int64_t *n,
                            struct err *e)
{
    enum status st = OK;
    char *text = NULL;
    size_t size = 0;
    struct table t = {.path = path};
    struct err why = {0};
    st = fsx_read(path, TABLE_BYTES, &text, &size, &why);
    ENSURE(st == OK, st == ERR_FORMAT ? ERR_USAGE : st, "%s", why.text);
    ENSURE(!memchr(text, '\0', size), ERR_USAGE, "%s: holds NUL bytes, it is no text", path);
    char *line = strncmp(text, "\xEF\xBB\xBF", 3) == 0 ? text + 3 : text;
    while (line) {
        char *end = strchr(line, '\n');
        if (end) *end++ = '\0';
        t.line++;
        TRY(take_line(&t, line, e));
        line = end;
    }
    ENSURE(t.n > 0, ERR_USAGE, "%s: this table has no checkpoints", path);
    TRY(check_unique(&t, e));
    *rows = t.rows;
    *n = t.n;
    t.rows = NULL;
    t.n = 0;
done:
    trajectory_free(t.rows, t.n);
    free(text);
    return st;
}

void trajectory_free(struct trajectory_row *rows, int64_t n)
{
    for (int64_t i = 0; i < n; i++) options_free(&row_table, &rows[i]);
    free(rows);
}
