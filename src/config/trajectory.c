#include "config/trajectory.h"
#include "options/nearest.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <ctype.h>
#include <math.h>

static const struct option row_columns[] = {
    OPTION(trajectory_row, checkpoint, TEXT, "name of the checkpoint, each only once",
           .required = true),
    OPTION(trajectory_row, step, INT, "optimizer steps done, each only once in a phase",
           .unit = "steps", .fallback = "-1", .otherwise = "unknown", .low = 0, .high = INT64_MAX),
    OPTION(trajectory_row, tokens, REAL, "training tokens seen", .unit = "tokens",
           .fallback = "nan", .otherwise = "unknown", .minimum = 0, .maximum = INFINITY),
    OPTION(trajectory_row, learning_rate, REAL, "learning rate at that step", .fallback = "nan",
           .otherwise = "unknown", .minimum = 0, .maximum = INFINITY),
    OPTION(trajectory_row, phase, TEXT, "part of the schedule: warmup, stable, decay, ...",
           .otherwise = "unknown"),
};

static void row_release(void *row)
{
    free(((struct trajectory_row *)row)->members);
}

const struct option_table row_table = {OPTION_ROWS(row_columns, trajectory_row),
                                       .release = row_release};

enum { COLUMNS_MAX = 64, TABLE_BYTES = 16 << 20 };

struct fields {
    int64_t n;
    char *text[COLUMNS_MAX]; /* inside the line */
};

