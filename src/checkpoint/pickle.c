#include "checkpoint/pickle.h"
#include "checkpoint/pickle_internal.h"
#include "util/mem.h"

#define CHECK(cond, v, what)                                                                       \
    NEED(cond, ERR_FORMAT, "%s: damaged at byte %zu: %s", (v)->name, (v)->at, what)

enum status vm_new(struct vm *v, enum kind kind, int64_t integer, int64_t *index, struct err *e)
{
    PASS(mem_grow(&v->values, v->n_values, &v->values_capacity, sizeof *v->values, e));
    v->values[v->n_values] = (struct value){.kind = kind, .integer = integer};
    *index = v->n_values++;
    return OK;
}

enum status vm_add_item(struct vm *v, int64_t container, int64_t item, struct err *e)
{
    struct value *c = &v->values[container];
    PASS(mem_grow(&c->items, c->n, &c->capacity, sizeof *c->items, e));
    c->items[c->n++] = item;
    return OK;
}

/* Pushes a value on the stack. ERR_NOMEM. */
static enum status vm_push(struct vm *v, int64_t index, struct err *e)
{
    PASS(mem_grow(&v->stack, v->n_stack, &v->stack_capacity, sizeof *v->stack, e));
    v->stack[v->n_stack++] = index;
    return OK;
}

const struct value *vm_item(const struct vm *v, const struct value *container, int64_t i)
{
    return container->items && i < container->n ? &v->values[container->items[i]] : NULL;
}

/* ---- the pickle's bytes ---- */

static enum status take(struct vm *v, size_t n, const unsigned char **bytes, struct err *e)
{
    CHECK(n <= v->n - v->at, v, "it ends inside an instruction");
    *bytes = v->data + v->at;
    v->at += n;
    return OK;
}

static enum status take_number(struct vm *v, int bytes, uint64_t *value, struct err *e)
{
    const unsigned char *p = NULL;
    PASS(take(v, (size_t)bytes, &p, e));
    *value = 0;
    for (int i = 0; i < bytes; i++) *value |= (uint64_t)p[i] << 8 * i;
    return OK;
}

/* ---- the stack ---- */

/* Number of values above the last mark: those below it cannot be popped. */
static int64_t reach(const struct vm *v)
{
    return v->n_stack - (v->n_marks ? v->marks[v->n_marks - 1] : 0);
}

static enum status pop(struct vm *v, int64_t *index, struct err *e)
{
    CHECK(reach(v) > 0, v, "the stack is empty");
    *index = v->stack[--v->n_stack];
    return OK;
}

static enum status push_new(struct vm *v, enum kind kind, int64_t integer, struct err *e)
{
    int64_t index;
    PASS(vm_new(v, kind, integer, &index, e));
    return vm_push(v, index, e);
}

/* Removes the last mark. *from = stack position of the first value above it. */
static enum status pop_mark(struct vm *v, int64_t *from, struct err *e)
{
    CHECK(v->n_marks > 0, v, "no mark");
    *from = v->marks[--v->n_marks];
    return OK;
}

/* ---- instructions ---- */

static enum status op_proto(struct vm *v, struct err *e)
{
    uint64_t version = 0;
    PASS(take_number(v, 1, &version, e));
    NEED(version >= 2 && version <= 5, ERR_FORMAT, "%s: pickle protocol %d is not supported",
         v->name, (int)version);
    return OK;
}

static enum status op_frame(struct vm *v, struct err *e)
{
    uint64_t length;
    return take_number(v, 8, &length, e); /* a hint for buffered readers */
}

static enum status op_mark(struct vm *v, struct err *e)
{
    PASS(mem_grow(&v->marks, v->n_marks, &v->marks_capacity, sizeof *v->marks, e));
    v->marks[v->n_marks++] = v->n_stack;
    return OK;
}

static enum status op_constant(struct vm *v, struct err *e)
{
    static const enum kind kinds[256] = {['N'] = KIND_NONE, [0x88] = KIND_BOOL, [0x89] = KIND_BOOL,
                                         ['}'] = KIND_DICT, [']'] = KIND_LIST,  [')'] = KIND_TUPLE};
    return push_new(v, kinds[v->code], v->code == 0x88, e);
}

static enum status op_int(struct vm *v, struct err *e)
{
    uint64_t value = 0, bytes = v->code == 'K' ? 1 : v->code == 'M' ? 2 : 4;
    if (v->code == 0x8a) PASS(take_number(v, 1, &bytes, e)); /* LONG1: two's complement */
    NEED(bytes <= 8, ERR_FORMAT, "%s: an integer of %d bytes is not supported", v->name,
         (int)bytes);
    PASS(take_number(v, (int)bytes, &value, e));
    bool is_signed = v->code == 'J' || v->code == 0x8a;
    if (is_signed && bytes > 0 && bytes < 8 && value >> (8 * bytes - 1))
        value |= ~0ull << 8 * bytes;
    return push_new(v, KIND_INT, (int64_t)value, e);
}

