/* rates: what this machine's BLAS reaches, for plans and `qtraj doctor`. */
#pragma once
#include "util/err.h"

struct linalg_rates {
    double sgemm, dgemm; /* FLOP/s of all OpenMP threads together, one product a thread */
    int threads;
};

/* Multiplies for about `seconds` each. ERR_NOMEM. */
MUST_USE enum status linalg_rates_measure(double seconds, struct linalg_rates *out, struct err *e);
