/* num: the smaller and the larger of two numbers. */
#pragma once
#include <stdint.h>

/* The smaller of two. */
static inline int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The larger of two. */
static inline int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
