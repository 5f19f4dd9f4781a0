/* text_spans: the spans of texts, for the head. */
#pragma once
#include "eval/head.h"
#include "util/mem.h"

/* *out (s->n; the caller frees) = those of all sequences. */
static inline enum status text_spans(const struct sequences *s, struct span **out, struct err *e)
{
    PASS(mem_alloc(out, s->n, sizeof **out, "spans", e));
    for (int64_t i = 0; i < s->n; i++) (*out)[i] = head_text_span(s, i);
    return OK;
}
