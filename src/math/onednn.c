#include "math/onednn.h"
#include "math/sums.h"

#ifdef QTRAJ_ONEDNN
#include "math/row.h"
#include "util/mem.h"
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdio.h>

static struct onednn found;
static dnnl_engine_t engine;
static char kernel[3][32]; /* by enum onednn_type: the kernel that every product must have */
static const dnnl_data_type_t of_a[] = {dnnl_bf16, dnnl_f32, dnnl_u8},
                              of_b[] = {dnnl_bf16, dnnl_f32, dnnl_s8},
                              of_y[] = {dnnl_f32, dnnl_f32, dnnl_s32};
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Sets of instructions are bits of dnnl_cpu_isa_t: a set that includes another has its bits. */
static bool has(dnnl_cpu_isa_t set)
{
    return ((unsigned)dnnl_get_effective_cpu_isa() & (unsigned)set) == (unsigned)set;
}

struct onednn_layout {
    dnnl_memory_desc_t of;
    int64_t n, k;
};

static bool good(dnnl_status_t status)
{
    return status == dnnl_success;
}

/* oneDNN divides a product over OpenMP's threads, and chooses its blocks by their number: one
 * thread while it is made and run. Returns the number to restore. */
static int one_thread(void)
{
    const int before = omp_get_max_threads();
    omp_set_num_threads(1);
    return before;
}

/* Tokens for which a layout is chosen; it serves any number. */
enum { TOKENS = 512 };

static enum onednn_type type_of(const dnnl_memory_desc_t *b)
{
    return b->data_type == dnnl_f32    ? ONEDNN_F32
           : b->data_type == dnnl_bf16 ? ONEDNN_BF16
                                       : ONEDNN_U8S8;
}

/* The product of a (m, k) with b of its type, whose layout may be "any"; NULL: out of memory.
 * add: to what is there. */
