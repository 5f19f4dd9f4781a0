/* Whether two records of one key agree. */
#include "records/measures.h"
#include "records/scores.h"
#include "run/merge.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Losses of one cell that were measured on different machines may differ by so many standard
 * errors: GPTQ turns a difference in the last bit into one in the third digit. */
static const double errors_allowed = 5;
/* Of a full-precision loss, relative to it, there is only rounding, which is no random error. */
static const double rounding = 1e-5;

/* --- bit for bit --- */

/* In records of any measure: a completion, and a replicate, has numbers of another. */
static bool is_volatile(const char *name)
{
    for (int i = 0; recorded_measures[i]; i++)
        for (const struct field *f = recorded_measures[i]->fields; f->name; f++)
            if (f->rerun == VOLATILE && strcmp(f->name, name) == 0) return true;
    return false;
}

static bool same_number(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static bool same(const json_t *a, const json_t *b, char *why, size_t size);

/* Members that only one of them has are not compared: a cube has no NaN, and a prediction may not
 * have been made yet. */
static bool same_members(const json_t *a, const json_t *b, char *why, size_t size)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)a, name, value) {
        const json_t *other = json_object_get(b, name);
        if (!other || is_volatile(name)) continue;
        if (same(value, other, why, size)) continue;
        if (why[0] == '\0') snprintf(why, size, "%s", name);
        return false;
    }
    return true;
}

static bool same(const json_t *a, const json_t *b, char *why, size_t size)
{
    if (json_is_object(a)) return same_members(a, b, why, size);
    if (json_is_array(a)) {
        if (json_array_size(a) != json_array_size(b)) return false;
        for (size_t i = 0; i < json_array_size(a); i++)
            if (!same(json_array_get(a, i), json_array_get(b, i), why, size)) return false;
        return true;
    }
    if (json_is_string(a) && json_is_string(b))
        return strcmp(json_string_value(a), json_string_value(b)) == 0;
    return same_number(json_number_get(a), json_number_get(b));
}

static bool same_numbers(const struct measure *k, const json_t *a, const json_t *b, char *why,
                         size_t size)
{
    const char *const members[] = {"values", "tables", k->inner ? k->inner->plan : NULL,
                                   k->list ? k->list->name : NULL};
    why[0] = '\0';
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const json_t *x = members[i] ? json_object_get(a, members[i]) : NULL;
        const json_t *y = members[i] ? json_object_get(b, members[i]) : NULL;
        if (x && y && !same(x, y, why, size)) return false;
    }
    return true;
}

/* --- within the errors --- */

/* The standard error of the mean difference of two lists of losses of the same sequences; 0 if
 * there are fewer than two. */
static double error_of_difference(const json_t *a, const json_t *b)
{
    const size_t n = json_array_size(a);
    double mean = 0, squares = 0;
    if (n < 2 || n != json_array_size(b)) return 0;
    for (size_t i = 0; i < n; i++)
        mean += (json_number_get(json_array_get(a, i)) - json_number_get(json_array_get(b, i))) /
                (double)n;
    for (size_t i = 0; i < n; i++) {
        const double d =
            json_number_get(json_array_get(a, i)) - json_number_get(json_array_get(b, i)) - mean;
        squares += d * d;
    }
    return sqrt(squares / (double)(n - 1) / (double)n);
}

/* How far two losses on one text may be apart: of a cell, by the paired standard error of its added
 * loss; of full precision, by that of the difference, and by rounding. */
static double allowed_between(const json_t *a, const json_t *b)
{
    const double own = json_number_get(json_object_get(a, "loss_delta_stderr"));
    const double other = json_number_get(json_object_get(b, "loss_delta_stderr"));
    const double loss = json_number_get(json_object_get(a, "loss"));
    if (!isnan(own) || !isnan(other)) return errors_allowed * fmax(own, other);
    const double error = error_of_difference(json_object_get(a, "sequence_loss"),
                                             json_object_get(b, "sequence_loss"));
    return fmax(errors_allowed * error, rounding * fabs(loss));
}

static bool lost_ranks_agree(const struct measure *k, const json_t *a, const json_t *b, char *why,
                             size_t size)
{
    const json_t *all = k->inner ? json_object_get(a, k->inner->plan) : NULL;
    const char *label;
    json_t *own;
    json_object_foreach((json_t *)(uintptr_t)all, label, own) {
        const json_t *other = json_object_get(json_object_get(b, k->inner->plan), label);
        const double x = json_number_get(json_object_get(own, "loss"));
        const double y = json_number_get(json_object_get(other, "loss"));
        const double allowed = allowed_between(own, other);
        if (!other || same_number(x, y) || fabs(x - y) <= allowed) continue;
        snprintf(why, size, "loss on %s: %.6g and %.6g, more than %g paired standard errors apart",
                 json_text(scores_find(a, label), "name", label), x, y, errors_allowed);
        return false;
    }
    return true;
}

enum merge_verdict merge_compare(const json_t *a, const json_t *b, char *why, size_t size)
{
    const struct measure *k = measure_find(json_text(a, "type", ""));
    const json_t *from = json_object_get(a, "provenance"), *of = json_object_get(b, "provenance");
    const char *weights = json_text(from, "weights_hash", ""), *others;
    char name[128];
    why[0] = '\0';
    if (!k)
        k = &measure_cell; /* a completion, which has no state */
    else if (result_state_of(a) != STATE_DONE || result_state_of(b) != STATE_DONE)
        return MERGE_SAME;
    others = json_text(of, "weights_hash", weights);
    if (weights[0] && strcmp(weights, others) != 0) {
        snprintf(why, size, "measured on different weights");
        return MERGE_CONFLICT;
    }
    if (same_numbers(k, a, b, name, sizeof name)) return MERGE_SAME;
    if (strcmp(json_text(a, "fingerprint", ""), json_text(b, "fingerprint", "")) == 0) {
        snprintf(why, size, "%s differs, with the same fingerprint", name);
        return MERGE_CONFLICT;
    }
    if (!lost_ranks_agree(k, a, b, why, size)) return MERGE_CONFLICT;
    snprintf(why, size, "%s differs, and so do the fingerprints", name);
    return MERGE_DIFFERENT;
}
