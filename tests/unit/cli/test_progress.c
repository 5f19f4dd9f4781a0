/* The progress line of a run: when it is printed, and its text. */
#include "cli/progress.h"
#include "scratch.h"
#include "util/clock.h"
#include <fcntl.h>

/* Text printed by this call. */
static const char *printed(struct progress *p, bool last)
{
    static char text[300];
    int before = dup(2), fd = open(scratch_path("err"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(before >= 0 && fd >= 0 && dup2(fd, 2) >= 0);
    progress_print(p, last);
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    assert_true(dup2(before, 2) >= 0);
    close(before);
    close(fd);
    return text;
}

/* Sets start and last print this many seconds back. */
static void back_date(struct progress *p, double seconds)
{
    p->start -= seconds;
    p->printed -= seconds;
}

static void in_a_log(void **state)
{
    (void)state;
    struct progress p;
    progress_start(&p, 10);
    p.terminal = false;
    assert_string_equal(printed(&p, false), "");
    progress_add(&p, 1, 1);
    assert_string_equal(printed(&p, false), ""); /* too soon */
    back_date(&p, 3600);
    assert_string_equal(printed(&p, false),
                        "2/10 cells, 1 failed, 0.00 cells/s, 1h 00m spent, 4h 00m left\n");
    back_date(&p, 60);
    assert_string_equal(printed(&p, false), ""); /* nothing new */
    progress_add(&p, 0, 0);
    assert_string_equal(printed(&p, false), "");
    progress_add(&p, 8, 0);
    assert_non_null(strstr(printed(&p, true), "10/10 cells, 1 failed"));
}

static void on_a_terminal(void **state)
{
    (void)state;
    struct progress p;
    progress_start(&p, 4);
    p.terminal = true;
    back_date(&p, 90);
    assert_string_equal(printed(&p, false),
                        "\r\033[K0/4 cells, 0 failed, 0.00 cells/s, 1m 30s spent, ? left");
    back_date(&p, 2 * 86400);
    const char *line = printed(&p, true); /* the line ends */
    assert_non_null(strstr(line, "2d 00h spent"));
    assert_int_equal(line[strlen(line) - 1], '\n');
}

static void without_cells(void **state)
{
    (void)state;
    struct progress p;
    progress_start(&p, 0);
    back_date(&p, 100);
    assert_string_equal(printed(&p, true), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_a_log),
        cmocka_unit_test(on_a_terminal),
        cmocka_unit_test(without_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
