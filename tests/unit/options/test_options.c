/* The options engine with a table that no program has: reading, defaults, checks, flags, JSON. */
#include "options/nearest.h"
#include "options/options.h"
#include "options/yaml.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct wheel {
    char *name;
    double radius;
};

struct car {
    char *name;
    bool open;
    int64_t doors;
    int colour;
    int64_t n_gears, gears[3];
    struct wheel spare;
    int64_t n_wheels;
    struct wheel *wheels;
};

static const char *const colours[] = {"red", "green", NULL};
static const struct option wheel_keys[] = {
    OPTION(wheel, name, TEXT, "its label", .otherwise = "none"),
    OPTION(wheel, radius, REAL, "in metres", .fallback = "0.3", .minimum = 0, .maximum = 2),
};
static const struct option_table wheel_table = {OPTION_ROWS(wheel_keys, wheel)};
static const struct option car_keys[] = {
    OPTION(car, name, TEXT, "its label", .required = true),
    OPTION(car, open, BOOL, "without a roof", .fallback = "false", .unset = "closed"),
    OPTION(car, doors, INT, "how many", .fallback = "any", .low = 2, .high = 5,
           OPTION_SPECIAL(0, "any")),
    OPTION(car, colour, CHOICE, "of the paint", .fallback = "red", .choices = colours),
    OPTION(car, gears, INTS, "in their order", .count = offsetof(struct car, n_gears),
           .capacity = 3, .low = 1, .high = 9),
    OPTION_AT("spare_wheel", car, spare, GROUP, "in the back", .table = &wheel_table),
    OPTION(car, wheels, LIST, "on the road", .count = offsetof(struct car, n_wheels), .high = 4,
           .table = &wheel_table),
};

/* Refuses open cars with five doors. */
static enum status finish(void *entry, const struct option_scope *scope, struct err *e)
{
    const struct car *c = entry;
    if (!c->open || c->doors != 5) return OK;
    return options_fail(scope, "doors", e, "too many without a roof");
}
static const struct option_table car_table = {OPTION_ROWS(car_keys, car), .finish = finish};

/* Reads a YAML text, changed by an override unless that is NULL. */
static enum status read_car(const char *text, const char *override, struct car *c, struct err *e)
{
    enum status st = OK;
    struct node *root = NULL;
    const struct node_place place = {.file = "car.yaml"};
    const struct option_source source = {.code = ERR_USAGE, .folder = "."};
    memset(c, 0, sizeof *c);
    err_clear(e);
    TRY(yaml_read_text(text, strlen(text), &place, &root, e));
    if (override) TRY(override_apply(root, override, e));
    TRY(options_read(&car_table, root, &source, c, e));
done:
    node_free(root);
    return st;
}

static void files_and_overrides_are_read(void **state)
{
    (void)state;
    struct err e = {0};
    struct car c, again, copy;
    if (read_car("name: a\nwheels: [{radius: 0.1}, {name: b}]\ngears: [3, 1]\n", "doors=4", &c,
                 &e) != OK)
        fail_msg("%s", e.text);
    assert_string_equal(c.name, "a");
    assert_true(!c.open && c.doors == 4 && c.colour == 0 && c.spare.radius == 0.3);
    assert_true(c.n_gears == 2 && c.gears[0] == 3 && c.gears[1] == 1);
    assert_true(c.n_wheels == 2 && c.wheels[0].radius == 0.1 && c.wheels[1].radius == 0.3);
    assert_null(c.wheels[0].name);
    assert_string_equal(c.wheels[1].name, "b");
    json_t *json = options_to_json(&car_table, &c), *second;
    if (options_from_json(&car_table, json, &again, &e) != OK) fail_msg("%s", e.text);
    second = options_to_json(&car_table, &again);
    assert_true(json_equal(json, second));
    assert_null(json_object_get(json, "no such key"));
    json_decref(json);
    json_decref(second);
    options_free(&car_table, &again);
    assert_null(again.name);
    assert_int_equal(options_copy(&wheel_table, &c.wheels[1], &again.spare, &e), OK);
    assert_string_equal(again.spare.name, "b");
    assert_ptr_not_equal(again.spare.name, c.wheels[1].name);
    options_free(&wheel_table, &again.spare);
    options_free(&car_table, &c);
    assert_null(c.wheels);
    options_default(&car_table, &copy);
    assert_true(copy.doors == 0 && copy.name == NULL && copy.spare.radius == 0.3);
}

