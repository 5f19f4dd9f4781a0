/* What stands for onednn.c in a build without oneDNN. */
#include "math/onednn.h"

#ifndef QTRAJ_ONEDNN

const struct onednn *onednn_found(void)
{
    static const struct onednn none = {
        .why_not = "this build has no oneDNN 2",
        .remedy = "install oneDNN 2 (jobs/install.sh products) and build again"};
    return &none;
}

enum status onednn_layout_make(enum onednn_type type, int64_t n, int64_t k,
                               struct onednn_layout **out, struct err *e)
{
    (void)type, (void)n, (void)k;
    *out = NULL;
    RAISE(ERR_USAGE, "this build has no oneDNN");
}

int64_t onednn_layout_bytes(const struct onednn_layout *l)
{
    (void)l;
    return 0;
}

uint64_t onednn_layout_digest(const struct onednn_layout *l)
{
    (void)l;
    return 0;
}

enum status onednn_pack(const struct onednn_layout *l, const void *b, void *data, struct err *e)
{
    (void)l, (void)b, (void)data;
    RAISE(ERR_USAGE, "this build has no oneDNN");
}

bool onednn_multiply(void *y, const void *a, const struct onednn_layout *l, const void *data,
                     int64_t m, bool add)
{
    (void)y, (void)a, (void)l, (void)data, (void)m, (void)add;
    return false;
}

bool onednn_product(float *y, int64_t ldy, const float *a, const float *b, bool turned, int64_t m,
                    int64_t n, int64_t k, bool add)
{
    (void)y, (void)ldy, (void)a, (void)b, (void)turned, (void)m, (void)n, (void)k, (void)add;
    return false;
}
#endif
