#include "curvature/subject.h"
#include "util/mem.h"

static enum status gradient(void *context, float *g, double *loss, struct err *e)
{
    return hvp_gradient(context, g, loss, e);
}

enum status subject_of_hvp(struct hvp *h, struct subject *out, struct err *e)
{
    *out = (struct subject){.gradient = gradient, .context = h, .n_tensors = hvp_n_tensors(h)};
    hvp_operator(h, &out->hessian);
    PASS(mem_alloc(&out->tensors, out->n_tensors, sizeof *out->tensors, "tensors", e));
    for (int64_t i = 0; i < out->n_tensors; i++) out->tensors[i] = *hvp_tensor(h, i);
    return OK;
}

void subject_free(struct subject *s)
{
    free(s->tensors);
    *s = (struct subject){0};
}
