/* Damaged and unsupported tokenizer.json files: one status, and one message that says what is
 * wrong. */
#include "tokenizer/tokenizer.h"
#include "util/clock.h"
#include "util/fsx.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

static enum status open_text(const char *text, size_t n, struct err *e)
{
    struct tokenizer *t = NULL;
    char path[] = "/tmp/qtraj_tokenizer_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, n), n);
    close(fd);
    err_clear(e);
    enum status st = tokenizer_open(path, &t, e);
    if (st != OK && !strstr(e->text, path)) fail_msg("no path in \"%s\"", e->text);
    tokenizer_close(t);
    unlink(path);
    return st;
}

static const struct {
    enum status status;
    const char *words, *text;
} rows[] = {
#define MODEL "'model':{'type':'BPE','vocab':{'a':0,'b':1,'ab':2},'merges':['a b']}"
    {OK, "", "{" MODEL "}"},
    {ERR_FORMAT, "expected an object", "[]"},
    {ERR_FORMAT, "no \"model\"", "{}"},
    {ERR_FORMAT, "\"vocab\" must be an object", "{'model':{'type':'BPE','merges':[]}}"},
    {ERR_FORMAT, "\"vocab\" must be an object", "{'model':{'vocab':['a'],'merges':[]}}"},
    {ERR_FORMAT, "\"vocab\" is empty", "{'model':{'vocab':{},'merges':[]}}"},
    {ERR_FORMAT, "id of \"a\"", "{'model':{'vocab':{'a':'0'},'merges':[]}}"},
    {ERR_FORMAT, "id of \"a\"", "{'model':{'vocab':{'a':-1},'merges':[]}}"},
    {ERR_FORMAT, "id of \"a\"", "{'model':{'vocab':{'a':99999999999},'merges':[]}}"},
    {ERR_FORMAT, "id 0 is given twice", "{'model':{'vocab':{'a':0,'b':0},'merges':[]}}"},
    {ERR_FORMAT, "duplicate object key", "{'model':{'vocab':{'a':0,'a':1},'merges':[]}}"},
    {ERR_FORMAT, "\"merges\" must be an array", "{'model':{'vocab':{'a':0}}}"},
    {ERR_FORMAT, "merge 0 names \"c\"", "{'model':{'vocab':{'a':0,'b':1},'merges':['a c']}}"},
    {ERR_FORMAT, "merge 0 makes \"ab\"", "{'model':{'vocab':{'a':0,'b':1},'merges':['a b']}}"},
    {ERR_FORMAT, "merge 0 must be two", "{'model':{'vocab':{'a':0},'merges':['a a a']}}"},
    {ERR_FORMAT, "merge 0 must be two", "{'model':{'vocab':{'a':0},'merges':['aa']}}"},
    {ERR_FORMAT, "merge 0 must be a string", "{'model':{'vocab':{'a':0},'merges':[['a']]}}"},
    {ERR_FORMAT, "merge 0 must be a string", "{'model':{'vocab':{'a':0},'merges':[7]}}"},
    {ERR_USAGE, "model WordPiece", "{'model':{'type':'WordPiece','vocab':{'a':0}}}"},
    {ERR_USAGE, "dropout", "{'model':{'dropout':0.1,'vocab':{'a':0},'merges':[]}}"},
    {ERR_USAGE, "end_of_word_suffix",
     "{'model':{'end_of_word_suffix':'x','vocab':{'a':0},'merges':[]}}"},
    {ERR_FORMAT, "unk_token \"u\"", "{'model':{'unk_token':'u','vocab':{'a':0},'merges':[]}}"},
    {ERR_FORMAT, "\"fuse_unk\"", "{'model':{'fuse_unk':1,'vocab':{'a':0},'merges':[]}}"},
    {ERR_FORMAT, "\"added_tokens\" must be an array", "{'added_tokens':{}," MODEL "}"},
    {ERR_FORMAT, "\"id\" must be an integer", "{'added_tokens':[{'content':'x'}]," MODEL "}"},
    {ERR_FORMAT, "empty content", "{'added_tokens':[{'content':'','id':3}]," MODEL "}"},
    {ERR_FORMAT, "\"a\" has id 3, but 0", "{'added_tokens':[{'content':'a','id':3}]," MODEL "}"},
    {ERR_FORMAT, "id 1 of \"x\" is taken", "{'added_tokens':[{'content':'x','id':1}]," MODEL "}"},
    {ERR_USAGE, "normalizer Lowercase", "{'normalizer':{'type':'Lowercase'}," MODEL "}"},
    {ERR_FORMAT, "normalizer: has no \"type\"", "{'normalizer':{}," MODEL "}"},
    {ERR_FORMAT, "pattern is empty",
     "{'normalizer':{'type':'Replace','pattern':{'String':''},'content':''}," MODEL "}"},
    {ERR_USAGE, "Regex pattern",
     "{'normalizer':{'type':'Replace','pattern':{'Regex':'a'},'content':''}," MODEL "}"},
    {ERR_USAGE, "pre_tokenizer Punctuation", "{'pre_tokenizer':{'type':'Punctuation'}," MODEL "}"},
    {ERR_USAGE, "Digits after ByteLevel",
     "{'pre_tokenizer':{'type':'Sequence','pretokenizers':[{'type':'ByteLevel'},{'type':'Digits'}]}"
     "," MODEL "}"},
    {ERR_FORMAT, "regular expression",
     "{'pre_tokenizer':{'type':'Split','behavior':'Isolated','pattern':{'Regex':'(a'}}," MODEL "}"},
    {ERR_FORMAT, "behavior",
     "{'pre_tokenizer':{'type':'Split','behavior':'Some','pattern':{'Regex':'a'}}," MODEL "}"},
    {ERR_FORMAT, "replacement",
     "{'pre_tokenizer':{'type':'Metaspace','replacement':''}," MODEL "}"},
    {ERR_USAGE, "post_processor BertProcessing",
     "{'post_processor':{'type':'BertProcessing'}," MODEL "}"},
    {ERR_FORMAT, "\"<s>\" is not among",
     "{'post_processor':{'type':'TemplateProcessing','single':[{'SpecialToken':{'id':'<s>'}}],"
     "'special_tokens':{}}," MODEL "}"},
    {ERR_FORMAT, "no Sequence",
     "{'post_processor':{'type':'TemplateProcessing','single':[],'special_tokens':{}}," MODEL "}"},
    {ERR_FORMAT, "integers in 0..2",
     "{'post_processor':{'type':'TemplateProcessing','single':[{'SpecialToken':{'id':'s'}}],"
     "'special_tokens':{'s':{'ids':[3]}}}," MODEL "}"},
    {ERR_USAGE, "decoder CTC", "{'decoder':{'type':'CTC'}," MODEL "}"},
    {ERR_FORMAT, "\"start\" must be an integer",
     "{'decoder':{'type':'Strip','content':' ','start':-1,'stop':0}," MODEL "}"},
    {ERR_FORMAT, "\"decoders\" must be an array", "{'decoder':{'type':'Sequence'}," MODEL "}"},
};

