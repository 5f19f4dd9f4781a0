/* Trajectory tables: CSV in the forms that people write, and one clear line for each error. */
#include "config/trajectory.h"
#include "scratch.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct loaded {
    enum status st;
    struct model_entry m;
    struct err e;
};

static struct loaded load_bytes(const char *text, size_t n)
{
    struct loaded l = {0};
    char path[] = "/tmp/qtraj_csv_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *out = fdopen(fd, "w");
    assert_int_equal(fwrite(text, 1, n, out), n);
    fclose(out);
    l.st = trajectory_read(path, false, &l.m, &l.e);
    remove(path);
    return l;
}

static struct loaded load(const char *text)
{
    struct loaded l = load_bytes(text, strlen(text));
    if (l.st != OK) print_error("%s\n", l.e.text);
    assert_int_equal(l.st, OK);
    return l;
}

static void columns_come_in_any_order(void **state)
{
    (void)state;
    struct loaded l = load("learning_rate,phase,checkpoint,tokens,step\n"
                           "1e-4,decay,b,2.5e12,200\n"
                           ",,a,,\n");
    assert_int_equal(l.m.n_rows, 2);
    assert_string_equal(l.m.rows[0].checkpoint, "b");
    assert_int_equal(l.m.rows[0].step, 200);
    assert_true(l.m.rows[0].tokens == 2.5e12);
    assert_true(l.m.rows[0].learning_rate == 1e-4);
    assert_string_equal(l.m.rows[0].phase, "decay");
    assert_string_equal(l.m.rows[1].checkpoint, "a"); /* the file's order is preserved */
    assert_int_equal(l.m.rows[1].step, -1);
    assert_true(isnan(l.m.rows[1].tokens) && isnan(l.m.rows[1].learning_rate));
    assert_string_equal(l.m.rows[1].phase, "");
    trajectory_free(&l.m);
}

static void quotes_blanks_and_remarks_are_read(void **state)
{
    (void)state;
    struct loaded l = load("\xEF\xBB\xBF# made by hand\r\n\r\n"
                           "checkpoint , step ,\"phase\"\r\n"
                           "  # a remark\r\n"
                           " a/b , 1 ,\"x, \"\"y\"\"\" \r\n"
                           "\"null\",\"2\",\"\"\r\n"
                           "   \r\n"
                           "..c,3,null"); /* no newline at the end */
    assert_int_equal(l.m.n_rows, 3);
    assert_string_equal(l.m.rows[0].checkpoint, "a/b");
    assert_int_equal(l.m.rows[0].step, 1);
    assert_string_equal(l.m.rows[0].phase, "x, \"y\"");
    assert_string_equal(l.m.rows[1].checkpoint, "null");
    assert_int_equal(l.m.rows[1].step, 2);
    assert_string_equal(l.m.rows[1].phase, "");
    assert_string_equal(l.m.rows[2].checkpoint, "..c");
    assert_string_equal(l.m.rows[2].phase, "null");
    trajectory_free(&l.m);
}

#define COMMAS_16 ",,,,,,,,,,,,,,,,"

/* lr is learning_rate; other columns are kept as they are written. */
static void other_columns_are_kept(void **state)
{
    (void)state;
    struct loaded l = load("batch_size,lr,note,checkpoint,val.loss\n"
                           "512,1e-4,\"a, b\",x,\n"
                           ",,,y,2.5\n");
    assert_int_equal(l.m.n_rows, 2);
    assert_true(l.m.rows[0].learning_rate == 1e-4);
    assert_int_equal(l.m.n_columns, 3);
    static const char *const names[] = {"batch_size", "note", "val.loss"};
    static const char *const values[][2] = {{"512", ""}, {"a, b", ""}, {"", "2.5"}};
    static const int64_t fields[] = {1, 3, 5};
    for (int64_t i = 0; i < l.m.n_columns; i++) {
        const struct trajectory_column *c = &l.m.columns[i];
        assert_string_equal(c->name, names[i]);
        assert_int_equal(c->field, fields[i]);
        assert_int_equal(c->line, 1);
        assert_int_equal(c->n, 2);
        for (int64_t j = 0; j < c->n; j++) assert_string_equal(c->values[j], values[i][j]);
    }
    trajectory_free(&l.m);
    /* A misspelt column is an error only where the right one is missing. */
    l = load("checkpoint,step,stop\na,1,2\n");
    assert_int_equal(l.m.n_columns, 1);
    trajectory_free(&l.m);
}

static void only_finite_decimals_are_numbers(void **state)
{
    (void)state;
    static const char *const numbers[] = {"0", "-1.5", "2e-4", "+3", ".5", "1e300"};
    static const char *const others[] = {"", "a", "1a", "nan", "inf", "0x10", "1e999", "1 2", "-"};
    double value;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        assert_true(trajectory_number(numbers[i], &value));
        assert_true(value == strtod(numbers[i], NULL));
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(trajectory_number(others[i], &value));
}

struct bad_table {
    const char *text, *expected;
};

