#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/pattern.h"
#include "tokenizer/buf.h"
#include "util/mem.h"
#include <pcre2.h>

struct pattern {
    pcre2_code *code;
};

struct pattern_work {
    pcre2_match_data *match;
    pcre2_match_context *limits;
};

/* Limits of one search: backtracking steps, and steps per byte of text, and the same for memory.
 * The patterns of published tokenizers take at most one step back per byte; exponential ones double
 * their steps with each byte. */
enum { STEPS = 200000, STEPS_BYTE = 8, HEAP_KIB = 20 << 10, HEAP_BYTES_BYTE = 512 };

/* Oniguruma's \s is White_Space, its \w letters, marks, decimal digits and connectors; PCRE2's
 * differ in U+180E and in most of \w. Inside a class only the members are written, without
 * brackets. */
static const struct shorthand {
    char letter;
    bool negated;
    const char *members;
} shorthands[] = {
    {'s', false, "\\x09-\\x0d\\x{85}\\p{Z}"},
    {'S', true, "\\x09-\\x0d\\x{85}\\p{Z}"},
    {'w', false, "\\p{L}\\p{M}\\p{Nd}\\p{Pc}"},
    {'W', true, "\\p{L}\\p{M}\\p{Nd}\\p{Pc}"},
};

/* Rewrites a backslash and the letter after it, inside or outside of a class. */
static enum status add_escape(struct buf *out, const char *at, bool in_class, struct err *e)
{
    const struct shorthand *s = NULL;
    for (size_t i = 0; i < sizeof shorthands / sizeof *shorthands; i++)
        if (shorthands[i].letter == at[1]) s = &shorthands[i];
    NEED(!strchr("hHbBCGRXKkgyYO", at[1]) || !at[1], ERR_USAGE,
         "regular expression: \\%c is not supported", at[1]);
    if (!s) return buf_add(out, at, 2, e);
    NEED(!in_class || !s->negated, ERR_USAGE,
         "regular expression: \\%c in a class is not supported", at[1]);
    if (in_class) return buf_add(out, s->members, strlen(s->members), e);
    PASS(buf_add(out, s->negated ? "[^" : "[", s->negated ? 2 : 1, e));
    PASS(buf_add(out, s->members, strlen(s->members), e));
    return buf_add(out, "]", 1, e);
}

/* "(?i)" inside a pattern applies to the following alternatives in Ruby, but not in Perl; Ruby's
 * option m is Perl's s. */
static enum status check_group(const char *at, bool first, struct err *e)
{
    NEED(at[1] != '*', ERR_USAGE, "regular expression: (* is not supported");
    if (at[1] != '?') return OK;
    size_t flags = strspn(at + 2, "imx-");
    NEED(!memchr(at + 2, 'm', flags), ERR_USAGE, "regular expression: option m is not supported");
    NEED(first || !flags || at[2 + flags] != ')', ERR_USAGE,
         "regular expression: (?%.*s) is only supported at the start", (int)flags, at + 2);
    return OK;
}

/* After {n,m}, + and ? repeat the whole again in Ruby, but are possessive and lazy in Perl; {,m} is
 * an interval in Ruby only. */
static enum status check_interval(const char *at, bool escape, struct err *e)
{
    size_t n = strspn(at + 1, "0123456789,");
    if (escape || n == 0 || at[1 + n] != '}') return OK; /* \x{41}, or no interval */
    NEED(at[1] != ',' && at[2 + n] != '+' && at[2 + n] != '?', ERR_USAGE,
         "regular expression: %.*s is not supported", (int)n + 3, at);
    return OK;
}

/* Rewrites Oniguruma's syntax (Ruby's) to PCRE2's, and refuses what the two read differently. A NUL
 * follows the text. */
static enum status rewrite(struct buf *out, const char *text, size_t n, struct err *e)
{
    bool in_class = false, escape = false; /* escape: after a backslash and its letter */
    size_t class_start = 0;
    for (size_t i = 0; i < n; i++) {
        const char *at = text + i;
        if (*at == '\\') {
            NEED(i + 1 < n, ERR_FORMAT, "regular expression: ends with a backslash");
            PASS(add_escape(out, at, in_class, e));
            escape = at[1] == 'x' || at[1] == 'o';
            i++;
            continue;
        }
        if (in_class) {
            NEED(*at != '[' && strncmp(at, "&&", 2) != 0, ERR_USAGE,
                 "regular expression: nested classes and && are not supported");
            in_class = *at != ']' || i == class_start;
        } else if (*at == '[') {
            in_class = true;
            class_start = i + 1 + (at[1] == '^');
        } else if (*at == '(') {
            PASS(check_group(at, i == 0, e));
        } else if (*at == '{') {
            PASS(check_interval(at, escape, e));
        }
        escape = false;
        PASS(buf_add(out, at, 1, e));
    }
    return OK;
}

