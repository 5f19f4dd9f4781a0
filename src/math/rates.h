/* rates: measures how fast BLAS is on this machine, for the cost model of plans and for `qtraj
 * doctor`. Local to the process. */
#pragma once
#include "util/err.h"

struct linalg_rates {
    double sgemm, dgemm; /* FLOP/s of all OpenMP threads together, one product per thread */
    double bf16;         /* the same of products of bf16 numbers (products.h) */
    int threads;         /* that were measured: at most one per core */
};
/* Runs f64, f32 and bf16 products for about `seconds` each. ERR_NOMEM. */
MUST_USE enum status linalg_rates_measure(double seconds, struct linalg_rates *out, struct err *e);

/* The Fortran interface dgemm_ that ScaLAPACK calls: on some systems it comes from another library
 * than cblas_dgemm, by default from the slow reference BLAS. */
struct linalg_fortran {
    double dgemm; /* FLOP/s of one thread through dgemm_ */
    double cblas; /* FLOP/s of one thread through cblas_dgemm, which the program itself calls */
    char library[256]; /* file that dgemm_ comes from, "" where unknown */
};
/* Runs each for about `seconds`. ERR_NOMEM. */
MUST_USE enum status linalg_fortran_measure(double seconds, struct linalg_fortran *out,
                                            struct err *e);
