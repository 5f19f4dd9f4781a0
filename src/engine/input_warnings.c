#include "engine/input_warnings.h"
#include "eval/overlap.h"
#include "util/log.h"

enum status warn_of_overlap(const struct visit *v, const struct visit_inputs *in, struct err *e)
{
    if (!in->calibration) return OK;
    for (int64_t i = 0; i < v->n_evaluations; i++) {
        int64_t found, n = in->first[i + 1] - in->first[i];
        PASS(overlap_count(in->evaluation, in->first[i], in->first[i + 1], in->calibration, &found,
                           e));
        if (found)
            log_warn(
                "%lld of %lld evaluation sequences also calibrate (%s): methods that calibrate "
                "look better on them than they are; evaluate on another text, or skip the "
                "sequences that calibrate",
                (long long)found, (long long)n, v->evaluations[i].name);
    }
    return OK;
}
