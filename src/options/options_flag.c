/* Command line flags of a table. */
#include "options/options.h"
#include "util/mem.h"

static bool has_flag(const struct option *o)
{
    return !o->file_only && o->type != OPTION_GROUP && !option_is_keys(o) &&
           o->type != OPTION_LIST && o->type != OPTION_INTS && o->type != OPTION_REALS;
}

void option_flag_name(const char *prefix, const char *key, char name[OPTION_FLAG])
{
    snprintf(name, OPTION_FLAG, "--%s%s", prefix, key);
    for (char *p = name; *p; p++)
        if (*p == '_') *p = '-';
}

/* The flag of a key, and that which makes a bool false; "": there is none. */
static void flags_of(const struct option *o, const char *prefix, char flag[OPTION_FLAG],
                     char opposite[OPTION_FLAG])
{
    char key[OPTION_NAME];
    flag[0] = opposite[0] = '\0';
    snprintf(key, sizeof key, "%s%s", o->unset ? "" : "no-", o->unset ? o->unset : o->name);
    if (has_flag(o)) option_flag_name(prefix, o->name, flag);
    if (o->type == OPTION_BOOL) option_flag_name(prefix, key, opposite);
}

/* Whether the n bytes of an argument are the flag. */
static bool is_flag(const char *arg, size_t n, const char *flag)
{
    return strlen(flag) == n && strncmp(arg, flag, n) == 0;
}

static const struct option *find_flag(const struct option_table *t, const char *prefix,
                                      const char *arg, size_t n, bool *unset, size_t *base)
{
    *base = 0;
    for (int64_t i = 0; i < t->n; i++) {
        const struct option *o = &t->options[i];
        char flag[OPTION_FLAG], opposite[OPTION_FLAG];
        if (option_is_keys(o)) {
            const struct option *inner = find_flag(o->table, prefix, arg, n, unset, base);
            if (!inner) continue;
            *base += o->offset;
            return inner;
        }
        flags_of(o, prefix, flag, opposite);
        *unset = is_flag(arg, n, opposite);
        if (*unset || is_flag(arg, n, flag)) return o;
    }
    return NULL;
}

static enum status set_value(const struct option *o, const char *flag, const char *text,
                             void *entry, struct err *e)
{
    CLEANUP(node_free_at) struct node *node = NULL;
    /* The shell has expanded what it expands; "null" is a fine file name. */
    struct option_source source = {.code = ERR_USAGE};
    PASS(node_new_scalar(text, option_is_text(o), NULL, &node, e));
    struct option_scope scope = {NULL, flag, 0, node, &source};
    return options_read_value(o, &scope, entry, e);
}

enum status options_flag(const struct option_table *t, const char *prefix, void *entry, int argc,
                         char **argv, int *used, struct err *e)
{
    AUTO_FREE char *flag = NULL;
    *used = 0;
    if (argc < 1) return OK;
    size_t n = strcspn(argv[0], "=");
    const char *value = argv[0][n] ? argv[0] + n + 1 : NULL;
    bool unset = false;
    size_t base;
    const struct option *o = find_flag(t, prefix, argv[0], n, &unset, &base);
    if (!o) return OK;
    entry = (char *)entry + base;
    PASS(mem_format(&flag, e, "%.*s", (int)n, argv[0]));
    char expected[OPTION_EXPECTED];
    option_expected(o, expected);
    if (o->type == OPTION_BOOL) {
        NEED(!value, ERR_USAGE, "%s takes no value", flag);
        PASS(set_value(o, flag, unset ? "false" : "true", entry, e));
        *used = 1;
    } else {
        NEED(value || argc > 1, ERR_USAGE, "%s: expected %s after it", flag, expected);
        PASS(set_value(o, flag, value ? value : argv[1], entry, e));
        *used = value ? 1 : 2;
    }
    return OK;
}

bool options_has_flag(const struct option_table *t, const char *prefix, const char *arg)
{
    bool unset;
    size_t base;
    return find_flag(t, prefix, arg, strcspn(arg, "="), &unset, &base);
}

enum status options_flag_check(const struct option_table *t, const char *prefix, const void *entry,
                               const char *arg, struct err *e)
{
    const size_t n = strcspn(arg, "=");
    char name[OPTION_WITH], word[OPTION_WITH], flag[OPTION_FLAG];
    bool unset;
    size_t base;
    const struct option *o = find_flag(t, prefix, arg, n, &unset, &base);
    if (!o || option_has_effect(t, o, entry, name, word)) return OK;
    option_flag_name(prefix, name, flag);
    RAISE(ERR_USAGE, "%.*s has no effect here: it goes with %s%s%s", (int)n, arg, flag,
          *word ? " " : "", word);
}

void options_list_flags(const struct option_table *t, const char *prefix,
                        void (*take)(void *context, const struct option *o, const char *flag,
                                     const char *opposite),
                        void *context)
{
    for (int64_t i = 0; i < t->n; i++) {
        const struct option *o = &t->options[i];
        char flag[OPTION_FLAG], opposite[OPTION_FLAG];
        if (option_is_keys(o)) options_list_flags(o->table, prefix, take, context);
        flags_of(o, prefix, flag, opposite);
        if (flag[0]) take(context, o, flag, opposite[0] ? opposite : NULL);
    }
}
