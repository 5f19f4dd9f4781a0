/* metric_table: the lists of metrics and of the numbers that they give for each dataset. A new
 * metric is its file and its lines here: records, cube, tables, replicates and docs follow from
 * them. */
#pragma once

/* X(loss) is `const struct metric metric_loss` (metric.h), defined in its file. */
#define METRICS(X)                                                                                 \
    X(loss)                                                                                        \
    X(kl_divergence)                                                                               \
    X(top1_agreement)                                                                              \
    X(hits)

/* Numbers of a cell: X(metric, name, SPREAD, units, long name). value_NAME (metric.h), defined in
 * the metric's file, computes it. With SPREAD replicates have it too, and the cube has its mean and
 * standard deviation over them. */
#define METRIC_CELL_FIELDS(X)                                                                      \
    X(loss, loss, SPREAD, "nat", "cross-entropy per token of the quantized model")                 \
    X(loss, loss_delta, SPREAD, "nat",                                                             \
      "cross-entropy of the quantized model minus that of the full-precision one")                 \
    X(loss, loss_delta_stderr, NO_SPREAD, "nat",                                                   \
      "paired standard error of loss_delta, over sequences")                                       \
    X(loss, loss_relative, SPREAD, "1", "relative error CE(quantized) / CE(full precision) - 1")   \
    X(loss, loss_relative_stderr, NO_SPREAD, "1",                                                  \
      "paired standard error of loss_relative, over sequences")                                    \
    X(loss, perplexity, NO_SPREAD, "1", "perplexity of the quantized model")                       \
    X(loss, bits_per_byte, NO_SPREAD, "bit byte-1",                                                \
      "cross-entropy of the quantized model per byte of text")                                     \
    X(kl_divergence, kl_divergence, SPREAD, "nat",                                                 \
      "mean KL divergence of the quantized model's next-token distribution from the full one")     \
    X(top1_agreement, top1_agreement, SPREAD, "1",                                                 \
      "share of positions where both models put the same token first")

/* Numbers of the full-precision checkpoint: X(metric, name, REAL or INTEGER, units, long name). In
 * the cube their names begin with baseline_. */
#define METRIC_CHECKPOINT_FIELDS(X)                                                                \
    X(loss, loss, REAL, "nat", "full-precision cross-entropy per token")                           \
    X(loss, loss_stderr, REAL, "nat",                                                              \
      "standard error of the full-precision cross-entropy, over sequences")                        \
    X(loss, perplexity, REAL, "1", "full-precision perplexity")                                    \
    X(loss, bits_per_byte, REAL, "bit byte-1", "full-precision cross-entropy per byte of text")    \
    X(loss, tokens, INTEGER, "1", "tokens scored")                                                 \
    X(loss, bytes, INTEGER, "1", "bytes of text scored")