/* Messages name the place, the key in full, what was expected and what was found. */
static void messages_name_place_and_expectation(void **state)
{
    (void)state;
    static const char *const bad[][3] = {
        {"open: true", NULL, "car.yaml:1:1: name: missing, expected a text of one line"},
        {"name: a\ndors: 3", NULL, "car.yaml:2:1: dors: unknown key, did you mean doors?"},
        {"name: a\nqqqq: 3", NULL, "known here: name, open, doors"},
        {"name: a\ndoors: 6", NULL, "car.yaml:2:8: doors: expected an integer from 2 to 5 or any"},
        {"name: a\ndoors: '3'", NULL, "found the text \"3\""},
        {"name: a\ncolour: gren", NULL, "did you mean green?"},
        {"name: a\ngears: [1, 1]", NULL, "gears[1]: 1 is in the list twice"},
        {"name: a\ngears: [1, 2, 3, 4]", NULL, "gears[3]: more than 3 values"},
        {"name: a\nwheels: [{}, {radius: 3}]", NULL, "wheels[1].radius: expected a number from 0"},
        {"name: a\nspare_wheel: 1", NULL, "expected a mapping with the keys name, radius, found 1"},
        {"name: a\nname: b", NULL, "name: repeated key, first on line 1"},
        {"name: a\nopen: yes\ndoors: 5", NULL, "car.yaml:3:8: doors: too many without a roof"},
        {"name: a", "doors=x", "--set doors=x: doors: expected an integer"},
        {"name: a", "wheels[0].radius=1", "--set wheels[0].radius=1: "},
    };
    struct err e = {0};
    struct car c;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(read_car(bad[i][0], bad[i][1], &c, &e), ERR_USAGE);
        if (!strstr(e.text, bad[i][2])) fail_msg("%s, not %s", e.text, bad[i][2]);
        assert_null(c.name); /* owns nothing */
    }
}

static void flags_of_others_are_left(void **state)
{
    (void)state;
    static const struct {
        const char *flag;
        int used; /* -1: refused */
    } cases[] = {
        {"--big-open", 1},     {"--big-doors", 2},        {"--big-doors=3", 1},
        {"--big-closed", 1},   {"--big-colour=blue", -1}, {"--big-open=yes", -1},
        {"--open", 0},         {"--big-gears", 0},        {"--big-spare-wheel", 0},
        {"--big-name=x y", 1},
    };
    struct err e = {0};
    struct car c;
    options_default(&car_table, &c);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char flag[40], value[] = "4", *argv[] = {flag, value};
        int used = -1;
        snprintf(flag, sizeof flag, "%s", cases[i].flag);
        err_clear(&e);
        enum status st = options_flag(&car_table, "big-", &c, 2, argv, &used, &e);
        assert_int_equal(st == OK ? used : -1, cases[i].used);
        if (i == 0) assert_true(c.open);
        if (i == 1) assert_int_equal(c.doors, 4);
    }
    assert_true(!c.open && c.doors == 3);
    assert_string_equal(c.name, "x y");
    options_free(&car_table, &c);
    char name[OPTION_FLAG];
    option_flag_name("big-", "spare_wheel", name);
    assert_string_equal(name, "--big-spare-wheel");
}

