/* quantization_config of blocks of codes (coding/block_code.h). */
#include "checkpoint/packed_internal.h"
#include <math.h>
#include <string.h>

enum status packed_blocks_layout(const json_t *q, const char *file, struct packed_layout *out,
                                 struct err *e)
{
    const char *code = json_text(q, "code", "");
    int kind = 0;
    while (block_kinds[kind] && strcmp(block_kinds[kind], code) != 0) kind++;
    NEED(block_kinds[kind], ERR_FORMAT,
         "%s: quantization_config.code is \"%s\"; expected 1mad, 3inst, hyb or e8p", file, code);
    const bool e8p = kind == BLOCK_E8P;
    const int64_t bits = json_int(q, "bits"), window = e8p ? 0 : json_int(q, "window");
    const int64_t values = e8p ? 1 : bitshift_values(kind);
    NEED(bits >= (e8p ? 2 : 1) && bits <= 4, ERR_FORMAT,
         "%s: quantization_config: %s has no codes of %lld bits", file, code, (long long)bits);
    NEED(e8p || (window >= BITSHIFT_WINDOW_MIN && window <= BITSHIFT_WINDOW_MAX &&
                 window >= 2 * bits * values),
         ERR_FORMAT, "%s: quantization_config: %s of %lld bits has no window of %lld", file, code,
         (long long)bits, (long long)window);
    *out = (struct packed_layout){.format = PACKED_BLOCKS,
                                  .bits = bits,
                                  .group_size = -1,
                                  .blocks = {kind, bits, window},
                                  .mixed = json_is_true(json_object_get(q, "incoherence"))};
    return OK;
}

enum status packed_blocks_code(const json_t *q, const char *file, struct block_code *out,
                               struct err *e)
{
    const json_t *numbers = json_object_get(q, "table");
    float table[2 * BITSHIFT_TABLE];
    struct packed_layout l;
    PASS(packed_blocks_layout(q, file, &l, e));
    const bool hyb = l.blocks.kind == BLOCK_HYB;
    NEED(!hyb || json_array_size(numbers) == 2 * BITSHIFT_TABLE, ERR_FORMAT,
         "%s: quantization_config.table: %d numbers are expected", file, 2 * BITSHIFT_TABLE);
    for (size_t i = 0; hyb && i < 2 * BITSHIFT_TABLE; i++) {
        table[i] = (float)json_number_get(json_array_get(numbers, i));
        NEED(isfinite(table[i]), ERR_FORMAT,
             "%s: quantization_config.table: number %zu is none, or not finite", file, i);
    }
    return block_code_open(&l.blocks, hyb ? table : NULL, out, e);
}