/* The rows use ' in place of ". */
static void each_malformed_file_gets_its_message(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err e = {0};
        char text[1000];
        size_t n = strlen(rows[i].text);
        for (size_t k = 0; k < n; k++) text[k] = rows[i].text[k] == '\'' ? '"' : rows[i].text[k];
        enum status st = open_text(text, n, &e);
        if (st != rows[i].status || !strstr(e.text, rows[i].words))
            fail_msg("%s: status %d, \"%s\"", rows[i].text, st, e.text);
    }
}

static void deep_sequences_are_refused(void **state)
{
    (void)state;
    static const char *const members[][2] = {{"normalizer", "normalizers"},
                                             {"pre_tokenizer", "pretokenizers"},
                                             {"post_processor", "processors"},
                                             {"decoder", "decoders"}};
    for (size_t i = 0; i < 4; i++) {
        struct err e = {0};
        char text[8000];
        int n = snprintf(text, sizeof text,
                         "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[]},\"%s\":", members[i][0]);
        for (int k = 0; k < 40; k++)
            n += snprintf(text + n, sizeof text - (size_t)n, "{\"type\":\"Sequence\",\"%s\":[",
                          members[i][1]);
        for (int k = 0; k < 40; k++) n += snprintf(text + n, sizeof text - (size_t)n, "]}");
        n += snprintf(text + n, sizeof text - (size_t)n, "}");
        assert_int_equal(open_text(text, (size_t)n, &e), ERR_FORMAT);
        assert_non_null(strstr(e.text, "nested too deep"));
    }
}

