/* coming: the file of a prediction beside the results, and how status prints it. */
#include "cube/coming.h"
#include "scratch.h"

static const char *write_beside(const char *text)
{
    FILE *f = fopen(scratch_path("a.h5.coming.json"), "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
    return scratch_path("a.h5");
}

static void is_printed(void **state)
{
    (void)state;
    char *text = NULL;
    size_t n;
    json_t *found = coming_read(write_beside(
        "{\"format\": \"qtraj coming 1\", \"law\": \"fit.json\", \"end\": 2e12, \"utc\": "
        "\"2026-01-02\", "
        "\"rows\": [{\"model\": \"a\", \"quantizer\": \"gptq\", \"bits\": 3.0, \"delta\": 0.125, "
        "\"low\": 0.1, \"high\": 0.2, \"delta_now\": 0.0625, \"checkpoint\": \"step5\", "
        "\"outside\": \"\"}, {\"model\": \"b\", \"quantizer\": \"gptq\", \"bits\": 4, \"delta\": "
        "0.5, \"low\": null, \"delta_now\": 0.25, \"checkpoint\": \"step6\", \"outside\": \"bits 4 "
        "(at most 3)\"}]}"));
    assert_non_null(found);
    FILE *f = open_memstream(&text, &n);
    coming_print(found, f);
    coming_print(NULL, f);
    fclose(f);
    assert_string_equal(text, "coming, nats a token at 2e+12 tokens, as fit.json says, written "
                              "2026-01-02:\n"
                              "  a, gptq at 3 bits: 0.125 (95 %: 0.1 to 0.2); 0.0625 at step5\n"
                              "  b, gptq at 4 bits: 0.5; 0.25 at step6; outside of the law's "
                              "points: bits 4 (at most 3)\n");
    free(text);
    json_decref(found);
}

static void is_none(void **state)
{
    (void)state;
    assert_null(coming_read(scratch_path("b.h5")));
    assert_null(coming_read(write_beside("{\"format\": \"other\"}")));
    assert_null(coming_read(write_beside("{\"for")));
    assert_null(coming_read(write_beside("[]")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(is_printed), cmocka_unit_test(is_none)};
    return cmocka_run_group_tests_name("coming", tests, NULL, NULL);
}
