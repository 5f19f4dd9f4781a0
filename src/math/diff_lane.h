/* diff_lane: the helpers of kern_lane.h in the scalar type `real`. Only diff_*.c and row.c include
 * it. */
#pragma once
#include "math/kern_lane.h"
#include "math/real.h"

#ifdef QTRAJ_REAL_F64
#define real_exp            exp
#define real_expm1_negative expm1
#define real_sqrt           sqrt
#define real_normal_cdf(x)  (0.5 * erfc(-0.70710678118654752440 * (x)))
#define REAL(x)             (x)
#else
#define real_exp            lane_exp
#define real_expm1_negative lane_expm1_negative
#define real_sqrt           sqrtf
#define real_normal_cdf     lane_normal_cdf
#define REAL(x)             (x##f)
#endif
