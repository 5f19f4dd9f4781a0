/* kivi: quantized keys and values as a cache holds them while a text is generated (KIVI,
 * arXiv 2402.02750; jy-yuan/KIVI, quant/new_pack.py).
 *
 * A group with the least number m and the largest M: s = (M - m) / (2^b - 1),
 * x -> round(clamp((x - m) / s, 0, 2^b - 1)) s + m, in f32; equal numbers stay. Groups of keys are
 * `group` tokens of one channel, those of values `group` channels of one token. */
#pragma once
#include "activation/activation.h"

/* Tokens of a group of keys. */
enum { KIVI_GROUP_MAX = 128 };

/* y (n, D) = x (n, D) in groups of so many rows; the rows behind the last whole group stay. Local.
 */
void kivi_keys(const struct activation_grid *g, const float *x, int64_t n, int64_t D, float *y);
/* The same in groups of so many columns, which divide D; -1: of D. */
void kivi_values(const struct activation_grid *g, const float *x, int64_t n, int64_t D, float *y);

/* How many keys, and values, of the first positions are quantized for the query at position t: of
 * keys whole residuals are quantized together, of values each when `residual` younger ones follow.
 * 0 for the first `prefill` queries, which are one call, and without a residual. */
int64_t kivi_keys_old(const struct activation_grid *g, int64_t t);
int64_t kivi_values_old(const struct activation_grid *g, int64_t t);
