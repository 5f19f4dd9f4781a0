#include "util/json.h"
#include "util/fsx.h"
#include "util/hash.h"
#include "util/mem.h"
#include <math.h>
#include <stdatomic.h>

static atomic_int_fast64_t failures;

static void *allocate(size_t n)
{
    void *p = malloc(n);
    if (!p) failures++;
    return p;
}

void json_setup(void)
{
    json_set_alloc_funcs(allocate, free);
}

int64_t json_failures(void)
{
    return failures;
}

enum status json_whole(struct err *e)
{
    NEED(failures == 0, ERR_NOMEM, "out of memory for JSON");
    return OK;
}

static enum status parse(const char *name, const char *text, size_t n, size_t flags, json_t **out,
                         struct err *e)
{
    json_error_t error;
    const int64_t before = failures;
    json_t *value = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | flags, &error);
    NEED(value || failures == before, ERR_NOMEM, "%s: out of memory for %zu bytes of JSON", name,
         n);
    NEED(value, ERR_FORMAT, "%s:%d:%d: %s", name, error.line, error.column, error.text);
    *out = value;
    return OK;
}

enum status json_read_text(const char *name, const char *text, size_t n, json_t **out,
                           struct err *e)
{
    return parse(name, text, n, 0, out, e);
}

enum status json_read_as(const char *path, size_t max_bytes, size_t flags, char *hash, json_t **out,
                         struct err *e)
{
    AUTO_FREE char *text = NULL;
    size_t n;
    PASS(fsx_read(path, max_bytes, &text, &n, e));
    if (hash) hash_bytes(text, n, hash);
    return parse(path, text, n, flags, out, e);
}

enum status json_read_file(const char *path, size_t max_bytes, json_t **out, struct err *e)
{
    return json_read_as(path, max_bytes, 0, NULL, out, e);
}

/* The place behind the string that begins at text[at]. */
static size_t string_end(const char *text, size_t n, size_t at)
{
    for (at++; at < n && text[at] != '"'; at++) at += text[at] == '\\';
    return at < n ? at + 1 : n;
}

/* Writes the fewest digits that read back as the same double to `out`, which has room for what
 * json_dumps writes: 17 digits, in the same notation. */
static size_t write_shortest(double value, char *out)
{
    char text[48];
    int digits = 0, n;
    do n = snprintf(text, sizeof text, "%.*e", digits, value);
    while (strtod(text, NULL) != value && ++digits < 17);
    const char *e = strchr(text, 'e');
    const int exponent = atoi(e + 1), decimals = digits - exponent;
    if (exponent >= -4 && exponent < 17)
        n = snprintf(text, sizeof text, "%.*f", decimals > 1 ? decimals : 1, value);
    else /* without the plus and the zeros of the exponent */
        n = (int)(e - text) + sprintf(text + (e - text), "e%d", exponent);
    memcpy(out, text, (size_t)n);
    return (size_t)n;
}

char *json_dump_whole(const json_t *value, size_t flags)
{
    const int64_t before = failures;
    char *text = json_dumps(value, flags);
    if (failures == before) return text;
    free(text);
    return NULL;
}

char *json_write_text(const json_t *value, size_t flags)
{
    char *text = json_dump_whole(value, flags);
    const size_t n = text ? strlen(text) : 0;
    size_t kept = 0;
    for (size_t at = 0; at < n;) {
        const bool number = text[at] == '-' || (text[at] >= '0' && text[at] <= '9');
        size_t end = text[at] == '"' ? string_end(text, n, at) : at + 1;
        if (number) end = at + strspn(text + at, "+-.0123456789eE");
        if (number && at + strcspn(text + at, ".eE") < end) {
            kept += write_shortest(strtod(text + at, NULL), text + kept);
        } else {
            memmove(text + kept, text + at, end - at);
            kept += end - at;
        }
        at = end;
    }
    if (text) text[kept] = '\0';
    return text;
}

enum status json_write_file(const char *path, const json_t *value, size_t flags, struct err *e)
{
    AUTO_FREE char *text = value ? json_write_text(value, flags) : NULL;
    NEED(text, ERR_NOMEM, "out of memory for %s", path);
    return fsx_write_atomic(path, text, strlen(text), e);
}

/* The place behind the value that begins at text[at]. */
static size_t value_end(const char *text, size_t n, size_t at)
{
    int64_t depth = 0;
    while (at < n) {
        const char c = text[at];
        if (depth == 0 && (c == ',' || c == '}' || c == ']')) return at;
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        at = c == '"' ? string_end(text, n, at) : at + 1;
    }
    return n;
}

static bool is_one_of(const char *name, size_t n, const char *const *names)
{
    for (; *names; names++)
        if (**names == *name && strncmp(*names, name, n) == 0 && (*names)[n] == '\0') return true;
    return false;
}

size_t json_cut_members(char *text, size_t n, const char *const *names)
{
    size_t kept = 0;
    for (size_t at = 0; at < n;) {
        const char *quote = memchr(text + at, '"', n - at);
        const size_t between = (quote ? (size_t)(quote - text) : n) - at;
        memmove(text + kept, text + at, between);
        kept += between;
        at += between;
        if (at == n) break;
        const size_t end = string_end(text, n, at);
        if (end < n && text[end] == ':' && is_one_of(text + at + 1, end - at - 2, names)) {
            at = value_end(text, n, end + 1);
            if (at < n && text[at] == ',')
                at++;
            else if (kept && text[kept - 1] == ',')
                kept--;
            continue;
        }
        memmove(text + kept, text + at, end - at);
        kept += end - at;
        at = end;
    }
    return kept;
}

json_t *json_number_new(double value)
{
    if (isnan(value)) return json_string("nan");
    if (isinf(value)) return json_string(value > 0 ? "inf" : "-inf");
    return json_real(value);
}

double json_number_get(const json_t *value)
{
    if (json_is_number(value)) return json_number_value(value);
    const char *text = json_string_value(value);
    if (text && strcmp(text, "inf") == 0) return INFINITY;
    if (text && strcmp(text, "-inf") == 0) return -INFINITY;
    return NAN;
}

json_t *json_numbers_new(const double *values, int64_t n)
{
    json_t *array = json_array();
    for (int64_t i = 0; array && i < n; i++)
        if (json_array_append_new(array, json_number_new(values[i])) != 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

const char *json_text(const json_t *object, const char *key, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : otherwise;
}

void json_keys(const json_t *object, char text[JSON_KEYS])
{
    const char *key;
    json_t *value;
    size_t n = 0;
    text[0] = '\0';
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        if (n + strlen(key) + 8 > JSON_KEYS) {
            snprintf(text + n, JSON_KEYS - n, "%s...", n ? ", " : "");
            return;
        }
        n += (size_t)snprintf(text + n, JSON_KEYS - n, "%s%s", n ? ", " : "", key);
    }
}
