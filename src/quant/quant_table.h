/* quant_table: the lists of methods and of statistics. A new one is one entry here; enumerators,
 * declarations and tables are generated from these lists. */
#pragma once

/* METHOD_RTN is `const struct quant_method quant_rtn` (quant.h), defined in its own file. */
#define QUANT_METHODS(X)                                                                           \
    X(RTN, rtn)                                                                                    \
    X(GPTQ, gptq)                                                                                  \
    X(GPTAQ, gptaq)                                                                                \
    X(AWQ, awq)                                                                                    \
    X(HQQ, hqq)                                                                                    \
    X(NF4, nf4)                                                                                    \
    X(FP4, fp4)                                                                                    \
    X(MXFP4, mxfp4)                                                                                \
    X(NVFP4, nvfp4)                                                                                \
    X(INT8_WEIGHT, int8_weight)                                                                    \
    X(INT8, int8)                                                                                  \
    X(CODEBOOK, codebook)                                                                          \
    X(SMOOTHQUANT, smoothquant)

/* STATISTIC_GRAM is `const struct statistic statistic_gram` (statistic.h), defined in statistic.c
 * or a file of its own. */
#define QUANT_STATISTICS(X)                                                                        \
    X(GRAM, gram)                                                                                  \
    X(SQUARES, squares)                                                                            \
    X(MAGNITUDE, magnitude)                                                                        \
    X(SAMPLE, sample)                                                                              \
    X(LARGEST, largest)                                                                            \
    X(ASYMMETRY, asymmetry)
