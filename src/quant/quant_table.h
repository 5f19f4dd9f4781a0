/* quant_table: the lists of methods and of statistics. A new one is one entry here; enumerators,
 * declarations and tables are generated from these lists. */
#pragma once

/* X(rtn) is `const struct quant_method quant_rtn` (quant.h), defined in its file. */
#define QUANT_METHODS(X)                                                                           \
    X(rtn)                                                                                         \
    X(gptq)                                                                                        \
    X(gptaq)                                                                                       \
    X(awq)                                                                                         \
    X(hqq)                                                                                         \
    X(nf4)                                                                                         \
    X(fp4)                                                                                         \
    X(mxfp4)                                                                                       \
    X(nvfp4)                                                                                       \
    X(int8_weight)                                                                                 \
    X(int8)                                                                                        \
    X(codebook)                                                                                    \
    X(smoothquant)                                                                                 \
    X(q2_k)                                                                                        \
    X(q3_k)                                                                                        \
    X(q4_k)                                                                                        \
    X(q5_k)                                                                                        \
    X(q6_k)                                                                                        \
    X(q4_0)                                                                                        \
    X(iq4_nl)                                                                                      \
    X(q8_0)                                                                                        \
    X(noise)                                                                                       \
    X(permuted)                                                                                    \
    X(flipped)                                                                                     \
    X(trellis)                                                                                     \
    X(e8p)                                                                                         \
    X(billm)

/* STATISTIC_GRAM is `const struct statistic statistic_gram` (statistic.h), defined in statistic.c
 * or a file of its own. */
#define QUANT_STATISTICS(X)                                                                        \
    X(GRAM, gram)                                                                                  \
    X(SQUARES, squares)                                                                            \
    X(MAGNITUDE, magnitude)                                                                        \
    X(SAMPLE, sample)                                                                              \
    X(LARGEST, largest)                                                                            \
    X(LARGEST_FULL, largest_full)                                                                  \
    X(SQUARES_FULL, squares_full)                                                                  \
    X(MEAN_FULL, mean_full)                                                                        \
    X(ASYMMETRY, asymmetry)
