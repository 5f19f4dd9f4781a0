/* Runs one form of all operations of a block's program, forwards or backwards. */
#include "model/diff_ops.h"

static diff_operation *const operations[DIFF_KINDS] = {
    [DIFF_NORM] = diff_rows,     [DIFF_LINEAR] = diff_linear,     [DIFF_PREPARE] = diff_prepare,
    [DIFF_ATTEND] = diff_attend, [DIFF_ACTIVATE] = diff_activate, [DIFF_ROUND] = diff_round,
    [DIFF_ADD] = diff_sum,
};

void diff_run(enum diff_form form, const struct diff_pass *p)
{
    bool backward = form == DIFF_ADJOINT || form == DIFF_ADJOINT_TANGENT;
    for (int i = 0; i < p->program->n; i++) {
        const struct diff_op *op = &p->program->op[backward ? p->program->n - 1 - i : i];
        if (backward || !p->again || op->backward) operations[op->kind](form, op, p);
    }
}
