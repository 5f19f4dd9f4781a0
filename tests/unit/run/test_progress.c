/* The progress of a run: its line, when the next is due, and the failures that it names. */
#include "run/progress.h"
#include "scratch.h"
#include "util/clock.h"
#include "util/log.h"
#include <fcntl.h>

static const int64_t totals[MEASURES_N] = {
    [MEASURE_cell] = 10, [MEASURE_curvature] = 0, [MEASURE_point] = 7};

static int before;

static void capture(void)
{
    before = dup(2);
    int fd = open(scratch_path("err"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(before >= 0 && fd >= 0 && dup2(fd, 2) >= 0);
    close(fd);
}

/* What was printed since. */
static const char *captured(void)
{
    static char text[2000];
    int fd = open(scratch_path("err"), O_RDONLY);
    ssize_t n = read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    close(fd);
    assert_true(dup2(before, 2) >= 0);
    close(before);
    return text;
}

static const char *printed(struct progress *p, const struct sched_progress *now, double *next)
{
    capture();
    *next = progress_print(p, now);
    return captured();
}

static void in_a_log(void **state)
{
    (void)state;
    struct progress p;
    double next;
    const struct sched_running hand[] = {{"a step1", "curvature", 1, 192},
                                         {"a step2", "cells", 2, 9},
                                         {"surface s", "", 3, 3},
                                         {"a step3", "cells", 4, 1}};
    const struct sched_progress now = {.left = 4 * 3600, .n = 4, .running = hand},
                                one = {.left = 59.2, .n = 1, .running = hand + 1};
    progress_start(&p, totals);
    p.terminal = false;
    assert_string_equal(printed(&p, &now, &next), ""); /* nobody wants to know yet */
    assert_true(next > 0 && next <= 1);
    progress_add(&p, MEASURE_cell, 1, 1);
    p.start -= 100;
    assert_string_equal(printed(&p, &one, &next), "1/10 cells, 0/7 points, 1 failed, 1m 40s spent, "
                                                  "59s left; running: a step2 (cells, 9s)\n");
    assert_true(next == 10);
    p.start -= 3500;
    assert_string_equal(
        printed(&p, &now, &next),
        "1/10 cells, 0/7 points, 1 failed, 1h 00m spent, 4h 00m left; running: a "
        "step1 (curvature, 3m 12s), a step2 (cells, 9s), surface s (3s), +1 more\n");
    assert_true(next <= 60 && next > 59);
    progress_add(&p, MEASURE_cell, 8, 0);
    progress_add(&p, MEASURE_point, 7, 0);
    capture();
    progress_end(&p);
    assert_string_equal(captured(), "9/10 cells, 7/7 points, 1 failed, 1h 00m spent\n");
    progress_free(&p);
}

static void on_a_terminal(void **state)
{
    (void)state;
    struct progress p;
    double next;
    const struct sched_progress now = {.left = 5};
    progress_start(&p, totals);
    p.terminal = true;
    p.start -= 90;
    assert_string_equal(printed(&p, &now, &next),
                        "0/10 cells, 0/7 points, 0 failed, 1m 30s spent, 5s left");
    assert_true(next == 1);
    capture();
    log_info("a message");
    assert_string_equal(captured(), "\r\033[Ka message\n"); /* replaces the line */
    assert_string_equal(printed(&p, &now, &next),
                        "0/10 cells, 0/7 points, 0 failed, 1m 30s spent, 5s left");
    p.start -= 2 * 86400;
    assert_string_equal(printed(&p, &now, &next),
                        "\r\033[K0/10 cells, 0/7 points, 0 failed, 2d 00h spent, 5s left");
    capture();
    progress_end(&p); /* the line ends */
    const char *line = captured();
    assert_int_equal(line[strlen(line) - 1], '\n');
    progress_free(&p);
}

static void with_nothing_to_do(void **state)
{
    (void)state;
    struct progress p;
    double next;
    const struct sched_progress now = {0};
    progress_start(&p, (const int64_t[MEASURES_N]){0});
    p.start -= 100;
    assert_string_equal(printed(&p, &now, &next), "");
    capture();
    progress_end(&p);
    assert_string_equal(captured(), "");
}

static void fail_record(struct progress *p, const char *json)
{
    json_t *record = json_loads(json, 0, NULL);
    assert_non_null(record);
    assert_int_equal(progress_fail(p, record, NULL), OK);
    json_decref(record);
}

/* Each once, those of a checkpoint that say the same together, between whole lines. */
static void failures_are_named(void **state)
{
    (void)state;
    struct progress p;
    progress_start(&p, totals);
    p.terminal = true;
    log_progress("", true);
    fail_record(&p,
                "{\"type\": \"checkpoint\", \"model\": \"a\", \"checkpoint\": \"s1\", \"message\": "
                "\"x.safetensors: it is\\nno good\"}");
    fail_record(&p, "{\"type\": \"cell\", \"model\": \"a\", \"checkpoint\": \"s1\", \"bits\": 3, "
                    "\"quantizer\": \"gptq\", \"message\": \"x.safetensors: it is\\nno good\"}");
    fail_record(&p, "{\"type\": \"cell\", \"model\": \"a\", \"checkpoint\": \"s2\", \"bits\": 3, "
                    "\"quantizer\": \"gptq\", \"message\": \"other\"}");
    fail_record(&p,
                "{\"type\": \"curvature\", \"model\": \"a\", \"checkpoint\": \"s1\", \"message\": "
                "\"x.safetensors: it is\\nno good\"}");
    fail_record(
        &p, "{\"type\": \"point\", \"surface\": \"plane\", \"point\": \"s2\", \"message\": \"m\"}");
    capture();
    progress_tell_failures(&p);
    assert_string_equal(captured(), ""); /* others may follow */
    for (int64_t i = 0; i < p.n_failures; i++) p.failures[i].since -= 1;
    capture();
    progress_tell_failures(&p);
    assert_string_equal(captured(),
                        "\r\033[Kfailed: a s1 (gptq 3, curvature): x.safetensors: it is no good\n"
                        "failed: a s2 (gptq 3): other\n"
                        "failed: surface plane s2: m\n");
    capture();
    progress_tell_failures(&p);
    assert_string_equal(captured(), "");
    progress_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_a_log),
        cmocka_unit_test(on_a_terminal),
        cmocka_unit_test(with_nothing_to_do),
        cmocka_unit_test(failures_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
