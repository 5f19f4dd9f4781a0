#include "tokenizer/pretok.h"
#include "tokenizer/component.h"
#include "tokenizer/utf8.h"
#include "util/mem.h"

enum behavior { ISOLATED, REMOVED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS };
enum scheme { NEVER, FIRST, ALWAYS };

static const char *const behaviors[] = {"Isolated", "Removed", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
static const char *const schemes[] = {"never", "first", "always"};

struct pretok_step {
    struct pattern *pattern; /* of a split; NULL: a Metaspace */
    enum behavior behavior;
    bool invert;         /* what lies between the matches counts as matched */
    char replacement[5]; /* of a Metaspace: stands for a space */
    size_t n_replacement;
    enum scheme scheme; /* which pieces get one in front */
};

/* The regular expression of GPT-2's tokenizer (openai/gpt-2, encoder.py). */
static const char gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static enum status find_name(const char *const *names, int n, const char *name, const char *where,
                             int *found, struct err *e)
{
    for (*found = 0; *found < n; ++*found)
        if (strcmp(names[*found], name) == 0) return OK;
    RAISE(ERR_FORMAT, "pre_tokenizer %s: unknown \"%.40s\"", where, name);
}

static enum status add_step(struct pretok *p, struct pretok_step s, struct err *e)
{
    NEED(p->n < PRETOK_MAX_STEPS, ERR_USAGE, "pre_tokenizer: more than %d steps", PRETOK_MAX_STEPS);
    PASS(mem_grow(&p->step, p->n, &p->cap, sizeof *p->step, e));
    p->step[p->n++] = s;
    return OK;
}

static enum status add_split(struct pretok *p, const char *text, size_t n, bool regex,
                             enum behavior behavior, bool invert, struct err *e)
{
    PASS(add_step(p, (struct pretok_step){.behavior = behavior, .invert = invert}, e));
    return pattern_compile(text, n, !regex, &p->step[p->n - 1].pattern, e);
}

static enum status read_split(struct pretok *p, const json_t *o, struct err *e)
{
    const char *text, *name;
    size_t n, n_name;
    bool regex, invert;
    int behavior;
    PASS(component_pattern(o, "pre_tokenizer Split", &text, &n, &regex, e));
    PASS(component_text(o, "pre_tokenizer Split", "behavior", &name, &n_name, e));
    PASS(find_name(behaviors, 5, name, "Split: behavior", &behavior, e));
    PASS(component_bool(o, "pre_tokenizer Split", "invert", false, &invert, e));
    return add_split(p, text, n, regex, (enum behavior)behavior, invert, e);
}

static enum status read_digits(struct pretok *p, const json_t *o, struct err *e)
{
    bool individual;
    PASS(component_bool(o, "pre_tokenizer Digits", "individual_digits", false, &individual, e));
    return add_split(p, "\\p{N}", 5, true, individual ? ISOLATED : CONTIGUOUS, false, e);
}

static enum status read_byte_level(struct pretok *p, const json_t *o, struct err *e)
{
    bool space, regex;
    PASS(component_bool(o, "pre_tokenizer ByteLevel", "add_prefix_space", true, &space, e));
    PASS(component_bool(o, "pre_tokenizer ByteLevel", "use_regex", true, &regex, e));
    if (space) /* in front of every piece without one */
        PASS(add_step(
            p, (struct pretok_step){.replacement = " ", .n_replacement = 1, .scheme = ALWAYS}, e));
    if (regex) PASS(add_split(p, gpt2_pattern, strlen(gpt2_pattern), true, ISOLATED, false, e));
    p->byte_level = true;
    return OK;
}

/* Older files have add_prefix_space instead of prepend_scheme. */
static enum status read_metaspace(struct pretok *p, const json_t *o, struct err *e)
{
    struct pretok_step s = {0};
    const char *text, *name = json_text(o, "prepend_scheme", NULL);
    bool prefix, split;
    int scheme;
    PASS(component_bool(o, "pre_tokenizer Metaspace", "add_prefix_space", true, &prefix, e));
    PASS(component_bool(o, "pre_tokenizer Metaspace", "split", true, &split, e));
    PASS(component_character(o, "pre_tokenizer Metaspace", "replacement", &text, &s.n_replacement,
                             e));
    if (!name) name = prefix ? "always" : "never";
    PASS(find_name(schemes, 3, name, "Metaspace: prepend_scheme", &scheme, e));
    s.scheme = (enum scheme)scheme;
    memcpy(s.replacement, text, s.n_replacement);
    PASS(add_step(p, s, e));
    if (split) PASS(add_split(p, text, s.n_replacement, false, MERGED_WITH_NEXT, false, e));
    return OK;
}

static enum status check_order(const void *out, const char *type, struct err *e)
{
    const struct pretok *p = out;
    NEED(!p->byte_level, ERR_USAGE, "pre_tokenizer: %s after ByteLevel is not supported", type);
    return OK;
}

static enum status read_any(void *out, int type, const json_t *o, struct err *e)
{
    static enum status (*const readers[])(struct pretok *, const json_t *, struct err *) = {
        read_split, read_digits, read_byte_level, read_metaspace};
    return readers[type](out, o, e);
}

enum status pretok_read(struct pretok *p, const json_t *value, struct err *e)
{
    static const char *const types[] = {"Split", "Digits", "ByteLevel", "Metaspace", NULL};
    static const struct component component = {.where = "pre_tokenizer",
                                               .list = "pretokenizers",
                                               .types = types,
                                               .check = check_order,
                                               .read = read_any};
    return component_read(&component, value, p, e);
}

void pretok_free(struct pretok *p)
{
    for (int64_t i = 0; i < p->n; i++) pattern_free(p->step[i].pattern);
    free(p->step);
}

void pretok_run_free(struct pretok_run *run)
{
    for (int i = 0; i < PRETOK_MAX_STEPS; i++) buf_free(&run->text[i]);
}

/* Where a step's pieces go: to the next step, or out as words. */
struct piece_sink {
    const struct pretok *p;
    struct pretok_run *run;
    int64_t next; /* step that takes the pieces */
    const char *s;
    bool at_start;
    /* The piece that a merging behaviour may still make longer. */
    bool pending, pending_matched;
    size_t from, to;
};

static enum status cut_from(const struct pretok *p, struct pretok_run *run, int64_t i,
                            const char *s, size_t n, bool at_start, struct err *e);

static enum status send(struct piece_sink *k, size_t from, size_t to, struct err *e)
{
    if (from == to) return OK;
    return cut_from(k->p, k->run, k->next, k->s + from, to - from, k->at_start && from == 0, e);
}

/* Whether the behaviour joins this part to the pending piece. */
static bool joins(const struct piece_sink *k, enum behavior behavior, bool matched)
{
    if (!k->pending) return false;
    if (behavior == MERGED_WITH_PREVIOUS) return matched && !k->pending_matched;
    if (behavior == MERGED_WITH_NEXT) return !matched && k->pending_matched;
    return matched == k->pending_matched; /* CONTIGUOUS */
}

/* One match, or one part between matches. */
static enum status take_part(struct piece_sink *k, const struct pretok_step *step, size_t from,
                             size_t to, bool matched, struct err *e)
{
    matched ^= step->invert;
    if (step->behavior == ISOLATED) return send(k, from, to, e);
    if (step->behavior == REMOVED) return matched ? OK : send(k, from, to, e);
    if (joins(k, step->behavior, matched)) {
        k->to = to;
        k->pending_matched = matched;
        return OK;
    }
    if (k->pending) PASS(send(k, k->from, k->to, e));
    k->pending = true;
    k->pending_matched = matched;
    k->from = from;
    k->to = to;
    return OK;
}

/* Goes through the matches. An empty match right after the last one does not count (Oniguruma's
 * find_iter): the search continues one character later. */
static enum status split(struct piece_sink *k, const struct pretok_step *step, size_t n,
                         struct err *e)
{
    size_t done_to = 0, from = 0;
    int64_t start, end, last_end = -1;
    while (from <= n) {
        PASS(pattern_find(step->pattern, k->run->work, k->s, n, from, &start, &end, e));
        if (start < 0) break;
        if (start == end && end == last_end) {
            from = (size_t)end < n ? (size_t)end + (size_t)utf8_length(k->s[end]) : n + 1;
            continue;
        }
        if ((size_t)start > done_to) PASS(take_part(k, step, done_to, (size_t)start, false, e));
        PASS(take_part(k, step, (size_t)start, (size_t)end, true, e));
        done_to = from = (size_t)end;
        last_end = end;
        if (from == n && start < end) break; /* only an empty match could follow */
    }
    if (done_to < n) PASS(take_part(k, step, done_to, n, false, e));
    if (k->pending) PASS(send(k, k->from, k->to, e));
    return OK;
}

static enum status metaspace(const struct pretok_step *step, struct buf *out, const char *s,
                             size_t n, bool at_start, struct err *e)
{
    const char *r = step->replacement;
    size_t n_r = step->n_replacement;
    bool has = s[0] == ' ' || (n >= n_r && memcmp(s, r, n_r) == 0);
    out->n = 0;
    if (!has && (step->scheme == ALWAYS || (step->scheme == FIRST && at_start)))
        PASS(buf_add(out, r, n_r, e));
    return buf_add_replaced(out, s, n, " ", 1, r, n_r, e);
}

static enum status cut_from(const struct pretok *p, struct pretok_run *run, int64_t i,
                            const char *s, size_t n, bool at_start, struct err *e)
{
    if (i == p->n) return run->word(run->context, s, n, e);
    const struct pretok_step *step = &p->step[i];
    struct buf *own = &run->text[i];
    if (step->pattern) {
        struct piece_sink k = {.p = p, .run = run, .next = i + 1, .s = s, .at_start = at_start};
        return split(&k, step, n, e);
    }
    PASS(metaspace(step, own, s, n, at_start, e));
    return cut_from(p, run, i + 1, own->data, own->n, at_start, e);
}

enum status pretok_cut(const struct pretok *p, struct pretok_run *run, const char *s, size_t n,
                       bool at_start, struct err *e)
{
    return n ? cut_from(p, run, 0, s, n, at_start, e) : OK;
}