/* head, n times `what`, tail, written with ' in place of ". */
static void refuse_repeated(const char *head, const char *what, size_t n, const char *tail,
                            enum status want, const char *words)
{
    struct err e = {0};
    size_t one = strlen(what), room = strlen(head) + n * one + strlen(tail) + 1;
    char *text = malloc(room), *at = text;
    assert_non_null(text);
    at = stpcpy(at, head);
    for (size_t i = 0; i < n; i++) at = stpcpy(at, what);
    at = stpcpy(at, tail);
    for (char *p = text; p < at; p++)
        if (*p == '\'') *p = '"';
    double start = clock_seconds();
    enum status st = open_text(text, (size_t)(at - text), &e);
    if (st != want || !strstr(e.text, words)) fail_msg("%s: status %d, \"%s\"", head, st, e.text);
    assert_true(clock_seconds() - start < 5);
    free(text);
}

/* Short files that would expand to huge ones. */
static void files_that_expand_are_refused(void **state)
{
    (void)state;
    static const char twice[] = "{'type':'Replace','pattern':{'String':'a'},'content':'aa'}";
    static const char twice_and[] = "{'type':'Replace','pattern':{'String':'a'},'content':'aa'},";
    refuse_repeated("", "[", 100000, "", ERR_FORMAT, "maximum parsing depth");
    refuse_repeated("", "{'model':", 100000, "", ERR_FORMAT, "maximum parsing depth");
    refuse_repeated("{" MODEL ",'normalizer':{'type':'Sequence','normalizers':[", twice_and, 9,
                    "{'type':'NFC'}]}}", ERR_USAGE, "128 times as long");
    refuse_repeated("{" MODEL ",'decoder':{'type':'Sequence','decoders':[", twice_and, 9,
                    "{'type':'Fuse'}]}}", ERR_USAGE, "128 times as long");
    refuse_repeated("{" MODEL ",'normalizer':{'type':'Sequence','normalizers':[", "{'type':'NFC'},",
                    16, "{'type':'NFC'}]}}", ERR_USAGE, "more than 16 steps");
    refuse_repeated("{" MODEL ",'decoder':{'type':'Sequence','decoders':[", "{'type':'Fuse'},", 16,
                    "{'type':'Fuse'}]}}", ERR_USAGE, "more than 16 steps");
    refuse_repeated("{" MODEL ",'normalizer':{'type':'Prepend','prepend':'", "x", 100, "'}}",
                    ERR_USAGE, "101 times as long");
    refuse_repeated("{" MODEL ",'normalizer':", twice, 1, "}", OK, "");
    refuse_repeated("{" MODEL ",'post_processor':{'type':'TemplateProcessing','special_tokens':"
                    "{'s':{'ids':[0,1,0,1,0,1]}},'single':[",
                    "{'SpecialToken':{'id':'s'}},", 43, "{'Sequence':{}}]}}", ERR_USAGE,
                    "more than 256 ids");
    refuse_repeated("{'model':{'vocab':{'a':2097152},'merges':[]}}", "", 0, "", ERR_FORMAT,
                    "id of \"a\"");
    refuse_repeated("{" MODEL ",'pre_tokenizer':{'type':'Split','behavior':'Isolated','pattern':"
                    "{'Regex':'",
                    "(", 100000, "'}}}", ERR_FORMAT, "regular expression");
    refuse_repeated("{" MODEL ",'pre_tokenizer':{'type':'Split','behavior':'Isolated','pattern':"
                    "{'Regex':'(((((a{999}){999}){999}){999})",
                    "", 0, "'}}}", ERR_FORMAT, "regular expression");
}

