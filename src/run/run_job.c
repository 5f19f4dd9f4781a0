#include "run/run_job.h"

enum status run_job_write(const struct plan_visit *v, char **text, struct err *e)
{
    json_auto_t *json = plan_visit_json(v);
    *text = json ? json_dump_whole(json, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    NEED(*text, ERR_NOMEM, "out of memory for the jobs");
    return OK;
}
