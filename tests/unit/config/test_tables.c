/* The options engine: flags, names, messages, and the tables themselves. */
#include "config/sweep.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int flag(struct quant_options *q, const char *a, const char *b, struct err *e)
{
    char one[64], two[64];
    char *argv[] = {one, two, NULL};
    int used = -1;
    snprintf(one, sizeof one, "%s", a);
    if (b) snprintf(two, sizeof two, "%s", b);
    err_clear(e);
    enum status st = options_flag(&quant_table, "", q, b ? 2 : 1, argv, &used, e);
    return st == OK ? used : -1;
}

static void flags_set_quantizer_options(void **state)
{
    (void)state;
    struct quant_options q;
    struct err e = {0};
    options_default(&quant_table, &q);
    assert_int_equal(flag(&q, "--group-size", "64", &e), 2);
    assert_int_equal(q.group_size, 64);
    assert_int_equal(flag(&q, "--group-size", "-1", &e), 2);
    assert_int_equal(q.group_size, -1);
    assert_int_equal(flag(&q, "--group-size=32", "7", &e), 1);
    assert_int_equal(q.group_size, 32);
    assert_int_equal(flag(&q, "--asymmetric", "x", &e), 1);
    assert_false(q.symmetric);
    assert_int_equal(flag(&q, "--symmetric", NULL, &e), 1);
    assert_true(q.symmetric);
    assert_int_equal(flag(&q, "--no-true-sequential", NULL, &e), 1);
    assert_false(q.true_sequential);
    assert_int_equal(flag(&q, "--static-groups", NULL, &e), 1);
    assert_true(q.static_groups);
    assert_int_equal(flag(&q, "--order=activation", NULL, &e), 1);
    assert_int_equal(q.order, ORDER_ACTIVATION);
    assert_int_equal(flag(&q, "--damping", "1e-3", &e), 2);
    assert_true(q.damping == 1e-3);
    /* not of this table */
    assert_int_equal(flag(&q, "--bits", "3", &e), 0);
    assert_int_equal(flag(&q, "--group_size", "3", &e), 0);
    assert_int_equal(flag(&q, "--no-symmetric", NULL, &e), 0);
    assert_int_equal(flag(&q, "group-size", "3", &e), 0);
    assert_int_equal(flag(&q, "--", NULL, &e), 0);
}

static void bad_flags_are_refused(void **state)
{
    (void)state;
    struct quant_options q;
    struct err e = {0};
    options_default(&quant_table, &q);
    assert_int_equal(flag(&q, "--group-size", NULL, &e), -1);
    assert_string_equal(e.text, "--group-size: expected an integer >= 1 or -1 after it");
    assert_int_equal(flag(&q, "--group-size", "x", &e), -1);
    assert_string_equal(e.text, "--group-size: expected an integer >= 1 or -1, found x");
    assert_int_equal(flag(&q, "--group-size=", NULL, &e), -1);
    assert_string_equal(e.text, "--group-size: expected an integer >= 1 or -1, found nothing");
    assert_int_equal(flag(&q, "--order", "activ", &e), -1);
    assert_non_null(
        strstr(e.text, "--order: expected one of none, activation, group, found activ"));
    assert_int_equal(flag(&q, "--symmetric=true", NULL, &e), -1);
    assert_string_equal(e.text, "--symmetric takes no value");
    assert_int_equal(flag(&q, "--damping", "nan", &e), -1);
    assert_int_equal(e.code, ERR_USAGE);
    assert_int_equal(q.group_size, 128);
}

static void take(struct data_options *d, const char *prefix, const char *text)
{
    char one[128];
    char *argv[] = {one, NULL};
    int used = 0;
    struct err e = {0};
    snprintf(one, sizeof one, "%s", text);
    assert_int_equal(options_flag(&data_table, prefix, d, 1, argv, &used, &e), OK);
    assert_int_equal(used, 1);
}