/* A text on which the file's pattern takes exponential time. */
static void exponential_patterns_end(void **state)
{
    (void)state;
    struct err e = {0};
    struct tokenizer *t = NULL;
    char path[] = "/tmp/qtraj_tokenizer_XXXXXX", text[100];
    static const char file[] = "{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\","
                               "\"pattern\":{\"Regex\":\"(?:a|a)+$\"}},"
                               "\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}";
    int fd = mkstemp(path);
    int32_t *ids = NULL;
    int64_t n = 0;
    assert_int_equal(write(fd, file, sizeof file - 1), sizeof file - 1);
    close(fd);
    assert_int_equal(tokenizer_open(path, &t, &e), OK);
    unlink(path);
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '!';
    assert_int_equal(tokenizer_encode(t, text, sizeof text, false, &ids, &n, &e), ERR_NUMERIC);
    assert_non_null(strstr(e.text, "takes too long"));
    assert_non_null(strstr(e.text, path)); /* whose regular expression */
    assert_null(ids);
    err_clear(&e);
    assert_int_equal(tokenizer_encode(t, text, 99, false, &ids, &n, &e), OK);
    assert_int_equal(n, 99);
    free(ids);
    tokenizer_close(t);
}

/* A file truncated anywhere is refused by the parser, which says where. */
static void truncated_files_are_refused_with_the_place(void **state)
{
    (void)state;
    struct err e = {0};
    char *text;
    size_t n;
    assert_int_equal(fsx_read(FIXTURES "/tokenizers/llama2/tokenizer.json", 0, &text, &n, &e), OK);
    for (size_t cut = 0; cut + 2 < n; cut += cut < 300 ? 1 : 509) {
        assert_int_equal(open_text(text, cut, &e), ERR_FORMAT);
        assert_non_null(strstr(e.text, ":1:"));
    }
    free(text);
}

/* Any one byte changed: an error or a tokenizer that works, never a crash. */
static void a_changed_byte_never_crashes(void **state)
{
    (void)state;
    struct err e = {0};
    char *text;
    size_t n;
    int opened = 0, refused = 0;
    assert_int_equal(fsx_read(FIXTURES "/tokenizers/llama3/tokenizer.json", 0, &text, &n, &e), OK);
    for (size_t at = 0; at < n; at += at < 1500 ? 3 : 499) {
        char was = text[at];
        text[at] = (char)(was == '0' ? '7' : '0');
        if (open_text(text, n, &e) == OK)
            opened++;
        else
            refused++;
        text[at] = was;
    }
    assert_true(opened > 0 && refused > 100);
    free(text);
}

static void test_missing_file(void **state)
{
    (void)state;
    struct err e = {0};
    struct tokenizer *t = NULL;
    assert_int_equal(tokenizer_open("/no/such/tokenizer.json", &t, &e), ERR_IO);
    assert_non_null(strstr(e.text, "/no/such/tokenizer.json"));
    assert_null(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_malformed_file_gets_its_message),
        cmocka_unit_test(deep_sequences_are_refused),
        cmocka_unit_test(truncated_files_are_refused_with_the_place),
        cmocka_unit_test(a_changed_byte_never_crashes),
        cmocka_unit_test(files_that_expand_are_refused),
        cmocka_unit_test(exponential_patterns_end),
        cmocka_unit_test(test_missing_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
