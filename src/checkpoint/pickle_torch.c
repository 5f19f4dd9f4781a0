/* The Python globals of a state dict and what they construct. Source: torch/_utils.py and
 * torch/serialization.py. */
#include "checkpoint/pickle_internal.h"
#include "util/mem.h"

enum role {
    ROLE_TYPE,      /* a class that is named, never called */
    ROLE_STORAGE,   /* a storage class */
    ROLE_DICT,      /* OrderedDict() */
    ROLE_TENSOR,    /* (storage, offset, shape, stride, ...) */
    ROLE_PARAMETER, /* (tensor, ...) */
    ROLE_WRAPPED,   /* (function, type, its arguments, attributes) */
    ROLE_SIZE,      /* (tuple) */
};

static const struct {
    const char *module, *name;
    enum role role;
    enum dtype dtype; /* of a storage class */
} globals[] = {
    {"collections", "OrderedDict", ROLE_DICT, DTYPE_N},
    {"torch._utils", "_rebuild_tensor_v2", ROLE_TENSOR, DTYPE_N},
    {"torch._utils", "_rebuild_parameter", ROLE_PARAMETER, DTYPE_N},
    {"torch._utils", "_rebuild_parameter_with_state", ROLE_PARAMETER, DTYPE_N},
    {"torch._tensor", "_rebuild_from_type_v2", ROLE_WRAPPED, DTYPE_N},
    {"torch", "Tensor", ROLE_TYPE, DTYPE_N},
    {"torch.nn.parameter", "Parameter", ROLE_TYPE, DTYPE_N},
    {"torch", "Size", ROLE_SIZE, DTYPE_N},
    {"torch", "DoubleStorage", ROLE_STORAGE, DTYPE_F64},
    {"torch", "FloatStorage", ROLE_STORAGE, DTYPE_F32},
    {"torch", "HalfStorage", ROLE_STORAGE, DTYPE_F16},
    {"torch", "BFloat16Storage", ROLE_STORAGE, DTYPE_BF16},
    {"torch", "LongStorage", ROLE_STORAGE, DTYPE_I64},
    {"torch", "IntStorage", ROLE_STORAGE, DTYPE_I32},
    {"torch", "ShortStorage", ROLE_STORAGE, DTYPE_I16},
    {"torch", "CharStorage", ROLE_STORAGE, DTYPE_I8},
    {"torch", "ByteStorage", ROLE_STORAGE, DTYPE_U8},
    {"torch", "BoolStorage", ROLE_STORAGE, DTYPE_BOOL},
};

static bool equals(const char *text, int64_t n, const char *word)
{
    return (size_t)n == strlen(word) && memcmp(text, word, (size_t)n) == 0;
}

int pickle_global_find(const char *module, int64_t n_module, const char *name, int64_t n_name)
{
    for (int i = 0; i < (int)(sizeof globals / sizeof *globals); i++)
        if (equals(module, n_module, globals[i].module) && equals(name, n_name, globals[i].name))
            return i;
    return -1;
}

static bool has_kind(const struct value *value, enum kind kind)
{
    return value && value->kind == kind;
}

static enum status rebuild_tensor(struct vm *v, int64_t args, int64_t *result, struct err *e)
{
    const struct value *a = &v->values[args];
    NEED(has_kind(vm_item(v, a, 0), KIND_STORAGE) && has_kind(vm_item(v, a, 1), KIND_INT) &&
             has_kind(vm_item(v, a, 2), KIND_TUPLE) && has_kind(vm_item(v, a, 3), KIND_TUPLE),
         ERR_FORMAT, "%s: a tensor is not made of storage, offset, shape and stride (byte %zu)",
         v->name, v->at);
    PASS(vm_new(v, KIND_TENSOR, 0, result, e));
    for (int i = 0; i < 4; i++) PASS(vm_add_item(v, *result, v->values[args].items[i], e));
    return OK;
}

/* A tensor with Python attributes: they are dropped. */
static enum status rebuild_wrapped(struct vm *v, int64_t args, int64_t *result, struct err *e)
{
    const struct value *a = &v->values[args], *function = vm_item(v, a, 0);
    NEED(has_kind(function, KIND_GLOBAL) && globals[function->integer].role == ROLE_TENSOR &&
             has_kind(vm_item(v, a, 1), KIND_GLOBAL) && has_kind(vm_item(v, a, 2), KIND_TUPLE),
         ERR_FORMAT, "%s: a subclass of Tensor is not supported (byte %zu)", v->name, v->at);
    return rebuild_tensor(v, a->items[2], result, e);
}

