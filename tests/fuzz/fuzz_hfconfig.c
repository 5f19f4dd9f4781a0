/* The input is a config.json: its shape, and the tensors of a model that it describes. */
#include "fuzz.h"
#include "model/describe.h"
#include "model/sizes.h"
#include "util/json.h"
#include <string.h>

static void describe(const json_t *config, int64_t layer)
{
    struct tensor_description tensors[DESCRIBE_MAX];
    struct err e = {0};
    int n = 0;
    enum status st = model_describe(config, "config.json", layer, tensors, &n, &e);
    fuzz_expect_status(st, &e);
    fuzz_expect(st == OK, "tensors of a config that has a shape");
    fuzz_expect(n > 0 && n <= DESCRIBE_MAX, "some tensors");
    for (int i = 0; i < n; i++) {
        fuzz_expect(memchr(tensors[i].name, '\0', DESCRIBE_NAME) != NULL, "a terminated name");
        fuzz_expect(tensors[i].n_dims >= 0 && tensors[i].n_dims <= 2, "at most two dimensions");
        for (int k = 0; k < tensors[i].n_dims; k++)
            fuzz_expect(tensors[i].shape[k] > 0, "a positive dimension");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *config = NULL;
    struct model_sizes sizes;
    const struct model_shape *shape = &sizes.shape;
    struct err e = {0};
    if (json_read_text("config.json", (const char *)data, size, &config, &e) != OK) return 0;
    enum status st = model_sizes_read(config, "config.json", &sizes, &e);
    fuzz_expect_status(st, &e);
    fuzz_expect(st == OK || st == ERR_FORMAT || st == ERR_USAGE, "a fault of the config at worst");
    if (st == OK) {
        fuzz_expect(shape->layers > 0 && shape->parameters > 0 &&
                        shape->parameters_non_embedding > 0 &&
                        shape->parameters_non_embedding <= shape->parameters,
                    "counts that make sense");
        fuzz_expect(arch_name(sizes.spec.arch) != NULL, "a family");
        describe(config, -1);
        describe(config, 0);
        describe(config, shape->layers - 1);
    }
    json_decref(config);
    return 0;
}