static enum status op_float(struct vm *v, struct err *e)
{
    uint64_t bits = 0;
    PASS(take_number(v, 8, &bits, e));
    return push_new(v, KIND_FLOAT, 0, e);
}

static enum status op_text(struct vm *v, struct err *e)
{
    uint64_t n = 0;
    const unsigned char *bytes = NULL;
    PASS(take_number(v, v->code == 0x8c ? 1 : v->code == 'X' ? 4 : 8, &n, e));
    PASS(take(v, n, &bytes, e));
    PASS(push_new(v, KIND_TEXT, 0, e));
    v->values[v->n_values - 1].text = (const char *)bytes;
    v->values[v->n_values - 1].n = (int64_t)n;
    return OK;
}

static enum status op_put(struct vm *v, struct err *e)
{
    uint64_t index = (uint64_t)v->n_memo;
    if (v->code != 0x94) PASS(take_number(v, v->code == 'q' ? 1 : 4, &index, e));
    CHECK(reach(v) > 0, v, "nothing to remember");
    /* picklers count up: an index beyond the opcodes so far is meant to fill the memory */
    CHECK(index <= (uint64_t)v->steps, v, "a memo index that is out of order");
    while (v->n_memo <= (int64_t)index) {
        PASS(mem_grow(&v->memo, v->n_memo, &v->memo_capacity, sizeof *v->memo, e));
        v->memo[v->n_memo++] = -1;
    }
    v->memo[index] = v->stack[v->n_stack - 1];
    return OK;
}

static enum status op_get(struct vm *v, struct err *e)
{
    uint64_t index = 0;
    PASS(take_number(v, v->code == 'h' ? 1 : 4, &index, e));
    CHECK(index < (uint64_t)v->n_memo && v->memo[index] >= 0, v, "a memo entry that is not set");
    return vm_push(v, v->memo[index], e);
}

static enum status push_global(struct vm *v, const char *module, int64_t n_module, const char *name,
                               int64_t n_name, struct err *e)
{
    int which = pickle_global_find(module, n_module, name, n_name);
    NEED(which >= 0, ERR_FORMAT,
         "%s: refers to %.*s.%.*s, which is no part of a state dict: refused (nothing in a "
         "pickle is run)",
         v->name, (int)(n_module < 100 ? n_module : 100), module,
         (int)(n_name < 100 ? n_name : 100), name);
    return push_new(v, KIND_GLOBAL, which, e);
}

/* GLOBAL: two lines, module and name. */
static enum status op_global(struct vm *v, struct err *e)
{
    const char *text[2];
    int64_t n[2];
    for (int i = 0; i < 2; i++) {
        text[i] = (const char *)v->data + v->at;
        const char *newline = memchr(text[i], '\n', v->n - v->at);
        CHECK(newline, v, "it ends inside a name");
        n[i] = newline - text[i];
        v->at += (size_t)n[i] + 1;
    }
    return push_global(v, text[0], n[0], text[1], n[1], e);
}

static enum status op_stack_global(struct vm *v, struct err *e)
{
    int64_t name = 0, module = 0;
    PASS(pop(v, &name, e));
    PASS(pop(v, &module, e));
    const struct value *a = &v->values[module], *b = &v->values[name];
    CHECK(a->kind == KIND_TEXT && b->kind == KIND_TEXT, v, "a name that is not a text");
    return push_global(v, a->text, a->n, b->text, b->n, e);
}

static enum status op_tuple(struct vm *v, struct err *e)
{
    int64_t from = v->n_stack - (v->code - 0x84); /* TUPLE1, 2, 3 */
    if (v->code == 't')
        PASS(pop_mark(v, &from, e));
    else
        CHECK(reach(v) >= v->code - 0x84, v, "the stack is empty");
    /* Replaces the values from stack position `from` on by a tuple of them. */
    int64_t tuple;
    PASS(vm_new(v, KIND_TUPLE, 0, &tuple, e));
    for (int64_t i = from; i < v->n_stack; i++) PASS(vm_add_item(v, tuple, v->stack[i], e));
    v->n_stack = from;
    return vm_push(v, tuple, e);
}