static dnnl_primitive_desc_t describe(const dnnl_memory_desc_t *b, int64_t m, int64_t n, int64_t k,
                                      bool add)
{
    dnnl_memory_desc_t a, y;
    dnnl_matmul_desc_t product;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t sum = NULL;
    dnnl_primitive_desc_t out = NULL;
    const dnnl_dims_t size_a = {m, k}, pitch_a = {k, 1}, size_y = {m, n}, pitch_y = {n, 1};
    const enum onednn_type type = type_of(b);
    bool ok = good(dnnl_memory_desc_init_by_strides(&a, 2, size_a, of_a[type], pitch_a)) &&
              good(dnnl_memory_desc_init_by_strides(&y, 2, size_y, of_y[type], pitch_y)) &&
              good(dnnl_matmul_desc_init(&product, &a, b, NULL, &y)) &&
              good(dnnl_primitive_attr_create(&attr)) &&
              good(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
    if (ok && add)
        ok = good(dnnl_post_ops_create(&sum)) && good(dnnl_post_ops_append_sum(sum, 1)) &&
             good(dnnl_primitive_attr_set_post_ops(attr, sum));
    if (ok && !good(dnnl_primitive_desc_create(&out, &product, attr, engine, NULL))) out = NULL;
    if (sum) dnnl_post_ops_destroy(sum);
    if (attr) dnnl_primitive_attr_destroy(attr);
    return out;
}

static dnnl_primitive_desc_t describe_any(enum onednn_type type, int64_t n, int64_t k)
{
    dnnl_memory_desc_t any;
    const dnnl_dims_t size = {k, n};
    if (!good(dnnl_memory_desc_init_by_tag(&any, 2, size, of_b[type], dnnl_format_tag_any)))
        return NULL;
    return describe(&any, TOKENS, n, k, false);
}

static const char *kernel_of(const_dnnl_primitive_desc_t what)
{
    const char *name = "ref";
    dnnl_primitive_desc_query(what, dnnl_query_impl_info_str, 0, (void *)&name);
    return name;
}

/* Finds the kernel for products of that type. False: there is none, or just plain loops. */
static bool find_kernel(enum onednn_type type)
{
    const int before = one_thread();
    char *name = kernel[type];
    dnnl_primitive_desc_t what = describe_any(type, TOKENS, TOKENS);
    snprintf(name, sizeof kernel[type], "%s", what ? kernel_of(what) : "ref");
    if (what) dnnl_primitive_desc_destroy(what);
    omp_set_num_threads(before);
    return strncmp(name, "ref", 3) != 0;
}

static bool set(const char *variable)
{
    const char *value = getenv(variable);
    return value && value[0];
}

/* What keeps oneDNN from being used at all; NULL: nothing. */
static const char *obstacle(const dnnl_version_t *v, const char **remedy)
{
    *remedy = "a oneDNN 2 with OpenMP's threads, as Debian's libdnnl2";
    if (v->major != DNNL_VERSION_MAJOR) return "the library is not the oneDNN 2 of the build";
    if (v->cpu_runtime != DNNL_RUNTIME_OMP && v->cpu_runtime != DNNL_RUNTIME_SEQ)
        return "oneDNN's threads are not OpenMP's";
    *remedy = "a newer oneDNN 2";
    if (!good(dnnl_engine_create(&engine, dnnl_cpu, 0))) return "oneDNN finds no CPU";
    return NULL;
}

/* The same of its products of bf16 numbers. */
static const char *obstacle_bf16(const char **remedy)
{
    const bool limited = set("ONEDNN_MAX_CPU_ISA") || set("DNNL_MAX_CPU_ISA");
    if (limited) *remedy = "unset ONEDNN_MAX_CPU_ISA and DNNL_MAX_CPU_ISA";
    if (!has(dnnl_cpu_isa_avx512_core_bf16))
        return limited ? "oneDNN may use no instructions for bf16 (ONEDNN_MAX_CPU_ISA)"
                       : "oneDNN finds no instructions for bf16";
    if (!find_kernel(ONEDNN_BF16)) return "oneDNN has no fast kernel for products of bf16 numbers";
    return NULL;
}

/* Runs it with arguments of these places and layouts. */
struct argument {
    int name;
    const dnnl_memory_desc_t *layout;
    void *data;
};
enum { ARGUMENTS_MAX = 4 };

static bool execute(const_dnnl_primitive_t primitive, const struct argument *from, int n)
{
    dnnl_stream_t stream = NULL;
    dnnl_exec_arg_t to[ARGUMENTS_MAX];
    int made = 0;
    bool ok = good(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    for (; ok && made < n; made += ok) {
        to[made].arg = from[made].name;
        ok = good(dnnl_memory_create(&to[made].memory, from[made].layout, engine, from[made].data));
    }
    ok = ok && good(dnnl_primitive_execute(primitive, stream, n, to)) &&
         good(dnnl_stream_wait(stream));
    for (int i = 0; i < made; i++) dnnl_memory_destroy(to[i].memory);
    if (stream) dnnl_stream_destroy(stream);
    return ok;
}

static const dnnl_memory_desc_t *layout_of(const_dnnl_primitive_desc_t what, dnnl_query_t which)
{
    return dnnl_primitive_desc_query_md(what, which, 0);
}

static bool reorder(const void *b, const struct onednn_layout *m, void *data)
{
    dnnl_memory_desc_t plain;
    dnnl_primitive_desc_t what = NULL;
    dnnl_primitive_t primitive = NULL;
    const dnnl_dims_t size = {m->k, m->n}, pitch = {1, m->k};
    bool ok = good(dnnl_memory_desc_init_by_strides(&plain, 2, size, m->of.data_type, pitch)) &&
              good(dnnl_reorder_primitive_desc_create(&what, &plain, engine, &m->of, engine, NULL));
    const struct argument arguments[] = {{DNNL_ARG_FROM, &plain, (void *)(uintptr_t)b},
                                         {DNNL_ARG_TO, &m->of, data}};
    ok = ok && good(dnnl_primitive_create(&primitive, what)) && execute(primitive, arguments, 2);
    if (primitive) dnnl_primitive_destroy(primitive);
    if (what) dnnl_primitive_desc_destroy(what);
    return ok;
}

enum status onednn_layout_make(enum onednn_type type, int64_t n, int64_t k,
                               struct onednn_layout **out, struct err *e)
{
    struct onednn_layout *l = NULL;
    *out = NULL;
    PASS(mem_zero(&l, 1, sizeof *l, "prepared weights", e));
    const int before = one_thread();
    dnnl_primitive_desc_t what = describe_any(type, n, k);
    if (what) *l = (struct onednn_layout){*layout_of(what, dnnl_query_weights_md), n, k};
    if (what) dnnl_primitive_desc_destroy(what);
    omp_set_num_threads(before);
    if (what) *out = l;
    if (!what) free(l);
    NEED(what, ERR_NOMEM, "oneDNN cannot describe a product with a (%lld, %lld) matrix",
         (long long)n, (long long)k);
    return OK;
}

int64_t onednn_layout_bytes(const struct onednn_layout *l)
{
    return (int64_t)dnnl_memory_desc_get_size(&l->of);
}

/* FNV-1a, of numbers. */
static uint64_t mix(uint64_t digest, int64_t x)
{
    for (int i = 0; i < 8; i++)
        digest = (digest ^ (uint64_t)(x >> 8 * i & 255)) * UINT64_C(1099511628211);
    return digest;
}

uint64_t onednn_layout_digest(const struct onednn_layout *l)
{
    const dnnl_memory_desc_t *d = &l->of;
    const dnnl_blocking_desc_t *b = &d->format_desc.blocking;
    const int64_t first[] = {l->n,       l->k,           onednn_layout_bytes(l),
                             d->ndims,   d->data_type,   d->format_kind,
                             d->offset0, b->inner_nblks, (int64_t)d->extra.flags};
    uint64_t digest = UINT64_C(14695981039346656037);
    const char *const names[] = {found.name, found.f32_name, found.integers_name};
    for (const char *c = names[type_of(d)]; *c; c++) digest = mix(digest, *c);
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) digest = mix(digest, first[i]);
    for (int i = 0; i < d->ndims; i++)
        digest = mix(mix(mix(digest, d->padded_dims[i]), d->padded_offsets[i]), b->strides[i]);
    for (int i = 0; i < b->inner_nblks; i++)
        digest = mix(mix(digest, b->inner_blks[i]), b->inner_idxs[i]);
    return digest;
}

enum status onednn_pack(const struct onednn_layout *l, const void *b, void *data, struct err *e)
{
    const int before = one_thread();
    const bool ok = reorder(b, l, data);
    omp_set_num_threads(before);
    NEED(ok, ERR_NOMEM, "oneDNN cannot lay out a (%lld, %lld) matrix", (long long)l->n,
         (long long)l->k);
    return OK;
}

/* A product that a thread has computed before: to describe one takes a hundredth of its time. */
struct product {
    dnnl_memory_desc_t b; // its layout, and with it n, k and the type
    int64_t m;
    bool add;
    dnnl_primitive_desc_t what; // NULL: none
    dnnl_primitive_t primitive;
    uint64_t used; /* when: the thread's products are counted */
};

static void product_forget(struct product *p)
{
    if (p->primitive) dnnl_primitive_destroy(p->primitive);
    if (p->what) dnnl_primitive_desc_destroy(p->what);
    *p = (struct product){0};
}

/* The thread's product of a (m, k) with b (k, n); NULL: out of memory, or oneDNN has another kernel
 * for this shape, whose bits are others. It is described in the place of the one that was used
 * least recently, if it is not there. */
static const struct product *product_find(const dnnl_memory_desc_t *b, int64_t m, int64_t n,
                                          int64_t k, bool add)
{
    enum { KEPT = 16 };
    static _Thread_local struct product kept[KEPT];
    static _Thread_local uint64_t now;
    struct product *p = kept;
    now++;
    for (struct product *q = kept; q < kept + KEPT; q++) {
        if (q->what && q->m == m && q->add == add && dnnl_memory_desc_equal(&q->b, b)) {
            q->used = now;
            return q;
        }
        if (q->used < p->used) p = q;
    }
    product_forget(p);
    *p = (struct product){
        .b = *b, .m = m, .add = add, .what = describe(b, m, n, k, add), .used = now};
    const enum onednn_type type = type_of(b);
    if (p->what && (type == ONEDNN_U8S8 || strcmp(kernel_of(p->what), kernel[type]) == 0) &&
        good(dnnl_primitive_create(&p->primitive, p->what)))
        return p;
    p->primitive = NULL;
    product_forget(p);
    return NULL;
}

/* y = or += a times b, whose layout is given; rows of a and y without gaps. False: as NULL
 * above. */
static bool multiply(void *y, const void *a, const dnnl_memory_desc_t *layout, const void *b,
                     int64_t m, int64_t n, int64_t k, bool add)
{
    static _Thread_local struct mem_kept scratch;
    const int before = one_thread();
    const struct product *p = product_find(layout, m, n, k, add);
    bool ok = p != NULL;
    if (ok) {
        const dnnl_memory_desc_t *beside = layout_of(p->what, dnnl_query_scratchpad_md);
        void *space = mem_keep(&scratch, (int64_t)dnnl_memory_desc_get_size(beside));
        const struct argument arguments[] = {
            {DNNL_ARG_SRC, layout_of(p->what, dnnl_query_src_md), (void *)(uintptr_t)a},
            {DNNL_ARG_WEIGHTS, layout, (void *)(uintptr_t)b},
            {DNNL_ARG_DST, layout_of(p->what, dnnl_query_dst_md), y},
            {DNNL_ARG_SCRATCHPAD, beside, space}};
        ok = space && execute(p->primitive, arguments, ARGUMENTS_MAX);
    }
    omp_set_num_threads(before);
    return ok;
}

/* Whether products in f32 have the bits of sums_nt, which computes the small ones: so no
 * number depends on which of the two computes it. Terms beyond both lengths of the sums. */
static bool f32_agrees(void)
{
    enum { ROWS = 33, COLS = 48, TERMS = 1100 };
    static float x[ROWS * TERMS], w[COLS * TERMS], y[2][ROWS * COLS];
    bool same = true;
    for (int i = 0; i < ROWS * TERMS; i++) x[i] = (float)(i * 37 % 101 - 50) / 64;
    for (int i = 0; i < COLS * TERMS; i++) w[i] = (float)(i * 53 % 97 - 48) / 7;
    for (int64_t k = TERMS / 2; k <= TERMS && same; k += TERMS / 2) {
        dnnl_memory_desc_t layout;
        const dnnl_dims_t size = {k, COLS}, pitch = {1, k};
        same = sums_nt(y[0], COLS, x, w, ROWS, COLS, k) &&
               good(dnnl_memory_desc_init_by_strides(&layout, 2, size, dnnl_f32, pitch)) &&
               multiply(y[1], x, &layout, w, ROWS, COLS, k, false) &&
               memcmp(y[0], y[1], sizeof y[0]) == 0;
    }
    return same;
}

/* Whether sums of the largest products of bytes are exact. */
static bool integers_agree(void)
{
    enum { ROWS = 33, COLS = 48, TERMS = 301, BYTES = 1 << 15 };
    static uint8_t a[ROWS * TERMS], packed[BYTES] __attribute__((aligned(64)));
    static int8_t b[COLS * TERMS];
    static int32_t y[ROWS * COLS];
    struct onednn_layout *l = NULL;
    memset(a, 255, sizeof a);
    for (int i = 0; i < COLS * TERMS; i++) b[i] = i / TERMS % 2 ? 127 : -128;
    bool same = onednn_layout_make(ONEDNN_U8S8, COLS, TERMS, &l, NULL) == OK &&
                onednn_layout_bytes(l) <= BYTES && onednn_pack(l, b, packed, NULL) == OK &&
                multiply(y, a, &l->of, packed, ROWS, COLS, TERMS, false);
    for (int i = 0; i < ROWS * COLS; i++)
        same = same && y[i] == TERMS * 255 * (i % COLS % 2 ? 127 : -128);
    free(l);
    return same;
}

static void name(char to[64], const dnnl_version_t *v, enum onednn_type type)
{
    snprintf(to, 64, "oneDNN %d.%d.%d %s", v->major, v->minor, v->patch, kernel[type]);
}

static void find(void)
{
    const dnnl_version_t *v = dnnl_version();
    found.why_not = obstacle(v, &found.remedy);
    if (found.why_not) return;
    found.f32 = has(dnnl_cpu_isa_avx512_core) && find_kernel(ONEDNN_F32) && f32_agrees();
    if (found.f32) name(found.f32_name, v, ONEDNN_F32);
    found.integers =
        has(dnnl_cpu_isa_avx512_core_vnni) && find_kernel(ONEDNN_U8S8) && integers_agree();
    if (found.integers) name(found.integers_name, v, ONEDNN_U8S8);
    found.why_not = obstacle_bf16(&found.remedy);
    if (found.why_not) return;
    found.units = has(dnnl_cpu_isa_avx512_core_amx) ? ONEDNN_AMX : ONEDNN_AVX512;
    name(found.name, v, ONEDNN_BF16);
}

const struct onednn *onednn_found(void)
{
    pthread_once(&once, find);
    return &found;
}

bool onednn_multiply(void *y, const void *a, const struct onednn_layout *l, const void *data,
                     int64_t m, bool add)
{
    return multiply(y, a, &l->of, data, m, l->n, l->k, add);
}

/* oneDNN has fast kernels only for results without gaps between rows, so others are computed apart.
 */
bool onednn_product(float *y, int64_t ldy, const float *a, const float *b, bool turned, int64_t m,
                    int64_t n, int64_t k, bool add)
{
    static _Thread_local struct mem_kept dense;
    dnnl_memory_desc_t layout;
    const dnnl_dims_t size = {k, n}, pitch = {turned ? 1 : n, turned ? k : 1};
    if (!good(dnnl_memory_desc_init_by_strides(&layout, 2, size, dnnl_f32, pitch))) return false;
    if (ldy == n) return multiply(y, a, &layout, b, m, n, k, add);
    float *tile = mem_keep(&dense, m * n * (int64_t)sizeof *tile);
    if (!tile || !multiply(tile, a, &layout, b, m, n, k, false)) return false;
    for (int64_t i = 0; i < m; i++, y += ldy, tile += n) {
        if (add)
            row_add(y, y, tile, n);
        else
            memcpy(y, tile, (size_t)n * sizeof *y);
    }
    return true;
}
#endif
