/* Bits per weight of every method against the tensors of its format, counted here by hand. */
#include "layer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum { ROWS = 72, COLS = 192, WEIGHTS = ROWS * COLS, GROUP = 64, GROUPS = COLS / GROUP };

/* A method with its options, and the bits that it stores in all. */
struct format {
    const char *method;
    int64_t bits;
    const char *option, *value; /* one option, or NULL */
    int64_t stored;
};

/* Tensors: codes + scales + zeros + ... */
static const struct format formats[] = {
    /* qweight, scales f16, qzeros of the codes' width (GPTQModel, AutoAWQ) */
    {"rtn", 3, NULL, NULL, 3 * WEIGHTS + 16 * ROWS *GROUPS + 3 * ROWS *GROUPS},
    {"rtn", 4, "--range-search", "2.4", 4 * WEIGHTS + 16 * ROWS *GROUPS + 4 * ROWS *GROUPS},
    {"rtn", 4, "--group-size", "-1", 4 * WEIGHTS + 16 * ROWS + 4 * ROWS},
    /* groups that do not divide the row: 80, 80, 32 */
    {"rtn", 4, "--group-size", "80", 4 * WEIGHTS + 16 * ROWS * 3 + 4 * ROWS * 3},
    /* two f16 matrices of rank 5 */
    {"rtn", 3, "--lqer-rank", "5",
     3 * WEIGHTS + 16 * ROWS *GROUPS + 3 * ROWS *GROUPS + 16 * 5 * (ROWS + COLS)},
    {"gptq", 4, "--lqer-rank", "1000",
     4 * WEIGHTS + 16 * ROWS *GROUPS + 4 * ROWS *GROUPS + 16 * ROWS *(ROWS + COLS)},
    /* signs of a mixing follow from its seed */
    {"rtn", 4, "--mixing", "hadamard", 4 * WEIGHTS + 16 * ROWS *GROUPS + 4 * ROWS *GROUPS},
    {"gptq", 4, NULL, NULL, 4 * WEIGHTS + 16 * ROWS *GROUPS + 4 * ROWS *GROUPS},
    {"gptq", 4, "--mixing", "hadamard", 4 * WEIGHTS + 16 * ROWS *GROUPS + 4 * ROWS *GROUPS},
    {"gptq", 4, "--order", "group", 4 * WEIGHTS + 16 * ROWS *GROUPS + 4 * ROWS *GROUPS},
    /* and g_idx, 32 bits a column */
    {"gptq", 4, "--order", "activation",
     4 * WEIGHTS + 16 * ROWS *GROUPS + 4 * ROWS *GROUPS + 32 * COLS},
    {"gptaq", 4, NULL, NULL, 4 * WEIGHTS + 16 * ROWS *GROUPS + 4 * ROWS *GROUPS},
    /* scales of channels are folded into the norm, or f16 */
    {"awq", 4, NULL, NULL, 4 * WEIGHTS + 16 * ROWS *GROUPS + 4 * ROWS *GROUPS},
    {"awq", 4, "--scaled", "free", 4 * WEIGHTS + 16 * ROWS *GROUPS + 4 * ROWS *GROUPS + 16 * COLS},
    /* W_q, scale and zero f16 */
    {"hqq", 3, NULL, NULL, 3 * WEIGHTS + 32 * ROWS *GROUPS},
    /* weight, absmax f32 for 64 */
    {"nf4", 4, NULL, NULL, 4 * WEIGHTS + 32 * (WEIGHTS / 64)},
    {"fp4", 4, NULL, NULL, 4 * WEIGHTS + 32 * (WEIGHTS / 64)},
    /* absmax in 8 bits, nested absmax f32 for 256 of them, an offset f32: 216 blocks */
    {"nf4", 4, "--double-quant", NULL, 4 * WEIGHTS + 8 * 216 + 32 + 32},
    /* e8m0 for 32, e4m3 for 16 and one f32 */
    {"mxfp4", 4, NULL, NULL, 4 * WEIGHTS + 8 * (WEIGHTS / 32)},
    {"nvfp4", 4, NULL, NULL, 4 * WEIGHTS + 8 * (WEIGHTS / 16) + 32},
    /* blocks of 16 rows and 8 columns, a sign for each row and column, and a scale */
    {"e8p", 3, NULL, NULL, 3 * 80 * COLS + ROWS + COLS + 32},
    {"e8p", 3, "--no-incoherence", NULL, 3 * 80 * COLS + 32},
    /* the same with tiles of 16 x 16; the last rows are coded in a whole tile */
    {"trellis", 2, NULL, NULL, 2 * 80 * COLS + ROWS + COLS + 32},
    {"trellis", 4, "--trellis-code", "3inst", 4 * 80 * COLS + ROWS + COLS + 32},
    /* a sign, and another or the side of the point; a bit for a column; seven numbers of each row
       in two blocks of columns */
    {"billm", 1, NULL, NULL, 2 * WEIGHTS + COLS + 7 * 32 * ROWS * 2},
    {"billm", 1, "--scale-dtype", "f16", 2 * WEIGHTS + COLS + 7 * 16 * ROWS * 2},
    {"billm", 1, "--block-size", "191", 2 * WEIGHTS + COLS + 7 * 32 * ROWS * 2},
    /* codes of 8 or 6 bits and an f32 scale of 64; e8m0 and e4m3 as above; five trits in a byte */
    {"rtn", 8, "--codes", "fp8_e4m3", 8 * WEIGHTS + 32 * ROWS *GROUPS},
    {"gptq", 6, "--codes", "fp6_e2m3", 6 * WEIGHTS + 32 * ROWS *GROUPS},
    {"rtn", 1, "--codes", "sign", WEIGHTS + 32 * ROWS *GROUPS},
    {"gptq", 2, "--codes", "ternary", 8 * 39 * ROWS + 32 * ROWS *GROUPS},
    /* CB, SCB f32 a row */
    {"int8_weight", 8, NULL, NULL, 8 * WEIGHTS + 32 * ROWS},
    {"int8", 8, NULL, NULL, 8 * WEIGHTS + 32 * ROWS},
    /* the norm absorbs the factors */
    {"smoothquant", 8, NULL, NULL, 8 * WEIGHTS + 32 * ROWS},
    /* weights that are on no grid */
    {"noise", 3, NULL, NULL, 32 * WEIGHTS},
    {"permuted", 3, NULL, NULL, 32 * WEIGHTS},
    {"flipped", 3, "--change-of", "rtn", 32 * WEIGHTS},
    /* 2^3 values of 16 bits a row */
    {"codebook", 3, NULL, NULL, 3 * WEIGHTS + 8 * 16 * ROWS},
    /* and an f16 and its column of 32 bits for 69 weights (0.5 %), ROWS + 1 starts of rows */
    {"codebook", 3, "--sparse", "0.5",
     3 * WEIGHTS + 8 * 16 * ROWS + (16 + 32) * 69 + 32 * (ROWS + 1)},
    {"codebook", 2, "--sensitive", "0.05",
     2 * WEIGHTS + 4 * 16 * ROWS + (16 + 32) * 6 + 32 * (ROWS + 1)},
    /* an f16 for 32, also of the types that rows of 192 get instead (q5_1: two) */
    {"q4_0", 4, NULL, NULL, 4 * WEIGHTS + 16 * (WEIGHTS / 32)},
    {"iq4_nl", 4, NULL, NULL, 4 * WEIGHTS + 16 * (WEIGHTS / 32)},
    {"q8_0", 8, NULL, NULL, 8 * WEIGHTS + 16 * (WEIGHTS / 32)},
    {"q2_k", 2, NULL, NULL, 4 * WEIGHTS + 16 * (WEIGHTS / 32)},
    {"q3_k", 3, NULL, NULL, 4 * WEIGHTS + 16 * (WEIGHTS / 32)},
    {"q4_k", 4, NULL, NULL, 5 * WEIGHTS + 16 * (WEIGHTS / 32)},
    {"q5_k", 5, NULL, NULL, 5 * WEIGHTS + 32 * (WEIGHTS / 32)},
    {"q6_k", 6, NULL, NULL, 8 * WEIGHTS + 16 * (WEIGHTS / 32)},
};
enum { FORMATS = sizeof formats / sizeof *formats };

