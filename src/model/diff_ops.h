/* diff_ops: the operations of a block's program, each in four forms. Only diff_*.c include it. */
#pragma once
#include "model/diff_block.h"

#define DIFF_FORMS(name)                                                                           \
    void name##_value(const struct diff_op *op, const struct diff_pass *p);                        \
    void name##_tangent(const struct diff_op *op, const struct diff_pass *p);                      \
    void name##_adjoint(const struct diff_op *op, const struct diff_pass *p);                      \
    void name##_adjoint_tangent(const struct diff_op *op, const struct diff_pass *p)

#ifdef QTRAJ_REAL_F64
#define diff_attend_value             diff_attend_value_f64
#define diff_attend_tangent           diff_attend_tangent_f64
#define diff_attend_adjoint           diff_attend_adjoint_f64
#define diff_attend_adjoint_tangent   diff_attend_adjoint_tangent_f64
#define diff_linear_value             diff_linear_value_f64
#define diff_linear_tangent           diff_linear_tangent_f64
#define diff_linear_adjoint           diff_linear_adjoint_f64
#define diff_linear_adjoint_tangent   diff_linear_adjoint_tangent_f64
#define diff_rows_value               diff_rows_value_f64
#define diff_rows_tangent             diff_rows_tangent_f64
#define diff_rows_adjoint             diff_rows_adjoint_f64
#define diff_rows_adjoint_tangent     diff_rows_adjoint_tangent_f64
#define diff_prepare_value            diff_prepare_value_f64
#define diff_prepare_tangent          diff_prepare_tangent_f64
#define diff_prepare_adjoint          diff_prepare_adjoint_f64
#define diff_prepare_adjoint_tangent  diff_prepare_adjoint_tangent_f64
#define diff_activate_value           diff_activate_value_f64
#define diff_activate_tangent         diff_activate_tangent_f64
#define diff_activate_adjoint         diff_activate_adjoint_f64
#define diff_activate_adjoint_tangent diff_activate_adjoint_tangent_f64
#define diff_sum_value                diff_sum_value_f64
#define diff_sum_tangent              diff_sum_tangent_f64
#define diff_sum_adjoint              diff_sum_adjoint_f64
#define diff_sum_adjoint_tangent      diff_sum_adjoint_tangent_f64
#endif

DIFF_FORMS(diff_rows);     /* DIFF_NORM */
DIFF_FORMS(diff_linear);   /* DIFF_LINEAR */
DIFF_FORMS(diff_prepare);  /* DIFF_PREPARE: clipping, q/k norm, RoPE */
DIFF_FORMS(diff_attend);   /* DIFF_ATTEND */
DIFF_FORMS(diff_activate); /* DIFF_ACTIVATE */
DIFF_FORMS(diff_sum);      /* DIFF_ADD */
