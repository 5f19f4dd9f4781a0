/* The four passes over a block's program. */
#include "model/diff_ops.h"

typedef void form(const struct diff_op *op, const struct diff_pass *p);

#define FORMS(name)                                                                                \
    {                                                                                              \
        name##_value, name##_tangent, name##_adjoint, name##_adjoint_tangent                       \
    }
enum { VALUE, TANGENT, ADJOINT, ADJOINT_TANGENT };
static form *const forms[DIFF_KINDS][4] = {
    [DIFF_NORM] = FORMS(diff_rows),         [DIFF_LINEAR] = FORMS(diff_linear),
    [DIFF_PREPARE] = FORMS(diff_prepare),   [DIFF_ATTEND] = FORMS(diff_attend),
    [DIFF_ACTIVATE] = FORMS(diff_activate), [DIFF_ADD] = FORMS(diff_sum),
};

static void forward(const struct diff_pass *p, int which)
{
    for (int i = 0; i < p->program->n; i++) {
        const struct diff_op *op = &p->program->op[i];
        if (!p->again || op->backward) forms[op->kind][which](op, p);
    }
}

static void backward(const struct diff_pass *p, int which)
{
    for (int i = p->program->n - 1; i >= 0; i--)
        forms[p->program->op[i].kind][which](&p->program->op[i], p);
}

void diff_values(const struct diff_pass *p)
{
    forward(p, VALUE);
}

void diff_tangents(const struct diff_pass *p)
{
    forward(p, TANGENT);
}

void diff_adjoints(const struct diff_pass *p)
{
    backward(p, ADJOINT);
}

void diff_adjoint_tangents(const struct diff_pass *p)
{
    backward(p, ADJOINT_TANGENT);
}