enum status pickle_reduce(struct vm *v, int64_t global, int64_t args, int64_t *result,
                          struct err *e)
{
    const struct value *a = &v->values[args];
    switch (globals[global].role) {
    case ROLE_DICT:
        NEED(a->n == 0, ERR_FORMAT, "%s: an OrderedDict with arguments", v->name);
        return vm_new(v, KIND_DICT, 0, result, e);
    case ROLE_TENSOR:
        return rebuild_tensor(v, args, result, e);
    case ROLE_WRAPPED:
        return rebuild_wrapped(v, args, result, e);
    case ROLE_PARAMETER:
        NEED(has_kind(vm_item(v, a, 0), KIND_TENSOR), ERR_FORMAT,
             "%s: a parameter that is not a tensor (byte %zu)", v->name, v->at);
        *result = a->items[0];
        return OK;
    case ROLE_SIZE:
        NEED(has_kind(vm_item(v, a, 0), KIND_TUPLE), ERR_FORMAT,
             "%s: a torch.Size that is not a tuple (byte %zu)", v->name, v->at);
        *result = a->items[0];
        return OK;
    default:
        RAISE(ERR_FORMAT, "%s: a call of %s.%s is no part of a state dict: refused", v->name,
              globals[global].module, globals[global].name);
    }
}

/* ("storage", class, key, device, number of elements) */
enum status pickle_storage(struct vm *v, int64_t id, int64_t *result, struct err *e)
{
    const struct value *p = &v->values[id];
    const struct value *word = vm_item(v, p, 0), *type = vm_item(v, p, 1);
    NEED(p->kind == KIND_TUPLE && has_kind(word, KIND_TEXT) &&
             equals(word->text, word->n, "storage") && has_kind(type, KIND_GLOBAL) &&
             globals[type->integer].role == ROLE_STORAGE && has_kind(vm_item(v, p, 2), KIND_TEXT) &&
             has_kind(vm_item(v, p, 4), KIND_INT),
         ERR_FORMAT, "%s: a persistent id that is not a typed storage (byte %zu)", v->name, v->at);
    int64_t key = p->items[2], count = p->items[4];
    PASS(vm_new(v, KIND_STORAGE, (int64_t)globals[type->integer].dtype, result, e));
    PASS(vm_add_item(v, *result, key, e));
    return vm_add_item(v, *result, count, e);
}

/* Keys of storages are numbers. */
enum { NAME_MAX_BYTES = 4095, KEY_MAX_BYTES = 64 };

static enum status copy_text(const struct vm *v, const struct value *text, int64_t max, char **out,
                             struct err *e)
{
    NEED(!memchr(text->text, '\0', (size_t)text->n) && text->n <= max, ERR_FORMAT,
         "%s: a name with NUL bytes, or of more than %lld bytes", v->name, (long long)max);
    return mem_format(out, e, "%.*s", (int)text->n, text->text);
}

static enum status copy_dims(const struct vm *v, const struct value *tuple, const char *name,
                             int64_t dims[TENSOR_DIMS], struct err *e)
{
    for (int i = 0; i < (int)tuple->n; i++) {
        const struct value *dim = vm_item(v, tuple, i);
        NEED(has_kind(dim, KIND_INT) && dim->integer >= 0, ERR_FORMAT,
             "%s: tensor %s: a dimension or stride is not a non-negative integer", v->name, name);
        dims[i] = dim->integer;
    }
    return OK;
}

static enum status collect_one(const struct vm *v, const struct value *key,
                               const struct value *value, struct pickle_tensor *t, struct err *e)
{
    NEED(has_kind(key, KIND_TEXT), ERR_FORMAT, "%s: a key of the state dict is not a text",
         v->name);
    PASS(copy_text(v, key, NAME_MAX_BYTES, &t->name, e));
    NEED(value->kind == KIND_TENSOR, ERR_FORMAT,
         "%s: entry %s is not a tensor: the file is expected to hold a plain state dict", v->name,
         t->name);
    const struct value *storage = vm_item(v, value, 0), *shape = vm_item(v, value, 2),
                       *stride = vm_item(v, value, 3);
    t->dtype = (enum dtype)storage->integer;
    t->storage_count = vm_item(v, storage, 1)->integer;
    t->offset = vm_item(v, value, 1)->integer;
    PASS(copy_text(v, vm_item(v, storage, 0), KEY_MAX_BYTES, &t->storage, e));
    NEED(shape->n <= TENSOR_DIMS && shape->n == stride->n, ERR_FORMAT,
         "%s: tensor %s: %lld dimensions and %lld strides, at most %d are read", v->name, t->name,
         (long long)shape->n, (long long)stride->n, TENSOR_DIMS);
    t->n_dims = (int)shape->n;
    PASS(copy_dims(v, shape, t->name, t->shape, e));
    return copy_dims(v, stride, t->name, t->stride, e);
}

enum status pickle_collect(struct vm *v, int64_t root, struct pickle_tensors *out, struct err *e)
{
    const struct value *dict = &v->values[root];
    size_t names = 0;
    NEED(dict->kind == KIND_DICT, ERR_FORMAT, "%s: holds no state dict", v->name);
    PASS(mem_zero(&out->tensors, dict->n / 2, sizeof *out->tensors, v->name, e));
    for (int64_t i = 0; i < dict->n / 2; i++) {
        struct pickle_tensor *t = &out->tensors[out->n++];
        PASS(collect_one(v, vm_item(v, dict, 2 * i), vm_item(v, dict, 2 * i + 1), t, e));
        names += strlen(t->name);
        /* a hostile pickle may repeat a name through its memo to use up memory */
        NEED(names <= v->n, ERR_FORMAT, "%s: it has tensor %.100s several times", v->name, t->name);
    }
    return OK;
}
