/* The fields of the metrics and those of the kinds of result are the same, name by name. */
#include "eval/metric.h"
#include "records/rows.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct metric_field *metric_field(const char *name, enum metric_scope scope)
{
    for (int k = 0; metrics[k]; k++)
        for (const struct metric_field *f = metrics[k]->fields; f && f->name; f++)
            if (f->scopes & scope && strcmp(f->name, name) == 0) return f;
    return NULL;
}

/* The kind's field of that name for each dataset. */
static const struct field *inner_field(const struct measure *kind, const char *name)
{
    for (const struct field *f = kind->fields; f->name; f++)
        if (f->place == IN_INNER && strcmp(f->name, name) == 0) return f;
    return NULL;
}

/* What a replicate leaves out, since its other numbers give it. */
static bool follows(const char *name)
{
    return strstr(name, "_stderr") || strcmp(name, "perplexity") == 0 ||
           strcmp(name, "bits_per_byte") == 0 || strcmp(name, "sequence_loss") == 0;
}

static void compare(const struct measure *kind, enum metric_scope scope)
{
    for (int k = 0; metrics[k]; k++) {
        assert_true(metrics[k]->n_sums > 0 && metrics[k]->accumulate);
        for (const struct metric_field *f = metrics[k]->fields; f && f->name; f++) {
            assert_true(!f->value != !f->each && f->scopes);
            if (!(f->scopes & scope) || (kind == &measure_replicate && follows(f->name))) continue;
            assert_ptr_equal(metric_field(f->name, scope), f); /* no two of one name */
            const struct field *of_kind = inner_field(kind, f->name);
            if (f->each)
                assert_true(kind->sequences && strcmp(f->name, "sequence_loss") == 0);
            else if (!of_kind || (of_kind->type == FIELD_INTEGER) != f->integer)
                fail_msg("%s: no such field of %s", f->name, kind->name);
        }
    }
    for (const struct field *f = kind->fields; f->name; f++)
        if (f->place == IN_INNER && !metric_field(f->name, scope))
            fail_msg("%s of %s: no metric gives it", f->name, kind->name);
}

static void fields_of_kinds_and_metrics_agree(void **state)
{
    (void)state;
    compare(measure_find("checkpoint"), METRIC_CHECKPOINT);
    compare(measure_find("cell"), METRIC_CELL);
    compare(&measure_replicate, METRIC_CELL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_kinds_and_metrics_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
