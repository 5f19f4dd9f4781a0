#include "engine/provenance.h"
#include "engine/inputs.h"
#include "math/isa.h"
#include "math/linalg.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/version.h"
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

double provenance_peak_memory(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return 1024.0 * (double)usage.ru_maxrss;
}

static json_t *provenance_of(const struct provenance *o)
{
    char host[256] = "", utc_end[21];
    gethostname(host, sizeof host - 1);
    clock_utc(utc_end);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s*}", "host", host, "utc_start", o->utc_start,
                     "utc_end", utc_end, "weights_hash", o->weights_hash, "path",
                     weights_folder(&o->visit->weights), "special_tokens",
                     json_text(o->visit->inputs, INPUT_SPECIAL, NULL));
}

const char *provenance_stamp(const struct err *failure, const char *stamp)
{
    return failure->code == ERR_CHANGED ? "changed" : stamp;
}

json_t *provenance_record(const struct provenance *o, const char *type, const char *key,
                          const struct err *failure)
{
    bool failed = failure && failure->code != OK;
    if (failed)
        log_trace("visit", "%s %s:%s%s", type, o->visit->checkpoint, failure->text, failure->trail);
    json_t *record = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:{}, s:{}, s:o}", "type", type,
                               "key", key, "fingerprint", o->fingerprint, "model", o->visit->model,
                               "checkpoint", o->visit->checkpoint, "status",
                               failed ? "failed" : "done", "message", failed ? failure->text : "",
                               "values", "datasets", "provenance", provenance_of(o));
    if (record && !failed && o->reads && json_object_size(o->reads->digests))
        json_object_set(json_object_get(record, "provenance"), "weights_read", o->reads->digests);
    if (record && failed) {
        json_object_set_new(record, "code", json_string(status_word(failure->code)));
        json_object_set_new(json_object_get(record, "provenance"), "inputs",
                            json_string(provenance_stamp(failure, o->stamp)));
        if (failure->code == ERR_NOMEM)
            record_integer(json_object_get(record, "provenance"), "memory_limit", o->memory_limit);
    }
    return record;
}

void record_row(json_t *table, const struct field *columns, json_t *const *row)
{
    for (; columns->name; columns++) {
        if (!json_object_get(table, columns->name))
            json_object_set_new(table, columns->name, json_array());
        json_array_append_new(json_object_get(table, columns->name), *row++);
    }
}

enum status provenance_failure(const json_t *record, struct err *e)
{
    enum status code = status_of_word(json_text(record, "code", NULL));
    bool done = strcmp(json_text(record, "status", ""), "done") == 0;
    NEED(done, code == OK ? ERR_FORMAT : code, "%s", json_text(record, "message", "failed"));
    return OK;
}

enum status visit_fingerprint(MPI_Comm group, const struct run_options *o, bool curvature,
                              enum products products, bool integers, char **out, struct err *e)
{
    int size;
    char ranks[64] = "any";
    bool named = curvature || !o->reproducible;
    MPI_Comm_size(group, &size);
    if (named && size == 1) snprintf(ranks, sizeof ranks, "1");
    if (named && size > 1)
        snprintf(ranks, sizeof ranks, "%d, ScaLAPACK from %lld", size,
                 (long long)o->scalapack_from);
    return mem_format(out, e, "qtraj %s; ranks %s; %s; products %s, %s; integers %s; kernels %s",
                      version_text, ranks, linalg_blas_name(), products_words[products],
                      products_unit(products), integers ? integers_unit() : "simulated",
                      isa_name(isa_active()));
}