/* SETITEM(S) and APPEND(S): moves the topmost values into the container below them. */
static enum status op_fill(struct vm *v, struct err *e)
{
    bool pairs = v->code == 's' || v->code == 'u';
    int64_t from = v->n_stack - (pairs ? 2 : 1);
    if (v->code == 'u' || v->code == 'e')
        PASS(pop_mark(v, &from, e));
    else
        CHECK(reach(v) >= (pairs ? 3 : 2), v, "the stack is empty");
    CHECK(v->n_stack - from <= reach(v) - 1, v, "no container below the items");
    CHECK(!pairs || (v->n_stack - from) % 2 == 0, v, "a key without a value");
    int64_t container = v->stack[from - 1];
    CHECK(v->values[container].kind == (pairs ? KIND_DICT : KIND_LIST), v,
          "items for what is not a container");
    for (int64_t i = from; i < v->n_stack; i++) PASS(vm_add_item(v, container, v->stack[i], e));
    v->n_stack = from;
    return OK;
}

static enum status op_reduce(struct vm *v, struct err *e)
{
    int64_t args = 0, global = 0, result = 0;
    PASS(pop(v, &args, e));
    PASS(pop(v, &global, e));
    CHECK(v->values[global].kind == KIND_GLOBAL, v, "a call of what is not a function");
    CHECK(v->values[args].kind == KIND_TUPLE, v, "arguments that are not a tuple");
    PASS(pickle_reduce(v, v->values[global].integer, args, &result, e));
    return vm_push(v, result, e);
}

static enum status op_persistent(struct vm *v, struct err *e)
{
    int64_t id = 0, result = 0;
    PASS(pop(v, &id, e));
    PASS(pickle_storage(v, id, &result, e));
    return vm_push(v, result, e);
}

/* BUILD: drops attributes. An OrderedDict has some (versions of its modules). */
static enum status op_build(struct vm *v, struct err *e)
{
    int64_t state = 0;
    PASS(pop(v, &state, e));
    CHECK(reach(v) > 0, v, "the stack is empty");
    CHECK(v->values[v->stack[v->n_stack - 1]].kind == KIND_DICT, v,
          "attributes of what is not a dict");
    return OK;
}

typedef enum status (*op_function)(struct vm *v, struct err *e);

/* What protocols 2 to 5 write for a state dict. */
static const op_function operations[256] = {
    [0x80] = op_proto,    [0x95] = op_frame,     ['('] = op_mark,     ['}'] = op_constant,
    [']'] = op_constant,  [')'] = op_constant,   ['N'] = op_constant, [0x88] = op_constant,
    [0x89] = op_constant, ['J'] = op_int,        ['K'] = op_int,      ['M'] = op_int,
    [0x8a] = op_int,      ['G'] = op_float,      ['X'] = op_text,     [0x8c] = op_text,
    [0x8d] = op_text,     ['q'] = op_put,        ['r'] = op_put,      [0x94] = op_put,
    ['h'] = op_get,       ['j'] = op_get,        ['c'] = op_global,   [0x93] = op_stack_global,
    ['t'] = op_tuple,     [0x85] = op_tuple,     [0x86] = op_tuple,   [0x87] = op_tuple,
    ['s'] = op_fill,      ['u'] = op_fill,       ['a'] = op_fill,     ['e'] = op_fill,
    ['R'] = op_reduce,    ['Q'] = op_persistent, ['b'] = op_build,
};

static enum status run(struct vm *v, int64_t *root, struct err *e)
{
    NEED(v->n > 0 && v->data[0] == 0x80, ERR_FORMAT, "%s: not a pickle of protocol 2 or later",
         v->name);
    for (;; v->steps++) {
        CHECK(v->at < v->n, v, "it ends without a result");
        v->code = v->data[v->at++];
        if (v->code == '.') break;
        NEED(operations[v->code], ERR_FORMAT,
             "%s: pickle instruction 0x%02x at byte %zu is no part of a state dict: refused",
             v->name, v->code, v->at - 1);
        PASS(operations[v->code](v, e));
    }
    return pop(v, root, e);
}

static void vm_free(struct vm *v)
{
    for (int64_t i = 0; i < v->n_values; i++) free(v->values[i].items);
    free(v->values);
    free(v->stack);
    free(v->marks);
    free(v->memo);
}

enum status pickle_read(const char *name, const void *data, size_t n, struct pickle_tensors *out,
                        struct err *e)
{
    CLEANUP(vm_free) struct vm v = {.name = name, .data = data, .n = n};
    int64_t root = 0;
    PASS(run(&v, &root, e));
    return pickle_collect(&v, root, out, e);
}

void pickle_free(struct pickle_tensors *all)
{
    for (int64_t i = 0; i < all->n; i++) {
        free(all->tensors[i].name);
        free(all->tensors[i].storage);
    }
    free(all->tensors);
}
