/* pickle_value: what pickle.c (opcodes) and pickle_torch.c (PyTorch's meaning of them) share. */
#pragma once
#include "checkpoint/pickle.h"
#include <stdbool.h>

enum kind {
    KIND_NONE,
    KIND_BOOL,
    KIND_INT,
    KIND_FLOAT, /* its value does not matter */
    KIND_TEXT,
    KIND_TUPLE,
    KIND_LIST,
    KIND_DICT,    /* items: key, value, key, value, ... */
    KIND_GLOBAL,  /* integer: which (pickle_global_find) */
    KIND_STORAGE, /* integer: enum dtype; items: key, count */
    KIND_TENSOR,  /* items: storage, offset, shape, stride */
};

/* Values refer to each other by their index, so that shared and even cyclic ones need no care. */
struct value {
    enum kind kind;
    int64_t integer;
    const char *text; /* KIND_TEXT: n bytes in the pickle, not terminated */
    int64_t n;        /* bytes of text, or items */
    int64_t *items;   /* owned */
    int64_t capacity;
};

struct vm {
    const char *name;
    const unsigned char *data;
    size_t n, at;
    int code; /* the opcode in hand */
    int64_t steps;
    struct value *values;
    int64_t n_values, values_capacity;
    int64_t *stack, n_stack, stack_capacity;
    int64_t *marks, n_marks, marks_capacity;
    int64_t *memo, n_memo, memo_capacity; /* -1: not set */
};

/* A new value of that kind; *index says which. ERR_NOMEM. */
MUST_USE enum status vm_new(struct vm *v, enum kind kind, int64_t integer, int64_t *index,
                            struct err *e);
MUST_USE enum status vm_add_item(struct vm *v, int64_t container, int64_t item, struct err *e);
MUST_USE enum status vm_push(struct vm *v, int64_t index, struct err *e);

/* Item i of a tuple, list or other value with items; NULL when it has fewer. */
const struct value *vm_item(const struct vm *v, const struct value *container, int64_t i);

/* Which known name module.name is (texts of those lengths); -1 if none. */
int pickle_global_find(const char *module, int64_t n_module, const char *name, int64_t n_name);

/* *result = what global(*args) stands for. ERR_FORMAT. */
MUST_USE enum status pickle_reduce(struct vm *v, int64_t global, int64_t args, int64_t *result,
                                   struct err *e);

/* *result = the storage that the persistent id `id` names. ERR_FORMAT. */
MUST_USE enum status pickle_storage(struct vm *v, int64_t id, int64_t *result, struct err *e);

/* The tensors of the finished dict `root`. ERR_FORMAT. */
MUST_USE enum status pickle_collect(struct vm *v, int64_t root, struct pickle_tensor **out,
                                    int64_t *n_out, struct err *e);
