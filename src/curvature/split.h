/* split: sums the trace estimates of tensors by layer and by kind of tensor. Local. */
#pragma once
#include "curvature/subject.h"
#include "curvature/trace.h"

struct trace_part {
    const char *kind; /* the tensors' name after the layer's number, "" for a whole layer; borrowed
                         from the subject's names */
    int64_t layer;    /* -1: outside the blocks, or a kind over all layers */
    int64_t elements;
    double trace, error; /* error: standard error over the probes */
};

struct trace_split {
    int64_t n;
    struct trace_part *parts; // (n) layers in order, outside first, then kinds as they appear
};

/* t: the trace of the subject's Hessian, with the subject's tensors as parts. Free *out with
 * trace_split_free whatever is returned. ERR_NOMEM. */
MUST_USE enum status trace_split(const struct subject *s, const struct trace_estimate *t,
                                 struct trace_split *out, struct err *e);
void trace_split_free(struct trace_split *s);
