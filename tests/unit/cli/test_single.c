/* The visit of the single-checkpoint commands: a failure keeps its status, up to the exit code. */
#include "cli/cli.h"
#include "cli/single.h"
#include "util/mem.h"
#include <mpi.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char path[] = CONFIGS "/quickstart/trajectory/step001200";
static const char ids[] = FIXTURES "/models/llama/reference.safetensors:input_ids"; /* two rows */

/* Evaluates a folder; *loss = what single_number says of it. */
static enum status evaluate(const char *dir, int64_t memory, json_t **loss, struct err *e)
{
    enum status st = OK;
    struct single s = {.visit.run.memory = memory};
    struct data_options data;
    options_default(&data_table, &data);
    data.length = 0;
    TRY(mem_string(&data.ids, ids, e));
    TRY(single_add_evaluation(&s, &data, "", e));
    TRY(single_run(&s, dir, NULL, e));
    *loss = single_number(s.checkpoint, "loss");
    assert_true(json_is_null(single_number(s.checkpoint, "no such number")));
done:
    options_free(&data_table, &data);
    single_free(&s);
    return st;
}

static void a_loss_comes_back(void **state)
{
    struct err e = {0};
    json_t *loss = NULL;
    (void)state;
    if (evaluate(path, 0, &loss, &e) != OK) fail_msg("%s", e.text);
    assert_true(json_real_value(loss) > 1 && json_real_value(loss) < 20);
    json_decref(loss);
}

static void out_of_memory_is_no_bad_input(void **state)
{
    struct err e = {0};
    json_t *loss = NULL;
    (void)state;
    enum status st = evaluate(path, 1 << 20, &loss, &e);
    assert_int_equal(st, ERR_NOMEM);
    assert_non_null(strstr(e.text, "too little for this checkpoint"));
    assert_int_equal(cli_exit_code(st), EXIT_INTERNAL);
}

static void a_bad_checkpoint_is_bad_input(void **state)
{
    struct err e = {0};
    json_t *loss = NULL;
    (void)state;
    enum status st = evaluate(FIXTURES "/no such checkpoint", 0, &loss, &e);
    assert_int_equal(st, ERR_IO);
    assert_int_equal(cli_exit_code(st), EXIT_BAD_INPUT);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loss_comes_back),
        cmocka_unit_test(out_of_memory_is_no_bad_input),
        cmocka_unit_test(a_bad_checkpoint_is_bad_input),
    };
    MPI_Init(&argc, &argv);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