CLEANUP_BY_VALUE(pcre2_compile_context, pcre2_compile_context_free)

enum status pattern_compile(const char *text, size_t n, bool literal, struct pattern **out,
                            struct err *e)
{
    CLEANUP(buf_free) struct buf source = {0};
    CLEANUP(pattern_free_at) struct pattern *p = NULL;
    int code;
    PCRE2_SIZE at;
    /* Ruby's ^ and $ always match at lines. */
    uint32_t options = PCRE2_UTF | (literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE);
    CLEANUP(pcre2_compile_context_free_at)
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    NEED(context, ERR_NOMEM, "cannot allocate a regular expression");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    PASS(mem_zero(&p, 1, sizeof *p, "regular expression", e));
    PASS(buf_reserve(&source, n, e));
    PASS(literal ? buf_add(&source, text, n, e) : rewrite(&source, text, n, e));
    p->code = pcre2_compile((PCRE2_SPTR)source.data, source.n, options, &code, &at, context);
    NEED(p->code || code != PCRE2_ERROR_HEAP_FAILED, ERR_NOMEM,
         "cannot allocate a regular expression");
    if (!p->code) {
        PCRE2_UCHAR reason[128];
        pcre2_get_error_message(code, reason, sizeof reason);
        RAISE(ERR_FORMAT, "regular expression: %s, at byte %zu of %.120s", (char *)reason, at,
              source.data);
    }
    pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE); /* where it fails, the interpreter matches */
    *out = TAKE(p);
    return OK;
}

void pattern_free(struct pattern *p)
{
    if (!p) return;
    pcre2_code_free(p->code);
    free(p);
}

enum status pattern_work_new(struct pattern_work **out, struct err *e)
{
    CLEANUP(pattern_work_free_at) struct pattern_work *w = NULL;
    PASS(mem_zero(&w, 1, sizeof *w, "match data", e));
    w->match = pcre2_match_data_create(1, NULL); /* the whole match only: no groups are read */
    w->limits = pcre2_match_context_create(NULL);
    NEED(w->match && w->limits, ERR_NOMEM, "cannot allocate match data");
    pcre2_set_depth_limit(w->limits, UINT32_MAX); /* the heap's limit takes its place */
    *out = TAKE(w);
    return OK;
}

void pattern_work_free(struct pattern_work *w)
{
    if (!w) return;
    pcre2_match_data_free(w->match);
    pcre2_match_context_free(w->limits);
    free(w);
}

enum status pattern_find(const struct pattern *p, struct pattern_work *w, const char *s, size_t n,
                         size_t from, int64_t *start, int64_t *end, struct err *e)
{
    PCRE2_SPTR subject = (PCRE2_SPTR)s;
    const size_t bytes = n - from, heap = HEAP_KIB + bytes / 1024 * HEAP_BYTES_BYTE;
    const size_t steps =
        bytes < UINT32_MAX / STEPS_BYTE - STEPS ? STEPS + STEPS_BYTE * bytes : UINT32_MAX;
    pcre2_set_match_limit(w->limits, (uint32_t)steps);
    pcre2_set_heap_limit(w->limits, heap < UINT32_MAX ? (uint32_t)heap : UINT32_MAX);
    int rc = pcre2_match(p->code, subject, n, from, PCRE2_NO_UTF_CHECK, w->match, w->limits);
    /* The interpreter keeps its state on the heap, where the JIT's small stack ran out. */
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(p->code, subject, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, w->match,
                         w->limits);
    *start = *end = -1;
    if (rc == PCRE2_ERROR_NOMATCH) return OK;
    NEED(rc >= 0, rc == PCRE2_ERROR_NOMEMORY ? ERR_NOMEM : ERR_NUMERIC,
         "the tokenizer's regular expression takes too long, or too much memory, at byte %zu of "
         "%zu (PCRE2 error %d)",
         from, n, rc);
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(w->match);
    *start = (int64_t)span[0];
    *end = (int64_t)span[1];
    return OK;
}
