/* fixture: tensors of a reference file, for tests that may not include the checkpoint folder. */
#pragma once
#include "config/sweep.h"
#include "quant/quant.h"
#include "util/fsx.h"
#include "util/json.h"
#include "util/mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
    char *data;
    json_t *header, *meta;
    const char *body;
};

struct fixture_tensor {
    const float *f; /* F32 */
    const void *data;
    int64_t dim[3];
};

/* False if the file is not there. */
static inline bool fixture_open(struct fixture *f, const char *folder, const char *name)
{
    char path[512];
    size_t n;
    uint64_t size;
    snprintf(path, sizeof path, "%s/%s.safetensors", folder, name);
    if (!fsx_is_file(path)) return false;
    if (fsx_read(path, 0, &f->data, &n, NULL) != OK || n < 8) abort();
    memcpy(&size, f->data, 8);
    if (json_read_text(path, f->data + 8, size, &f->header, NULL) != OK) abort();
    f->body = f->data + 8 + size;
    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    if (json_read_file(path, 0, &f->meta, NULL) != OK) abort();
    return true;
}

static inline void fixture_close(struct fixture *f)
{
    free(f->data);
    json_decref(f->header);
    json_decref(f->meta);
}

/* data is NULL if there is no such tensor. */
static inline struct fixture_tensor fixture_get(const struct fixture *f, const char *name)
{
    struct fixture_tensor t = {.dim = {1, 1, 1}};
    const json_t *entry = json_object_get(f->header, name);
    if (!entry) return t;
    const json_t *shape = json_object_get(entry, "shape");
    for (size_t i = 0; i < json_array_size(shape) && i < 3; i++)
        t.dim[i] = json_integer_value(json_array_get(shape, i));
    t.data =
        f->body + json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 0));
    t.f = t.data;
    return t;
}
