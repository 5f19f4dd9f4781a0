/* diff_ops: the operations of a block's program (diff_block.h). Only diff_*.c and a bench include
 * it. */
#pragma once
#include "model/diff_block.h"

/* Computes one form of operation op for the chunk of p. Forward forms read op's inputs and write
 * its output; backward forms read the output and write, or add to, the inputs (op->add_a,
 * op->add_b), and add to the parameters in p->g. Parallel inside (OpenMP). */
typedef void diff_operation(enum diff_form form, const struct diff_op *op,
                            const struct diff_pass *p);
diff_operation diff_rows;     /* DIFF_NORM */
diff_operation diff_linear;   /* DIFF_LINEAR */
diff_operation diff_prepare;  /* DIFF_PREPARE: clipping, q/k norm, RoPE */
diff_operation diff_attend;   /* DIFF_ATTEND */
diff_operation diff_activate; /* DIFF_ACTIVATE */
diff_operation diff_round;    /* DIFF_ROUND: values and adjoints alone */
diff_operation diff_sum;      /* DIFF_ADD */

/* Numbers of a thread's copies of keys and values (diff_work) of sequences of up to so many tokens;
 * 0: they are not copied. */
int64_t diff_attend_copies(int64_t head_dim, int64_t longest);

/* The lane whose buffers a form writes. */
static inline const struct diff_lane *diff_lane_written(enum diff_form form,
                                                        const struct diff_pass *p)
{
    const struct diff_lane *const lanes[] = {p->value, p->tangent, p->adjoint, p->adjoint_tangent};
    return lanes[form];
}

static inline bool diff_is_tangent(enum diff_form form)
{
    return form == DIFF_TANGENT || form == DIFF_ADJOINT_TANGENT;
}
