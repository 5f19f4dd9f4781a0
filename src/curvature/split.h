/* split: a trace estimated by tensor, summed up by layer and by kind of tensor. */
#pragma once
#include "curvature/subject.h"
#include "curvature/trace.h"

struct trace_part {
    const char *kind; /* tensor's name behind the layer's number, "" for all of a layer; borrowed
                         from the subject's names */
    int64_t layer;    /* -1: outside the blocks, or a kind in all layers */
    int64_t elements;
    double trace, error; /* error: standard error over the probes */
};

struct trace_split {
    int64_t n;
    struct trace_part *parts; // (n) layers in order, outside first, then kinds as they appear
};

/* t: of the subject's Hessian, its parts the subject's tensors. ERR_NOMEM. */
MUST_USE enum status trace_split(const struct subject *s, const struct trace_estimate *t,
                                 struct trace_split *out, struct err *e);
void trace_split_free(struct trace_split *s);