static void advice_names_the_nearest_or_all(void **state)
{
    (void)state;
    static const char *const names[] = {"gptq", "rtn", "hqq"};
    static const struct {
        const char *name, *advice;
        size_t size;
    } cases[] = {
        {"gtpq", ", did you mean gptq?", 100},
        {"rnt", ", did you mean rtn?", 100},         /* two letters exchanged are one change */
        {"awq", "; there are: gptq, rtn, hqq", 100}, /* near to none */
        {"gptq*", "; there are: gptq, rtn, hqq", 100},
        {"awq", "; there are: gptq, rtn and 1 more", 56},
    };
    char text[100];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        nearest_advice(cases[i].name, names, 3, text, cases[i].size);
        assert_string_equal(text, cases[i].advice);
    }
    nearest_advice("x", names, 0, text, sizeof text);
    assert_string_equal(text, "");
}

static void the_nearest_name_is_found(void **state)
{
    (void)state;
    static const char *const names[] = {"group_size", "block_size", "order", "name"};
    assert_string_equal(nearest_name("group_sise", names, 4), "group_size");
    assert_string_equal(nearest_name("Group-Size", names, 4), "group_size");
    assert_string_equal(nearest_name("gruop_size", names, 4), "group_size");
    assert_string_equal(nearest_name("odrer", names, 4), "order");
    assert_string_equal(nearest_name("nam", names, 4), "name");
    assert_string_equal(nearest_name("gr", names, 4), "group_size");
    assert_string_equal(nearest_name("block-", names, 4), "block_size");
    assert_null(nearest_name("g", names, 4)); /* too little to tell */
    static const char *const alike[] = {"loss_delta", "loss_relative"};
    assert_null(nearest_name("loss", alike, 2)); /* both begin so */
    assert_null(nearest_name("zebra", names, 4));
    assert_null(nearest_name("", names, 4));
    char longest[5000];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_null(nearest_name(longest, names, 4));
}

static void variables_are_expanded_once(void **state)
{
    (void)state;
    struct err e = {0};
    char *path = NULL;
    static const char *const cases[][3] = {
        {"a.txt", "dir", "dir/a.txt"},
        {"a.txt", ".", "a.txt"},
        {"/a.txt", "dir", "/a.txt"},
        {"${QT_A}/x", "dir", "/abs/x"},
        {"x${QT_A}y", "d", "d/x/absy"},
        {"${QT_A}${QT_B}", "d", "/abs${QT_A}"},
        {"$QT_A/$x/{y}", "d", "d/$QT_A/$x/{y}"},
    };
    setenv("QT_A", "/abs", 1);
    setenv("QT_B", "${QT_A}", 1); /* a variable's value is not expanded again */
    setenv("QT_EMPTY", "", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(option_path(cases[i][0], cases[i][1], &path, &e), OK);
        assert_string_equal(path, cases[i][2]);
        free(path);
    }
    static const char *const bad[] = {"${QT_NOT_THERE}", "${QT_A",     "${}", "${1}",
                                      "${a b}",          "${QT_EMPTY}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err_clear(&e);
        assert_int_equal(option_path(bad[i], "d", &path, &e), ERR_USAGE);
    }
}

/* Messages stay one line of limited length whatever they quote. */
static void quoted_text_stays_one_short_line(void **state)
{
    (void)state;
    char text[16];
    text_show("plain", text, sizeof text);
    assert_string_equal(text, "plain");
    text_show("a\nb\x1b\x7f\xff", text, sizeof text);
    assert_string_equal(text, "a?b???");
    text_show("0123456789abcde", text, sizeof text);
    assert_string_equal(text, "0123456789abcde");
    text_show("0123456789abcdef", text, sizeof text);
    assert_string_equal(text, "0123456789ab...");
    text_show("\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9", text, 16);
    assert_string_equal(text, "\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_and_overrides_are_read),
        cmocka_unit_test(messages_name_place_and_expectation),
        cmocka_unit_test(flags_of_others_are_left),
        cmocka_unit_test(the_nearest_name_is_found),
        cmocka_unit_test(advice_names_the_nearest_or_all),
        cmocka_unit_test(variables_are_expanded_once),
        cmocka_unit_test(quoted_text_stays_one_short_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