static void flags_set_data_options(void **state)
{
    (void)state;
    struct data_options d;
    struct err e = {0};
    options_default(&data_table, &d);
    assert_int_equal(data_options_finish(&d, "calibration-", &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "--calibration-text: text or ids is missing"));
    take(&d, "calibration-", "--calibration-text=first.txt");
    take(&d, "calibration-", "--calibration-text=${HOME}/null"); /* not expanded in flags */
    take(&d, "calibration-", "--calibration-length=64");
    assert_string_equal(d.text, "${HOME}/null");
    err_clear(&e);
    assert_int_equal(data_options_finish(&d, "calibration-", &e), OK);
    assert_string_equal(d.name, "null");
    take(&d, "", "--special-tokens");
    take(&d, "", "--layout=document");
    take(&d, "", "--length=none");
    take(&d, "", "--min-length=11");
    take(&d, "", "--documents=1024");
    assert_int_equal(data_options_finish(&d, "", &e), OK);
    assert_true(d.special_tokens && d.layout == LAYOUT_DOCUMENT);
    assert_int_equal(d.length, 0);
    assert_int_equal(d.min_length, 11);
    assert_int_equal(d.documents, 1024);
    take(&d, "", "--separator=eos");
    assert_int_equal(options_flag_check(&data_table, "", &d, "--separator=eos", &e), ERR_USAGE);
    assert_string_equal(e.text, "--separator has no effect here: it goes with --layout packed");
    take(&d, "", "--layout=packed");
    err_clear(&e);
    assert_int_equal(data_options_finish(&d, "", &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "--length: none is for layout: document"));
    take(&d, "", "--length=64");
    err_clear(&e);
    assert_int_equal(data_options_finish(&d, "", &e), OK);
    take(&d, "", "--ids=a.safetensors:x");
    assert_int_equal(data_options_finish(&d, "", &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "--ids: text and ids are both given"));
    options_free(&data_table, &d);
    assert_null(d.text);
}

static void print_flag(void *context, const struct option *o, const char *flag,
                       const char *opposite)
{
    fprintf(context, "%s %s%s%s\n", o->name, flag, opposite ? " " : "", opposite ? opposite : "");
}

static void test_flags_there_are(void **state)
{
    (void)state;
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    options_list_flags(&quant_table, "", print_flag, out);
    options_list_flags(&data_table, "calibration-", print_flag, out);
    fclose(out);
    static const char *const expected[] = {
        "group_size --group-size\n", "symmetric --symmetric --asymmetric\n",
        "true_sequential --true-sequential --no-true-sequential", "ids --calibration-ids\n"};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        if (!strstr(text, expected[i])) fail_msg("no %s in\n%s", expected[i], text);
    assert_null(strstr(text, "preset")); /* of files alone */
    free(text);
}

static void check_table(const struct option_table *t)
{
    assert_in_range(t->n, 1, 64);
    for (int64_t i = 0; i < t->n; i++) {
        const struct option *o = &t->options[i];
        if (option_is_keys(o)) {
            if (o->table->n > 0) check_table(o->table);
            continue;
        }
        assert_true(o->name && o->doc && o->offset < t->size);
        for (int64_t j = 0; j < i; j++)
            if (t->options[j].name) assert_string_not_equal(o->name, t->options[j].name);
        bool whole = option_is_text(o) || o->type == OPTION_INTS || o->type == OPTION_REALS ||
                     o->type == OPTION_LIST;
        /* options_default allocates nothing, so these have no default text; the others need one */
        assert_true(whole ? o->fallback == NULL : o->fallback || o->type == OPTION_GROUP);
        assert_true((o->type == OPTION_GROUP || o->type == OPTION_LIST) == (o->table != NULL));
        assert_true((o->type == OPTION_CHOICE) == (o->choices != NULL));
        if (o->type == OPTION_INT || whole) assert_true(o->low <= o->high);
        if (o->type == OPTION_REAL || o->type == OPTION_REALS) assert_true(o->minimum < o->maximum);
        if (o->table) check_table(o->table);
    }
}

static void every_table_is_consistent(void **state)
{
    (void)state;
    check_table(&sweep_table);
    check_table(&row_table);
    check_table(&quant_table);
    /* An entry of `methods` takes every quantizer option. */
    const char *key;
    int64_t n = 0;
    for (; (key = quant_options_key(n)) != NULL; n++) {
        size_t base;
        const struct option *o = options_find(&method_table, key, &base);
        assert_non_null(o);
        assert_string_equal(o->name, key);
        for (int64_t j = 0; j < n; j++) assert_string_not_equal(key, quant_options_key(j));
    }
    assert_true(n >= 13);
    assert_null(quant_options_key(-1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_set_quantizer_options), cmocka_unit_test(bad_flags_are_refused),
        cmocka_unit_test(flags_set_data_options),      cmocka_unit_test(test_flags_there_are),
        cmocka_unit_test(every_table_is_consistent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
