/* kern_ref: the kernels of kern.h as their formulas read, in f64 with libm, for the tests to
 * compare with. */
#pragma once
#include "tensor/kern.h"

void ref_rms_norm(double *y, const float *x, const float *w, int64_t n, double eps);
void ref_layer_norm(double *y, const float *x, const float *w, const float *b, int64_t n,
                    double eps);
double ref_silu(double x);
double ref_gelu(double x);
double ref_gelu_tanh(double x);
double ref_xielu(double x, const struct xielu *c);
/* Rotates one head of 2 half values by the angles. */
void ref_rope(double *y, const float *x, const double *angle, int64_t half);
/* y (n) = softmax of x; returns log of the sum of e^x. */
double ref_softmax(double *y, const float *x, int64_t n);
/* KL(softmax(x) || softmax(z)). */
double ref_kl(const float *x, const float *z, int64_t n);
