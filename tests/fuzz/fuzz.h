/* fuzz: helpers of the fuzz targets. A target is one file that defines LLVMFuzzerTestOneInput;
 * libFuzzer calls it in the preset `fuzz`, replay.c otherwise. A target ends the process (abort,
 * which is a finding) only through fuzz_expect. */
#pragma once
#include "util/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writes n bytes to a file in memory and returns its path, valid until the next call with the same
 * slot (0 to 3). */
const char *fuzz_file(int slot, const void *data, size_t n);

/* Splits the input at its NUL bytes: fills part and length of up to n parts (the last one keeps any
 * later NULs), each followed by a NUL byte, and returns their number. Free part[0]. */
int fuzz_split(const uint8_t *data, size_t size, int n, char **part, size_t *length);

/* Ends the process with the text unless the condition holds. */
void fuzz_expect(bool holds, const char *what);

/* An error must have a text, a success must not. */
void fuzz_expect_status(enum status st, const struct err *e);