struct table {
    const char *path;
    int64_t line;                             /* from 1 */
    int64_t n_columns;                        /* 0: the header is still to come */
    const struct option *column[COLUMNS_MAX]; /* of field i; NULL: one of m->columns, in order */
    int64_t capacity;
    struct model_entry *m; /* rows and columns so far */
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
        if (f->n == COLUMNS_MAX) return "more than 64 columns";
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

/* --- the header --- */

/* The known column of that name; NULL: none. */
static const struct option *known_column(const char *name)
{
    size_t base;
    return options_find(&row_table, strcmp(name, "lr") == 0 ? "learning_rate" : name, &base);
}

/* The known column that the header lacks and that the name may have been meant for; NULL: none. */
static const char *misspelt(const struct fields *header, const char *name)
{
    const char *names[16];
    int64_t n = 0;
    for (int64_t i = 0; i < row_table.n; i++) {
        bool there = false;
        for (int64_t j = 0; j < header->n; j++)
            there = there || known_column(header->text[j]) == &row_table.options[i];
        if (!there) names[n++] = row_table.options[i].name;
    }
    return nearest_name(name, names, n);
}

/* What names of netCDF variables may be, less the blanks that separate coordinates. */
static bool names_variable(const char *name)
{
    if (!isalpha((unsigned char)name[0]) && name[0] != '_') return false;
    for (const char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("_-.+@", *p)) return false;
    return true;
}

/* A column of the user's own. */
static enum status add_column(struct table *t, const struct fields *header, int64_t field,
                              struct err *e)
{
    const char *name = header->text[field], *near = misspelt(header, name);
    char shown[NODE_SHOWN];
    int64_t capacity = t->m->n_columns;
    text_show(name, shown, sizeof shown);
    NEED(!near, ERR_USAGE, "%s: unknown column, did you mean %s?", shown, near);
    NEED(
        names_variable(name), ERR_USAGE,
        "field %lld: %s: a column of your own becomes a variable of the cube: its name begins with "
        "a letter and has letters, digits and _-.+@ alone",
        (long long)field + 1, shown);
    PASS(mem_grow(&t->m->columns, t->m->n_columns, &capacity, sizeof *t->m->columns, e));
    struct trajectory_column *c = &t->m->columns[t->m->n_columns];
    *c = (struct trajectory_column){.line = t->line, .field = field + 1};
    PASS(mem_string(&c->name, name, e));
    t->m->n_columns++;
    return OK;
}

static enum status take_header(struct table *t, const struct fields *f, struct err *e)
{
    bool checkpoint = false;
    for (int64_t i = 0; i < f->n; i++)
        checkpoint = checkpoint || known_column(f->text[i]) == row_table.options;
    NEED(checkpoint, ERR_USAGE, "the header has no column checkpoint");
    for (int64_t i = 0; i < f->n; i++) {
        const struct option *o = known_column(f->text[i]);
        char shown[NODE_SHOWN];
        text_show(f->text[i], shown, sizeof shown);
        for (int64_t j = 0; j < i; j++)
            NEED(o ? t->column[j] != o : strcmp(f->text[j], f->text[i]) != 0, ERR_USAGE,
                 "%s: the column is there twice%s", shown,
                 strcmp(f->text[j], f->text[i]) != 0 ? " (lr is learning_rate)" : "");
        t->column[i] = o;
        if (!o) PASS(add_column(t, f, i, e));
    }
    t->n_columns = f->n;
    return OK;
}

/* --- rows --- */

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

/* entry: the row, or what the option's offset is of. */
static enum status take_cell(const struct option *o, const char *text, void *entry, struct err *e)
{
    CLEANUP(node_free_at) struct node *node = NULL;
    struct option_source source = {.code = ERR_USAGE};
    if (!*text && !o->required) return OK;
    /* Text whatever it looks like ("null" is a fine name); spreadsheets quote numbers at will. */
    PASS(node_new_scalar(text, true, NULL, &node, e));
    node->quoted = o->type == OPTION_TEXT;
    struct option_scope scope = {NULL, o->name, 0, node, &source};
    PASS(options_read_value(o, &scope, entry, e));
    NEED(!o->required || !climbs(text), ERR_USAGE, "%s: no .. in a checkpoint's name", o->name);
    return OK;
}

/* The next value of a column of the user's own. */
static enum status take_value(struct trajectory_column *c, const char *text, struct err *e)
{
    const struct option o = {.name = c->name, .type = OPTION_TEXT};
    AUTO_FREE char *value = NULL;
    int64_t capacity = c->n;
    if (*text) PASS(take_cell(&o, text, &value, e));
    if (!value) PASS(mem_string(&value, "", e));
    PASS(mem_grow(&c->values, c->n, &capacity, sizeof *c->values, e));
    c->values[c->n++] = TAKE(value);
    return OK;
}

static enum status take_row(struct table *t, const struct fields *f, struct err *e)
{
    enum status st = OK;
    struct trajectory_row row;
    int64_t own = 0;
    options_default(&row_table, &row);
    ENSURE(f->n == t->n_columns, ERR_USAGE, "expected %lld fields as in the header, found %lld",
           (long long)t->n_columns, (long long)f->n);
    for (int64_t i = 0; i < f->n; i++)
        if (t->column[i])
            TRY(take_cell(t->column[i], f->text[i], &row, e));
        else
            TRY(take_value(&t->m->columns[own++], f->text[i], e));
    if (!row.phase) TRY(mem_string(&row.phase, "", e));
    TRY(mem_grow(&t->m->rows, t->m->n_rows, &t->capacity, sizeof *t->m->rows, e));
    row.line = t->line;
    t->m->rows[t->m->n_rows++] = row;
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

/* ERR_USAGE: the key, of what the line says, is that of an earlier line. lines: {KEY: line}. */
static enum status note_line(const struct table *t, json_t *lines, const char *key, int64_t line,
                             const char *what, const char *behind, struct err *e)
{
    const json_t *first = json_object_get(lines, key);
    NEED(!first, ERR_USAGE, "%s:%lld: %s is already on line %lld%s", t->path, (long long)line, what,
         (long long)json_integer_value(first), behind);
    json_object_set_new(lines, key, json_integer((json_int_t)line));
    return json_whole(e);
}

/* Names, and steps in a phase: rows of one step and phase would be points at one place; branches
 * may share a step. */
static enum status check_unique(const struct table *t, struct err *e)
{
    json_auto_t *names = json_object(), *steps = json_object();
    for (const struct trajectory_row *r = t->m->rows; r < t->m->rows + t->m->n_rows; r++) {
        char shown[NODE_SHOWN], what[NODE_SHOWN + 32];
        AUTO_FREE char *place = NULL;
        text_show(r->checkpoint, shown, sizeof shown);
        snprintf(what, sizeof what, "checkpoint: %s", shown);
        PASS(note_line(t, names, r->checkpoint, r->line, what, "", e));
        if (r->step < 0) continue;
        snprintf(what, sizeof what, "step: %lld", (long long)r->step);
        PASS(mem_format(&place, e, "%lld %s", (long long)r->step, r->phase));
        PASS(note_line(t, steps, place, r->line, what, ", with the same phase", e));
    }
    return OK;
}

enum status trajectory_read(const char *path, bool empty, struct model_entry *m, struct err *e)
{
    enum status st = OK;
    char *text = NULL;
    size_t size = 0;
    struct table t = {.path = path, .m = m};
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
    m->n_stored = m->n_rows;
    ENSURE(m->n_rows > 0 || empty, ERR_USAGE, "%s: this table has no checkpoints", path);
    TRY(check_unique(&t, e));
done:
    if (st != OK) trajectory_free(m);
    free(text);
    return st;
}

void trajectory_cut(struct model_entry *m, int64_t n)
{
    for (int64_t i = 0; i < m->n_columns; i++)
        while (m->columns[i].n > n) free(m->columns[i].values[--m->columns[i].n]);
    while (m->n_rows > n) options_free(&row_table, &m->rows[--m->n_rows]);
    m->n_stored = n;
}

void trajectory_free(struct model_entry *m)
{
    for (int64_t i = 0; i < m->n_columns; i++) {
        for (int64_t j = 0; j < m->columns[i].n; j++) free(m->columns[i].values[j]);
        free(m->columns[i].values);
        free(m->columns[i].name);
    }
    for (int64_t i = 0; i < m->n_rows; i++) options_free(&row_table, &m->rows[i]);
    free(m->columns);
    free(m->rows);
    m->columns = NULL;
    m->rows = NULL;
    m->n_columns = m->n_rows = m->n_stored = 0;
}

bool trajectory_number(const char *text, double *value)
{
    char *end;
    if (!*text || text[strspn(text, "+-.0123456789eE")]) return false;
    *value = strtod(text, &end);
    return *end == '\0' && isfinite(*value);
}
