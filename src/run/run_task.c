#include "run/run_task.h"
#include "measures/surface.h"
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

enum status run_task_name(const struct visit *v, char **name, struct err *e)
{
    const struct surface_task *t = v->task[MEASURE_point];
    if (!t) return mem_format(name, e, "%s %s", v->model, v->checkpoint);
    return mem_format(name, e, "surface %s%s%s", t->surface, t->point ? " " : "",
                      t->point ? t->point : "");
}
