/* NF4, the normal-float format of QLoRA (Dettmers et al. 2023, appendix E), as bitsandbytes 0.50
 * has it (functional.get_4bit_type; thresholds: csrc/kernels.cu, dQuantizeNF4). */
#include "quant/absmax.h"

static const struct codes table = {
    .n = 16,
    .value = {-1, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
              -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0,
              0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f,
              0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f,
              1},
    .threshold = {-0.8480964004993439f, -0.6106329262256622f, -0.4599952697753906f,
                  -0.33967943489551544f, -0.23460740596055984f, -0.13791173323988914f,
                  -0.045525018125772476f, 0.03979014977812767f, 0.1202552504837513f,
                  0.2035212516784668f, 0.2920137718319893f, 0.3893125355243683f,
                  0.5016634166240692f, 0.6427869200706482f, 0.8614784178118011f},
};

static enum status run(const struct quant_job *job, struct quant_report *report, struct err *e)
{
    return absmax_run(&table, job, report, e);
}

const struct quant_method quant_nf4 = {
    .name = "nf4",
    .doc =
        "4-bit codes for normally distributed weights (QLoRA), scaled by the largest weight of a "
        "block; no calibration",
    .bits_min = 4,
    .bits_max = 4,
    .results = QUANT_ZERO_IS_ZERO,
    .options = "absmax_block double_quant",
    .run = run,
    .memory = absmax_memory,
    .flop = ABSMAX_FLOP,
};