static void bad_tables_are_refused(void **state)
{
    (void)state;
    static const struct bad_table bad[] = {
        {"", ": this table has no checkpoints"},
        {"# nothing\n", ": this table has no checkpoints"},
        {"checkpoint,step\n", ": this table has no checkpoints"},
        {"step,tokens\n1,2\n", ":1: the header has no column checkpoint"},
        {"a,100\nb,200\n", ":1: the header has no column checkpoint"},
        {"checkpoint,lr,learning_rate\n", ":1: learning_rate: the column is there twice (lr is "
                                          "learning_rate)"},
        {"checkpoint,batch,batch\n", ":1: batch: the column is there twice"},
        {"checkpoint,batch size\n", ":1: field 2: batch size: a column of your own becomes a "
                                    "variable"},
        {"checkpoint,2nd\n", ":1: field 2: 2nd: a column of your own becomes"},
        {"checkpoint,a/b\n", ":1: field 2: a/b: a column of your own becomes"},
        {"checkpoint,note\na,\xff\xfe\n", ":2: note: expected a text of one line, found text that "
                                          "is not UTF-8"},
        {"\ncheckpoint,lerning_rate\n", ":2: lerning_rate: unknown column, did you mean "
                                        "learning_rate?"},
        {"checkpoint,step,step\n", ":1: step: the column is there twice"},
        {"checkpoint,step\na,x\n", ":2: step: expected an integer >= 0, found x"},
        {"checkpoint,step\na,1.5\n", ":2: step: expected an integer >= 0, found 1.5"},
        {"checkpoint,step\na,-1\n", ":2: step: expected an integer >= 0, found -1"},
        {"checkpoint,tokens\n\n#\na,1\nb,1e999\n", ":5: tokens: expected a finite number >= 0"},
        {"checkpoint,tokens\na,nan\n", ":2: tokens: expected a finite number >= 0, found nan"},
        {"checkpoint,learning_rate\na,-1e-3\n", ":2: learning_rate: expected a finite number"},
        {"checkpoint,step\na\n", ":2: expected 2 fields as in the header, found 1"},
        {"checkpoint,step\na,1,2\n", ":2: expected 2 fields as in the header, found 3"},
        {"checkpoint,step\n,1\n", ":2: checkpoint: expected a text of one line, found empty"},
        {"checkpoint\na\nb\na\n", ":4: checkpoint: a is already on line 2"},
        {"checkpoint,step\na,7\nb,\nc,\n\nd,7\n", ":6: step: 7 is already on line 2"},
        {"checkpoint,step,phase\na,7,x\nb,7,y\nc,7,x\n",
         ":4: step: 7 is already on line 2, with the same phase"},
        {"checkpoint\n../a\n", ":2: checkpoint: no .. in a checkpoint's name"},
        {"checkpoint\na/..\n", ":2: checkpoint: no .. in a checkpoint's name"},
        {"checkpoint\na/../b\n", ":2: checkpoint: no .. in a checkpoint's name"},
        {"checkpoint\n\"a\n", ":2: a quote that is not closed on its line"},
        {"checkpoint,step\n\"a\"b,1\n", ":2: text after a closing quote"},
        {"checkpoint\na\tb\n", ":2: checkpoint: expected a text of one line, found a control"},
        {"checkpoint\n\xff\xfe\n", ":2: checkpoint: expected a text of one line, found text that "
                                   "is not UTF-8"},
        {"checkpoint" COMMAS_16 COMMAS_16 COMMAS_16 COMMAS_16 "\n", ":1: more than 64 columns"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct loaded l = load_bytes(bad[i].text, strlen(bad[i].text));
        assert_int_equal(l.st, ERR_USAGE);
        if (!strstr(l.e.text, bad[i].expected))
            fail_msg("gave %s, expected %s", l.e.text, bad[i].expected);
        assert_null(l.m.rows);
    }
    struct loaded l = load_bytes("checkpoint\na\0b\n", 15);
    assert_int_equal(l.st, ERR_USAGE);
    assert_non_null(strstr(l.e.text, "holds NUL bytes"));
    err_clear(&l.e);
    assert_int_equal(trajectory_read(scratch_path("absent.csv"), false, &l.m, &l.e), ERR_IO);
}

/* Looking up names takes less than quadratic time in their number. */
static void large_tables_take_less_than_quadratic_time(void **state)
{
    (void)state;
    enum { ROWS = 300000 };
    char *text = malloc(ROWS * 16), *p = text;
    assert_non_null(text);
    p += sprintf(p, "checkpoint,step\n");
    for (int i = 0; i < ROWS; i++) p += sprintf(p, "%06d,%d\n", i, i);
    struct loaded l = load_bytes(text, (size_t)(p - text));
    assert_int_equal(l.st, OK);
    assert_int_equal(l.m.n_rows, ROWS);
    assert_string_equal(l.m.rows[ROWS - 1].checkpoint, "299999");
    trajectory_free(&l.m);
    p += sprintf(p, "000000,7\n");
    l = load_bytes(text, (size_t)(p - text));
    assert_int_equal(l.st, ERR_USAGE);
    assert_non_null(strstr(l.e.text, ":300002: checkpoint: 000000 is already on line 2"));
    free(text);
}

/* Every truncation of a table is read or refused. */
static void truncated_tables_are_read_or_refused(void **state)
{
    (void)state;
    static const char text[] = "# x\ncheckpoint,step,phase\r\n\"a \"\"b\",1,\"c,d\"\n e , 2 ,f\n";
    for (size_t n = 0; n < sizeof text; n++) {
        struct loaded l = load_bytes(text, n);
        assert_true(l.st == OK || l.st == ERR_USAGE);
        assert_true(l.st == OK ? l.m.n_rows > 0 : l.e.text[0]);
        trajectory_free(&l.m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_come_in_any_order),
        cmocka_unit_test(quotes_blanks_and_remarks_are_read),
        cmocka_unit_test(bad_tables_are_refused),
        cmocka_unit_test(large_tables_take_less_than_quadratic_time),
        cmocka_unit_test(other_columns_are_kept),
        cmocka_unit_test(only_finite_decimals_are_numbers),
        cmocka_unit_test(truncated_tables_are_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
