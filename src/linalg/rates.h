/* rates: what this machine's BLAS reaches, for plans and `qtraj doctor`. */
#pragma once
#include "util/err.h"

struct linalg_rates {
    double sgemm, dgemm; /* FLOP/s of all OpenMP threads together, one product a thread */
    int threads;
};

/* The dgemm that Fortran libraries (ScaLAPACK) call: on some systems another library than ours, the
 * slow reference one by default. */
struct linalg_fortran {
    double dgemm;      /* FLOP/s of one thread */
    double own;        /* FLOP/s of one thread of the dgemm called here */
    char library[256]; /* that it comes from */
};
MUST_USE enum status linalg_fortran_measure(double seconds, struct linalg_fortran *out,
                                            struct err *e);

/* Multiplies for about `seconds` each. ERR_NOMEM. */
MUST_USE enum status linalg_rates_measure(double seconds, struct linalg_rates *out, struct err *e);
