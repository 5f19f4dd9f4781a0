/* The input is a .safetensors file: opened, and every tensor read. */
#include "checkpoint/safetensors.h"
#include "fuzz.h"
#include <stdlib.h>

static void read_tensor(const struct safetensors *s, const struct tensor_entry *t, size_t size)
{
    struct err e = {0};
    fuzz_expect(t->offset >= 0 && t->n_bytes >= 0 && t->offset + t->n_bytes <= (int64_t)size,
                "a tensor inside its file");
    fuzz_expect(safetensors_find(s, t->name) != NULL, "a tensor to be found by its name");
    void *data = malloc((size_t)t->n_elements * 4 + 1);
    enum status st = dtype_is_float(t->dtype)
                         ? safetensors_read_range(s, t, 0, t->n_elements, data, &e)
                         : safetensors_read_i32(s, t, data, &e);
    fuzz_expect_status(st, &e);
    fuzz_expect(st == OK || st == ERR_FORMAT, "a number out of range at worst");
    free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors s = {.fd = -1};
    struct err e = {0};
    enum status st = safetensors_open(fuzz_file(0, data, size), &s, &e);
    fuzz_expect_status(st, &e);
    fuzz_expect(st == OK || st == ERR_FORMAT, "malformed at worst");
    for (int64_t i = 0; i < s.n; i++) read_tensor(&s, &s.entries[i], size);
    safetensors_close(&s);
    return 0;
}
