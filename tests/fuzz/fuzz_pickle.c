/* The input is a pickle: interpreted by itself, then as the data.pkl of an otherwise valid archive
 * with storages "0" to "3" of 64 bytes. */
#include "checkpoint/pickle.h"
#include "checkpoint/weight_format.h"
#include "fuzz.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bytes {
    char *data;
    size_t n;
};

static void put(struct bytes *b, const void *data, size_t n)
{
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

static void put_number(struct bytes *b, uint64_t value, size_t size)
{
    put(b, &value, size);
}

static void put_member(struct bytes *file, struct bytes *directory, const char *name,
                       const void *data, size_t n)
{
    size_t at = file->n, length = strlen(name);
    put(file, "PK\3\4\0\0\0\0\0", 10); /* version, flags; stored */
    put_number(file, 0, 8);
    put_number(file, n, 4);
    put_number(file, n, 4);
    put_number(file, length, 4);
    put(file, name, length);
    put(file, data, n);
    put(directory, "PK\1\2\0\0\0\0\0\0\0", 12);
    put_number(directory, 0, 8);
    put_number(directory, n, 4);
    put_number(directory, n, 4);
    put_number(directory, length, 8);
    put_number(directory, 0, 6);
    put_number(directory, at, 4);
    put(directory, name, length);
}

enum { STORAGES = 4, STORAGE_BYTES = 64, ARCHIVE_BYTES = 2048 };

static struct bytes make_archive(const uint8_t *data, size_t size)
{
    char room[ARCHIVE_BYTES], name[32], storage[STORAGE_BYTES];
    struct bytes file = {malloc(size + 2 * ARCHIVE_BYTES), 0}, directory = {room, 0};
    fuzz_expect(file.data, "memory");
    memset(storage, 0x3f, sizeof storage);
    put_member(&file, &directory, "a/data.pkl", data, size);
    for (int i = 0; i < STORAGES; i++) {
        snprintf(name, sizeof name, "a/data/%d", i);
        put_member(&file, &directory, name, storage, sizeof storage);
    }
    size_t at = file.n;
    put(&file, directory.data, directory.n);
    put(&file, "PK\5\6\0\0\0", 8);
    put_number(&file, STORAGES + 1, 2);
    put_number(&file, STORAGES + 1, 2);
    put_number(&file, directory.n, 4);
    put_number(&file, at, 4);
    put_number(&file, 0, 2);
    return file;
}

static void read_tensors(const struct safetensors *s, size_t size)
{
    for (int64_t i = 0; i < s->n; i++) {
        struct err e = {0};
        const struct tensor_entry *t = &s->entries[i];
        fuzz_expect(t->n_bytes <= STORAGE_BYTES && t->offset >= 0 &&
                        t->offset + t->n_bytes <= (int64_t)size,
                    "a tensor inside its storage");
        void *numbers = malloc((size_t)t->n_elements * 4 + 1);
        enum status st = dtype_is_float(t->dtype)
                             ? safetensors_read_range(s, t, 0, t->n_elements, numbers, &e)
                             : safetensors_read_i32(s, t, numbers, &e);
        fuzz_expect_status(st, &e);
        free(numbers);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pickle_tensors all = {0};
    struct safetensors s = {.fd = -1};
    struct err alone = {0}, inside = {0};
    enum status st = pickle_read("data.pkl", data, size, &all, &alone);
    fuzz_expect_status(st, &alone);
    fuzz_expect(st == OK || st == ERR_FORMAT, "malformed at worst");
    pickle_free(&all);

    struct bytes file = make_archive(data, size);
    enum status archived = format_pytorch.open(fuzz_file(0, file.data, file.n), &s, &inside);
    fuzz_expect_status(archived, &inside);
    fuzz_expect(st == OK || archived == st, "a pickle that is refused alone to be so in a file");
    fuzz_expect(archived != OK || s.n == all.n, "as many tensors in a file as alone");
    read_tensors(&s, file.n);
    safetensors_close(&s);
    free(file.data);
    return 0;
}
