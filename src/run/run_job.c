#include "run/run_job.h"
#include "util/mem.h"

enum status run_job_write(const struct plan_visit *v, char **text, struct err *e)
{
    enum status st = OK;
    json_t *json = plan_visit_json(v);
    *text = json ? json_dump_whole(json, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    ENSURE(*text, ERR_NOMEM, "out of memory for the jobs");
done:
    json_decref(json);
    return st;
}
