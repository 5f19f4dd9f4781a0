/* The input is a tokenizer.json, a NUL byte, and a text that it encodes and decodes. */
#include "fuzz.h"
#include "tokens.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tokenizer *t = NULL;
    struct err e = {0};
    char *part[2] = {0};
    size_t length[2] = {0};
    int parts = fuzz_split(data, size, 2, part, length);
    enum status st = tokenizer_open(fuzz_file(0, part[0], length[0]), &t, &e);
    fuzz_expect_status(st, &e);
    fuzz_expect(st == OK || st == ERR_FORMAT || st == ERR_USAGE, "a fault of the file at worst");
    if (st == OK && parts == 2) tokens_exercise(t, part[1], length[1], false);
    tokenizer_close(t);
    free(part[0]);
    return 0;
}
