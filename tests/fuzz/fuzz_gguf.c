/* The input is a GGUF file: opened, and every tensor read. */
#include "checkpoint/weight_format.h"
#include "fuzz.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors s = {.fd = -1};
    struct err e = {0};
    enum status st = format_gguf.open(fuzz_file(0, data, size), &s, &e);
    fuzz_expect_status(st, &e);
    fuzz_expect(st == OK || st == ERR_FORMAT || st == ERR_USAGE, "malformed at worst");
    for (int64_t i = 0; i < s.n; i++) {
        const struct tensor_entry *t = &s.entries[i];
        fuzz_expect(t->offset >= 0 && t->n_bytes >= 0 && t->offset + t->n_bytes <= (int64_t)size,
                    "a tensor inside its file");
        void *numbers = malloc((size_t)t->n_elements * 4 + 1);
        st = dtype_is_float(t->dtype) ? safetensors_read_range(&s, t, 0, t->n_elements, numbers, &e)
                                      : safetensors_read_i32(&s, t, numbers, &e);
        fuzz_expect_status(st, &e);
        err_clear(&e);
        free(numbers);
    }
    safetensors_close(&s);
    return 0;
}
