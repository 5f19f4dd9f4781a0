/* diff_lane: the helpers of kern_lane.h in the scalar type `real`. Only diff_*.c and row.c include
 * it. */
#pragma once
#include "tensor/kern_lane.h"
#include "tensor/real.h"

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

/* total = the sum of the expression `term` over i in [from, to), in LANES partial sums. */
#define REAL_SUM(total, i, from, to, term)                                                         \
    do {                                                                                           \
        real lane_[LANES] = {0};                                                                   \
        int64_t at_ = (from);                                                                      \
        for (; at_ + LANES <= (to); at_ += LANES)                                                  \
            _Pragma("omp simd") for (int l_ = 0; l_ < LANES; l_++)                                 \
            {                                                                                      \
                int64_t i = at_ + l_;                                                              \
                lane_[l_] += (term);                                                               \
            }                                                                                      \
        for (int l_ = 0; at_ < (to); at_++, l_++) {                                                \
            int64_t i = at_;                                                                       \
            lane_[l_] += (term);                                                                   \
        }                                                                                          \
        (total) = lanes_sum(lane_);                                                                \
    } while (0)
