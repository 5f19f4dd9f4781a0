#include "run/run_task.h"
#include "util/mem.h"

enum status run_task_write(const struct plan_visit *v, char **text, struct err *e)
{
    enum status st = OK;
    json_t *json = plan_visit_json(v);
    *text = json ? json_dump_whole(json, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    ENSURE(*text, ERR_NOMEM, "out of memory for the tasks");
done:
    json_decref(json);
    return st;
}
