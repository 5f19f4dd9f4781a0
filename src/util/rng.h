/* rng: counter-based random numbers. Number i of a stream is a function of (stream, i) alone, so
 * that any piece of a vector can be made anywhere, in any order, on any number of ranks and
 * threads.
 *
 * The mixing is splitmix64's finaliser (Steele, Lea, Flood 2014) on
 * i * 0x9E3779B97F4A7C15 + stream * 0xD1B54A32D192ED03, wrapping around; the signs of streams 0, 1,
 * 2, ... are the probe vectors of the parity fixtures with that salt. */
#pragma once
#include <stdint.h>

/* 64 random bits. */
uint64_t rng_bits(uint64_t stream, uint64_t i);

/* The index-th stream of a seed. Seed 0 has the streams 0, 1, 2, ...; those of any other seed start
 * at a hashed place. Uses of one seed that must not share numbers take indices far apart. */
uint64_t rng_stream(uint64_t seed, uint64_t index);

/* out (n) = +1 or -1: elements first, first + 1, ... of the stream. */
void rng_signs(uint64_t stream, int64_t first, int64_t n, float *out);

/* out (n) = independent N(0, 1): elements first, first + 1, ... Box and Muller's pairs (2j, 2j + 1)
 * from bits 2j and 2j + 1, computed in f64 and rounded to f32; they rest on libm's log, sin and
 * cos, so that another libm may change a last bit. */
void rng_normals(uint64_t stream, int64_t first, int64_t n, float *out);