static void bits_per_weight_are_those_stored(void **state)
{
    (void)state;
    struct layer l = layer_make(ROWS, COLS, 400);
    for (int i = 0; i < FORMATS; i++) {
        const struct format *f = &formats[i];
        struct quant_options o = options_make(GROUP);
        struct quant_report r;
        struct err e = {0};
        float *q;
        if (f->option) option_set(&o, f->option, f->value);
        if (layer_quantize(&l, quant_find(f->method), f->bits, &o, &q, &r, &e) != OK)
            fail_msg("%s: %s", f->method, e.text);
        if (fabs(r.bits_per_weight * WEIGHTS - (double)f->stored) > 1e-6)
            fail_msg("%s %s: %.3f bits, by hand %lld", f->method, f->option ? f->option : "",
                     r.bits_per_weight * WEIGHTS, (long long)f->stored);
        free(q);
    }
    layer_free(&l);
}

static void every_method_has_a_format(void **state)
{
    (void)state;
    for (int i = 0; quant_at(i); i++) {
        int found = 0;
        for (int k = 0; k < FORMATS; k++)
            found += strcmp(formats[k].method, quant_at(i)->name) == 0;
        if (!found) fail_msg("no format of %s", quant_at(i)->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_per_weight_are_those_stored),
        cmocka_unit_test(every_method_has_a_format),
    };
    linalg_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
