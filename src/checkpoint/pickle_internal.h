/* pickle_internal: values and machine of the interpreter, shared by pickle.c (opcodes) and
 * pickle_torch.c (what PyTorch's globals mean). */
#pragma once
#include "checkpoint/pickle.h"

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

/* Values refer to each other by index in vm.values: shared and cyclic references are harmless. */
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
    int code;      /* the opcode that is executed */
    int64_t steps; /* opcodes so far */
    struct value *values;
    int64_t n_values, values_capacity;
    int64_t *stack, n_stack, stack_capacity;
    int64_t *marks, n_marks, marks_capacity;
    int64_t *memo, n_memo, memo_capacity; /* -1: not set */
};

/* *index = a new value of that kind. ERR_NOMEM. */
MUST_USE enum status vm_new(struct vm *v, enum kind kind, int64_t integer, int64_t *index,
                            struct err *e);
/* Appends value `item` to the items of value `container`. ERR_NOMEM. */
MUST_USE enum status vm_add_item(struct vm *v, int64_t container, int64_t item, struct err *e);

/* Item i of a value with items (borrowed until the next vm_new); NULL when it has fewer. */
const struct value *vm_item(const struct vm *v, const struct value *container, int64_t i);

/* Number of the known global module.name (texts of those lengths); -1 if it is not known. */
int pickle_global_find(const char *module, int64_t n_module, const char *name, int64_t n_name);

/* *result = the value of global(*args). ERR_FORMAT, ERR_NOMEM. */
MUST_USE enum status pickle_reduce(struct vm *v, int64_t global, int64_t args, int64_t *result,
                                   struct err *e);

/* *result = the storage that the persistent id (value `id`) names. ERR_FORMAT, ERR_NOMEM. */
MUST_USE enum status pickle_storage(struct vm *v, int64_t id, int64_t *result, struct err *e);

/* Adds the tensors of the dict `root` to *out, which is empty. ERR_FORMAT, ERR_NOMEM. */
MUST_USE enum status pickle_collect(struct vm *v, int64_t root, struct pickle_tensors *out,
                                    struct err *e);
