#include "cube/verdict.h"

void verdict_print(const struct rows *r, const char *indent, FILE *out)
{
    const struct measure_iterated *k = r->kind->iterated;
    const struct result_convergence c = rows_convergence(r);
    const long long n = c.n, open = c.open;
    if (c.n == 0) return;
    if (open == 0)
        fprintf(out, "%s%lld of %lld %s converged\n", indent, n, n, k->noun);
    else
        fprintf(out, "%s%lld of %lld %s not converged (residual up to %.2g %% of the value: %s)\n",
                indent, open, n, k->noun, 100 * c.residual, k->remedy);
}
