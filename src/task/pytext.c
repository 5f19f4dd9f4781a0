#include "task/pytext.h"
#include "tokenizer/utf8.h"
#include <string.h>
#include <utf8proc.h>

/* Python counts the separators U+001C to U+001F as white space, Unicode does not. */
static bool is_space(int32_t code)
{
    return (code >= 0x1c && code <= 0x1f) || utf8_is_space(code);
}

struct text pytext_lstrip(struct text t)
{
    while (t.n > 0 && is_space(utf8_get(t.at))) {
        const size_t step = (size_t)utf8_length(t.at[0]);
        t.at += step;
        t.n -= step;
    }
    return t;
}

struct text pytext_rstrip(struct text t)
{
    while (t.n > 0) {
        const size_t step = (size_t)utf8_last_length(t.at, t.n);
        if (!is_space(utf8_get(t.at + t.n - step))) break;
        t.n -= step;
    }
    return t;
}

struct text pytext_strip(struct text t)
{
    return pytext_lstrip(pytext_rstrip(t));
}

int64_t pytext_length(struct text t)
{
    int64_t n = 0;
    for (size_t i = 0; i < t.n; i++) n += ((unsigned char)t.at[i] & 0xc0) != 0x80;
    return n;
}

/* Characters whose title case is several (Unicode's SpecialCasing.txt). */
static const struct {
    int32_t code;
    const char *title;
} titles[] = {
    {0xdf, "Ss"},
    {0x149, "\u02bcN"},
    {0x1f0, "J\u030c"},
    {0x390, "\u0399\u0308\u0301"},
    {0x3b0, "\u03a5\u0308\u0301"},
    {0x587, "\u0535\u0582"},
    {0x1e96, "H\u0331"},
    {0x1e97, "T\u0308"},
    {0x1e98, "W\u030a"},
    {0x1e99, "Y\u030a"},
    {0x1e9a, "A\u02be"},
    {0x1f50, "\u03a5\u0313"},
    {0x1f52, "\u03a5\u0313\u0300"},
    {0x1f54, "\u03a5\u0313\u0301"},
    {0x1f56, "\u03a5\u0313\u0342"},
    {0x1fb2, "\u1fba\u0345"},
    {0x1fb4, "\u0386\u0345"},
    {0x1fb6, "\u0391\u0342"},
    {0x1fb7, "\u0391\u0342\u0345"},
    {0x1fc2, "\u1fca\u0345"},
    {0x1fc4, "\u0389\u0345"},
    {0x1fc6, "\u0397\u0342"},
    {0x1fc7, "\u0397\u0342\u0345"},
    {0x1fd2, "\u0399\u0308\u0300"},
    {0x1fd3, "\u0399\u0308\u0301"},
    {0x1fd6, "\u0399\u0342"},
    {0x1fd7, "\u0399\u0308\u0342"},
    {0x1fe2, "\u03a5\u0308\u0300"},
    {0x1fe3, "\u03a5\u0308\u0301"},
    {0x1fe4, "\u03a1\u0313"},
    {0x1fe6, "\u03a5\u0342"},
    {0x1fe7, "\u03a5\u0308\u0342"},
    {0x1ff2, "\u1ffa\u0345"},
    {0x1ff4, "\u038f\u0345"},
    {0x1ff6, "\u03a9\u0342"},
    {0x1ff7, "\u03a9\u0342\u0345"},
    {0xfb00, "Ff"},
    {0xfb01, "Fi"},
    {0xfb02, "Fl"},
    {0xfb03, "Ffi"},
    {0xfb04, "Ffl"},
    {0xfb05, "St"},
    {0xfb06, "St"},
    {0xfb13, "\u0544\u0576"},
    {0xfb14, "\u0544\u0565"},
    {0xfb15, "\u0544\u056b"},
    {0xfb16, "\u054e\u0576"},
    {0xfb17, "\u0544\u056d"},
};

static enum status add_code(int32_t code, struct buf *out, struct err *e)
{
    char bytes[4];
    return buf_add(out, bytes, (size_t)utf8_put(code, bytes), e);
}

static enum status add_title(int32_t code, struct buf *out, struct err *e)
{
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (titles[i].code == code)
            return buf_add(out, titles[i].title, strlen(titles[i].title), e);
    return add_code(utf8proc_totitle(code), out, e);
}

/* Letters in one of the three cases, and the numerals and enclosed letters that count as such. */
static bool is_cased(int32_t code)
{
    if (code == 0xaa || code == 0xba || (code >= 0x2160 && code <= 0x217f) ||
        (code >= 0x24b6 && code <= 0x24e9))
        return true;
    utf8proc_category_t c = utf8proc_category(code);
    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT;
}

/* Unicode's property Case_Ignorable. */
static bool is_ignorable(int32_t code)
{
    static const int32_t others[] = {'\'',   '.',    ':',    0xb7,   0x387,  0x55f,
                                     0x5f4,  0x2018, 0x2019, 0x2024, 0x2027, 0xfe13,
                                     0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a};
    utf8proc_category_t c = utf8proc_category(code);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (code == others[i]) return true;
    return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_ME || c == UTF8PROC_CATEGORY_CF ||
           c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_SK;
}

/* Whether the capital sigma at byte i ends a word, and so becomes a final one. */
static bool ends_word(struct text t, size_t i)
{
    size_t before = i, after = i + (size_t)utf8_length(t.at[i]);
    bool follows = false;
    while (before > 0 && !follows) {
        before -= (size_t)utf8_last_length(t.at, before);
        if (!is_ignorable(utf8_get(t.at + before))) {
            follows = is_cased(utf8_get(t.at + before));
            break;
        }
    }
    while (after < t.n && is_ignorable(utf8_get(t.at + after)))
        after += (size_t)utf8_length(t.at[after]);
    return follows && (after >= t.n || !is_cased(utf8_get(t.at + after)));
}

enum status pytext_capitalize(struct text t, struct buf *out, struct err *e)
{
    enum { CAPITAL_SIGMA = 0x3a3, FINAL_SIGMA = 0x3c2, DOTTED_I = 0x130 };
    for (size_t i = 0; i < t.n; i += (size_t)utf8_length(t.at[i])) {
        const int32_t code = utf8_get(t.at + i);
        if (i == 0)
            PASS(add_title(code, out, e));
        else if (code == CAPITAL_SIGMA && ends_word(t, i))
            PASS(add_code(FINAL_SIGMA, out, e));
        else if (code == DOTTED_I)
            PASS(buf_add(out, "i\xcc\x87", 3, e)); /* i and a combining dot */
        else
            PASS(add_code(utf8proc_tolower(code), out, e));
    }
    return OK;
}
